"""Seeds of tests by chance: a few in `make test`, other ones for each commit, and many in `make soak`."""

from __future__ import annotations

import os

#: the first seed of this run, which its head shows
FIRST_SEED = int(os.environ["STORM_SEED"])


def rounds(few: int, many: int) -> range:
    """How often a test is run: numbers to parametrize it by, since names of tests do not change. The seed of
    each is `FIRST_SEED` and its number."""
    return range(many if "SOAK" in os.environ else few)
