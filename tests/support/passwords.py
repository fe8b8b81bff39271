"""The password hasher of tests. Brokers that they start hash as brokers do."""

from mom_site.passwords import Argon2


class QuickArgon2(Argon2):
    """Argon2id that takes no time: hundreds of tests make users, and few of them are about passwords."""

    time_cost = 1
    memory_cost = 8  # KiB
