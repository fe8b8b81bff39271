"""Other brokers: what their consumers want, their messages, and how far they have come."""
