"""The promises for a backlog of a million messages in a store, judged from figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.machine import Machine
from benchmarks.store_backlog import promises, section
from tests.benchmarks.test_backlog import GOOD as DEEP
from tests.benchmarks.test_backlog import RAW

MIB = 1024
PLACE = Machine(2, "AMD EPYC", 24, "6.18", "Debian", "ext4", 0.1)


def grown(peak_mib: int, end_mib: int) -> dict[str, object]:
    return RAW | {
        "server": {"rss_peak_kib": peak_mib * MIB, "rss_end_kib": end_mib * MIB, "cpu_s_per_100k": 3.0}
    }


GOOD = replace(
    DEEP, count=1_000_000, fill=grown(250, 210), drain=grown(240, 200), restarted_mib=150, ready_seconds=5
)


def kept(**changes: object) -> list[bool]:
    return [promise.kept for promise in promises(replace(GOOD, **changes))]  # type: ignore[arg-type]


def test_a_good_run_keeps_every_promise() -> None:
    assert kept() == [True] * 4
    assert promises(GOOD)[1].measured == "115 bytes"


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"drain": grown(301, 200)}, 0),
        ({"restarted_mib": 300}, 0),
        ({"fill": grown(250, 225)}, 1),
        ({"ready_seconds": 8.1}, 2),
        ({"drain": grown(240, 200) | {"lost": 1}}, 3),
    ],
)
def test_each_promise_can_be_missed(changes: dict[str, object], missed: int) -> None:
    assert kept(**changes) == [number != missed for number in range(4)]


def test_memory_for_each_message_is_not_judged_from_a_shallow_backlog() -> None:
    assert len(promises(replace(GOOD, count=10_000))) == 3


@pytest.mark.process
def test_the_section_has_a_row_for_each_promise_of_each_journal() -> None:
    text = section([("own files", GOOD), ("postgres", GOOD)], PLACE, GOOD.count, "It was not quiet.")
    assert text.count("| pass |") == 8
    assert "- It was not quiet.\n" in text
    assert "| postgres | 40,000 | 30,000 | 1.0 | 150 |" in text
