"""STOMP as a server: sessions, what frames mean, and the transports under a session."""
