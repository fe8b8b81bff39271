"""Reading without a change: what waits, what arrives, and why a message is where it is."""
