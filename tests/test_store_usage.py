"""The used part of a journal's space, for alerts, and the report that it is nearly full."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from broker_app.base.events import STORE
from broker_app.config import Config
from broker_app.node.store_usage import StoreUsage
from broker_app.telemetry.event_log import EventLog

ALONE = Config()
SHARED = replace(ALONE, journal="redis://127.0.0.1")


class Journal:
    """A journal with these statistics."""

    def __init__(self, **statistics: int) -> None:
        self._statistics = {"bytes_stored": 30, "bytes_on_disk": 30, **statistics}

    def use(self, percent: int) -> None:
        self._statistics |= {"bytes_on_disk": percent, "bytes_free": 100 - percent}

    def statistics(self) -> dict[str, int]:
        return self._statistics


def usage(config: Config, **statistics: int) -> float:
    return StoreUsage(config, cast(Any, Journal(**statistics)), EventLog(lambda: 0.0)).share()


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
    (tmp_path / "journal").mkdir()
    assert 0 < usage(replace(ALONE, data=tmp_path), bytes_on_disk=10**12) < 1


def test_a_store_is_nearly_full_from_eighty_percent_on_until_five_points_below(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    journal, events = Journal(), EventLog(lambda: 0.0)
    store = StoreUsage(SHARED, cast(Any, journal), events)
    found = []
    for percent in (79, 80, 95, 76, 75, 74, 79, 81):
        journal.use(percent)
        store.check()
        found.append(bool(store.nearly_full))
    assert found == [False, True, True, True, True, False, False, True]
    said = [(one.kind, one.name, one.event, one.code) for one in reversed(events.all())]
    begins, ends = (STORE, "journal", "nearly full", "NEARLY_FULL"), (STORE, "journal", "has space again", "")
    assert said == [begins, ends, begins]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert "uses 80 % of its space" in caplog.text and "MOM_MAX_STORE_BYTES" not in caplog.text
    assert store.nearly_full == events.all()[0].detail
