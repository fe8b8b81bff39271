"""What scripts read of a page is the same in every language."""

DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = ","
