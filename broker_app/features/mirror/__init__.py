"""Mirrors: brokers of one name that share a journal. One serves; the others follow it and take over."""
