"""The benchmark of the data pipeline: its data, its baselines and its verdicts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks import pipeline_baselines, pipeline_forwarded
from benchmarks.pipeline_processes import _matched
from benchmarks.pipeline_promises import PROMISES, Seen, missed, table


def test_the_injected_errors_of_forwarding_are_those_that_duckdb_finds(tmp_path: Path) -> None:
    made = pipeline_forwarded.write(tmp_path, 2_000)
    until = (made.until - timedelta(minutes=1)).isoformat()
    found, _ = pipeline_baselines.reconcile(str(made.sent), str(made.received), until)
    assert {state: len(positions) for state, positions in found.items()} == {
        "ok": 1_410, "lost": 37, "doubled": 53, "in-flight": 500,
    }  # fmt: skip
    assert {state: found[state] for state in made.injected} == made.injected


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (Seen(150_000, "next"), "| 150,000 | next | kept |"),
        (Seen(149_999), "| 149,999 |  | **missed** |"),
        (Seen(150_000, fault="rows are missing"), "| **missed**: rows are missing |"),
    ],
)
def test_a_promise_is_kept_from_its_bound_on_and_without_a_fault(seen: Seen, verdict: str) -> None:
    assert verdict in table({"source-1k": seen})
    assert bool(list(missed({"source-1k": seen}))) == ("missed" in verdict)


def test_less_is_better_for_times(tmp_path: Path) -> None:
    assert PROMISES["freshness"].kept(5.0)
    assert not PROMISES["freshness"].kept(5.1)
    assert "≤ 5 s" in table({"freshness": Seen(1)})


def test_a_message_is_fresh_when_the_first_count_that_has_it_is_shown() -> None:
    sent = [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 30)]
    shown = [(1.5, 0), (2.5, 15), (4.0, 20)]
    assert _matched(sent, shown) == [1.5, 2.0], "the last messages are not shown yet"
