"""The clients of a cluster: the lists that they are sent, and those that move."""
