"""The settings of a cluster, in a central file and with the names of other brokers."""
