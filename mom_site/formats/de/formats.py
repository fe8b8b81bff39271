"""Formats for scripts are the same in every language."""

DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = ","
