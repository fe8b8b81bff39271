"""Members of large families of tests, drawn by the seed of the run."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

from tests.support.chance import FIRST_SEED

Thing = TypeVar("Thing")


def sample(things: Iterable[Thing], count: int) -> list[Thing]:
    """`count` of the things, to parametrize a test by: other ones with each seed, in their order, and all of
    them in `make soak`. A family keeps at least a quarter of its members."""
    family = list(things)
    if 4 * count < len(family):
        raise ValueError(f"{count} of {len(family)} are less than a quarter")
    if "SOAK" in os.environ:
        return family
    drawn = sorted(random.Random(FIRST_SEED).sample(range(len(family)), count))
    return [family[place] for place in drawn]
