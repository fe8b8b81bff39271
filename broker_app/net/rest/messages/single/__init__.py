"""One message, by its id."""
