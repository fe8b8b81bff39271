"""Storms against the core: `STORMS` of them (250 when it is not set; `make soak` asks for more) from
`STORM_SEED` on, which the head of the run shows: other ones for each commit, and in each `make soak`. What
they found is kept in `test_scenarios`."""

import os

import pytest

from tests.core.storm import storm
from tests.support.chance import FIRST_SEED

STORMS = int(os.environ.get("STORMS", "250"))
PARTS = 40


@pytest.mark.timeout(0 if STORMS > 100_000 else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_in_every_storm(part: int) -> None:
    for seed in range(FIRST_SEED + part, FIRST_SEED + STORMS, PARTS):
        try:
            storm(seed)
        except Exception as failure:
            failure.add_note(f"storm {seed}; see it with: python -m tests.core.storm {seed}")
            raise
