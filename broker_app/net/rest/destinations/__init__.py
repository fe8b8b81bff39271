"""Endpoints about queues, topics and subscriptions: status, statistics, the tree of names."""
