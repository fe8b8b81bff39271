"""The login of a session: CONNECT, the version, and registration as a service."""
