"""Endpoints about clients: connections, services, live subscribers."""
