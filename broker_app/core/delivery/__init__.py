"""Delivery to consumers: who is next, what is unsettled, and how it ends."""
