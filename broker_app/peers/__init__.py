"""Connections from this broker to others."""
