"""Selective delivery: message groups, and queues whose consumers do not all take every message."""
