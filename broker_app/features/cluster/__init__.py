"""Brokers of a cluster: each delivers messages to the consumers of all others. Decision 0028."""
