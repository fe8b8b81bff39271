"""Libraries of functions, each in a process of its own."""
