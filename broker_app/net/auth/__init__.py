"""Authentication: from credentials to an identity, and the slowing of guesses."""
