"""A connection that comes back: addresses, the search for a broker, and the pipe to it."""
