"""Authentication: from credentials to an identity, and the login throttle."""
