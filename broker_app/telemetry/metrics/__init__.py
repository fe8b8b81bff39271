"""Metrics for Prometheus: the list of all families, what reads each, and their text."""
