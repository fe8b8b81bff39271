"""Housekeeping: the part of a journal's space that is used, for alerts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from broker_app.config import Config
from broker_app.node.housekeeping import Housekeeping

ALONE = Config()
SHARED = replace(ALONE, journal="redis://127.0.0.1")


class Journal:
    """A journal with these statistics."""

    def __init__(self, **statistics: int) -> None:
        self._statistics = statistics

    def statistics(self) -> dict[str, int]:
        return {"bytes_stored": 30, "bytes_on_disk": 30, **self._statistics}


def usage(config: Config, **statistics: int) -> float:
    rest = cast(Any, None)
    return Housekeeping(config, rest, cast(Any, Journal(**statistics)), rest, rest, rest).store_usage()


@pytest.mark.parametrize(
    ("config", "statistics", "used"),
    [
        (SHARED, {"bytes_free": 10}, 0.75),
        (SHARED, {}, 0.0),  # a store that does not report its space
        (replace(SHARED, max_store_bytes=60), {"bytes_free": 10}, 0.5),
        (replace(ALONE, max_store_bytes=60), {}, 0.5),
    ],
)
def test_the_used_part_of_the_space(config: Config, statistics: dict[str, int], used: float) -> None:
    assert usage(config, **statistics) == used


def test_a_journal_of_its_own_shares_the_disk_of_its_data(tmp_path: Path) -> None:
    assert 0 < usage(replace(ALONE, data=tmp_path), bytes_on_disk=10**12) < 1
