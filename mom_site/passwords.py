"""Password hashing."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class Argon2(Argon2PasswordHasher):
    """Argon2id with OWASP's parameters; Django's take 100 MiB for each verification."""

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1
