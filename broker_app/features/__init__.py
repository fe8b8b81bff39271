"""Features: each is a client of the engine, apart from the path of messages."""
