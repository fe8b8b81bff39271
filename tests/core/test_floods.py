"""Floods of producers against limits: a tenth as many as there are storms (see `test_storms`)."""

import pytest

from tests.core.flood import flood
from tests.core.test_storms import STORMS
from tests.support.chance import FIRST_SEED

PARTS = 10


@pytest.mark.timeout(0 if STORMS > 100_000 else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_limits_are_kept_and_nothing_is_lost_in_any_flood(part: int) -> None:
    for seed in range(FIRST_SEED + part, FIRST_SEED + STORMS // 10, PARTS):
        try:
            flood(seed)
        except Exception as failure:
            failure.add_note(f"flood {seed}; see it with: python -m tests.core.flood {seed}")
            raise
