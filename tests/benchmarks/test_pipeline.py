"""The benchmark of the data pipeline: its data, its baselines and its verdicts."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow.dataset
import pytest

from benchmarks import pipeline_baselines, pipeline_forwarded
from benchmarks.pipeline_processes import _matched
from benchmarks.pipeline_promises import PROMISES, Seen, missed, table
from mom_pipeline.archive_tables import EVENT
from tests.journal.stage import quick_journal
from tests.pipeline.stage import JournalStage


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


def test_a_figure_without_a_promise_is_shown_and_kept() -> None:
    seen = {"archive-both": Seen(46_031, "and 92,062 events")}
    assert "| messages/s | 46,031 | and 92,062 events | kept |" in table(seen)
    assert not list(missed(seen))


def test_pyarrow_writes_what_the_decoder_gives_and_its_own_time_is_shown(tmp_path: Path) -> None:
    stage = JournalStage(partial(quick_journal, tmp_path / "journal"), f"file://{tmp_path / 'journal'}")
    for _ in range(5):
        stage.client().publish("/queue/a", b"x")
    stage.journal.close()
    written = pipeline_baselines.archive({"url": stage.url}, EVENT, tmp_path / "out")
    for folder in ("out", "out-writer"):
        found = pyarrow.dataset.dataset(tmp_path / folder, format="parquet", partitioning="hive")
        assert found.count_rows() == written.rows == 5
    assert min(written.writing_s, written.both_s) > 0


def test_a_message_is_fresh_when_the_first_count_that_has_it_is_shown() -> None:
    sent = [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 30)]
    shown = [(1.5, 0), (2.5, 15), (4.0, 20)]
    assert _matched(sent, shown) == [1.5, 2.0], "the last messages are not shown yet"
