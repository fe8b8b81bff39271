"""Delivery where not every consumer takes every message: selectors and message groups."""
