"""The password hasher of tests, and of brokers that are forked. Brokers in interpreters of their own hash as
brokers do."""

from mom_site.passwords import Argon2


class QuickArgon2(Argon2):
    """Argon2id that takes no time: hundreds of tests make users, and few of them are about passwords."""

    time_cost = 1
    memory_cost = 8  # KiB


def hash_quickly() -> None:
    """Have the hasher of brokers take no time, in this process and in those that are forked from it."""
    Argon2.time_cost, Argon2.memory_cost = QuickArgon2.time_cost, QuickArgon2.memory_cost
