"""Message channels: applications at the brokers of a cluster send messages and requests to each other."""
