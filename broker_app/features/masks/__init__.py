"""Masks: values of messages that are hidden from users who look at them."""
