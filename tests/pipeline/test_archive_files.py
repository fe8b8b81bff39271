"""The files of an archive when its processes are killed, and when they meet."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from mom_pipeline import archive_files
from mom_pipeline.archive_files import ArchiveError
from mom_pipeline.archive_tables import EVENT, MESSAGE, arrow_schema
from mom_pipeline.jobs import compact
from mom_pipeline.parquet_archive import stage_rows
from tests.pipeline import traffic
from tests.pipeline.archived import write
from tests.pipeline.killed import killed_before

LATER = datetime(2027, 1, 1, tzinfo=UTC)
Rows = list[tuple[str, int, str, int]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody lists folders, except in the test of readers, which has processes of its own."""
    monkeypatch.setattr(compact, "REPLACED_S", 0.0)


def rows_of(seed: int, messages: int = 120) -> list[dict[str, Any]]:
    """The events of a broker, some thousand positions behind those of the seed before."""
    journal = traffic.traffic("a", seed, messages)
    for row in journal.rows:
        row["position"] += 10_000 * seed
    return journal.rows


def visible(root: Path, table: str = EVENT) -> Rows:
    """The rows that a reader of all files finds, in order."""
    files = [str(path) for path in sorted((root / table).rglob("[!_]*.parquet"))]
    if not files:
        return []
    columns = "broker, position, event, message_position"
    query = f"SELECT {columns} FROM read_parquet(?, hive_partitioning = false) ORDER BY ALL"
    return duckdb.execute(query, [files]).fetchall()


def expected(*batches: list[dict[str, Any]]) -> Rows:
    """The expected result."""
    names = ("broker", "position", "event", "message_position")
    return sorted(tuple(row[name] for name in names) for rows in batches for row in rows)  # type: ignore[misc]


def leftovers(root: Path) -> list[str]:
    """Files that nobody needs."""
    staged = [path for path in (root / archive_files.STAGING).rglob("*") if path.is_file()]
    return [path.name for path in [*staged, *(root / archive_files.MANIFEST).rglob("*.pending")]]


@pytest.mark.process
def test_a_batch_killed_at_any_step_is_in_the_archive_once_after_its_replay(tmp_path: Path) -> None:
    first, second = rows_of(1, messages=10), rows_of(2, messages=20)
    write(tmp_path / "start", "q", 0, first)
    finished, partly, kills = 0, 0, 0
    for step in itertools.count(1):
        root = tmp_path / f"{step}"
        shutil.copytree(tmp_path / "start", root)
        if not killed_before(step, root, lambda root=root: write(root, "q", 1, second)):  # type: ignore[misc]
            break
        kills += 1
        seen = visible(root)
        assert not Counter(seen) - Counter(expected(first, second))
        assert not Counter(expected(first)) - Counter(seen)
        partly += len(first) < len(seen) < len(first + second)
        finished += not write(root, "q", 1, second, tasks=random.Random(step).choice([1, 2, 5]))
        assert visible(root) == expected(first, second)
        assert leftovers(root) == []
        shutil.rmtree(root)
    assert kills > 25
    assert 0 < partly < finished < kills


@pytest.mark.process
def test_an_hour_whose_compaction_is_killed_at_any_step_has_each_row_once(tmp_path: Path) -> None:
    rows = rows_of(1, messages=20)
    start = tmp_path / "start"
    for batch, begin in enumerate(range(0, len(rows), 20)):
        write(start, "q", batch, rows[begin : begin + 20])
    files = len(list(start.rglob("*.parquet")))
    kills = 0
    for step in itertools.count(1):
        root = tmp_path / f"{step}"
        shutil.copytree(start, root)
        if not killed_before(step, root, lambda root=root: list(compact.compact(root, LATER))):  # type: ignore[misc]
            break
        kills += 1
        assert visible(root) == expected(rows)
        list(compact.compact(root, LATER))
        assert visible(root) == expected(rows)
        assert len(list((root / EVENT).rglob("*.parquet"))) == len(compact.hours(root, LATER)) < files
        assert leftovers(root) == []
        shutil.rmtree(root)
    assert kills > 20


@pytest.mark.process
def test_readers_see_each_row_once_while_batches_are_committed_and_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "REPLACED_S", 0.05)
    rows = [row for row in rows_of(1) if row["event_ts"] < traffic.START_US + 10 * traffic.MINUTE_US][:10]
    write(tmp_path, "q", 0, rows)
    process = os.fork()
    if not process:
        for batch in itertools.count(1):
            write(tmp_path, "q", batch, [row | {"position": row["position"] + 1_000 * batch} for row in rows])
            list(compact.compact(tmp_path, LATER))
    count = "SELECT count(*), count(DISTINCT (position, message_position, event)) FROM read_parquet(?)"
    sizes: list[int] = []
    end = time.monotonic() + 60
    try:
        while len(set(sizes)) < 30 and time.monotonic() < end:
            try:
                (found,) = duckdb.execute(count, [f"{tmp_path}/event/v=1/*/*/*/*.parquet"]).fetchall()
            except duckdb.IOException as error:  # a file was replaced behind the listing, or during it
                if not any(words in str(error) for words in ("No such file", "No files found")):
                    raise
                continue
            assert found[0] == found[1]
            sizes.append(found[0])
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 30


def test_a_replayed_batch_changes_nothing_even_after_its_files_were_compacted(tmp_path: Path) -> None:
    rows = rows_of(1)
    assert write(tmp_path, "q", 0, rows, tasks=3)
    list(compact.compact(tmp_path, LATER))
    assert not write(tmp_path, "q", 0, rows, tasks=5)
    assert visible(tmp_path) == expected(rows)
    assert leftovers(tmp_path) == []


def test_a_checkpoint_that_is_older_than_the_archive_is_refused(tmp_path: Path) -> None:
    one, two = rows_of(1), rows_of(2)
    write(tmp_path, "q", 5, one)
    with pytest.raises(ArchiveError, match="with other rows"):
        write(tmp_path, "q", 5, one + two)
    with pytest.raises(ArchiveError, match="has batch 5 of the query q, and now comes 4"):
        write(tmp_path, "q", 4, two)
    assert visible(tmp_path) == expected(one)


@pytest.mark.parametrize("compacted", [False, True])
def test_positions_that_another_query_archived_are_refused_however_it_cuts_batches(
    tmp_path: Path, compacted: bool
) -> None:
    rows = rows_of(1)
    write(tmp_path, "before", 0, rows[:200])
    write(tmp_path, "before", 1, rows[200:])
    if compacted:
        list(compact.compact(tmp_path, LATER))
    for number, part in enumerate((rows, rows[:7], rows[150:250], rows[-1:])):
        with pytest.raises(ArchiveError, match="archived before"):
            write(tmp_path, "reset", number, part)
    assert visible(tmp_path) == expected(rows)


def test_queries_of_different_destinations_share_an_archive(tmp_path: Path) -> None:
    rows = rows_of(1)
    for number in range(2):
        part = rows[:200] if number == 0 else rows[200:]
        write(tmp_path, "busy", number, [row for row in part if row["destination"] == "/queue/busy"])
        write(tmp_path, "others", number, [row for row in part if row["destination"] != "/queue/busy"])
    assert visible(tmp_path) == expected(rows)


def test_a_second_run_of_a_query_stops_the_first(tmp_path: Path) -> None:
    rows = rows_of(1)
    staging = archive_files.staging_folder("q", 0)
    parts = stage_rows(iter(traffic.batches(rows, EVENT)), tmp_path, staging, EVENT)
    assert write(tmp_path, "q", 0, rows)
    assert not archive_files.commit(tmp_path, "q", 0, parts)
    with pytest.raises(ArchiveError, match="another run of the query q began"):
        archive_files.commit(tmp_path, "q", 1, parts)
    assert visible(tmp_path) == expected(rows)


def test_a_file_has_the_rows_of_one_hour_with_all_their_columns(tmp_path: Path) -> None:
    rows = rows_of(1, messages=500)
    write(tmp_path, "q", 0, rows)
    write(tmp_path, "m", 0, [row for row in rows if row["body"] is not None], table=MESSAGE)
    files = sorted(path.relative_to(tmp_path).parent.as_posix() for path in tmp_path.rglob("*.parquet"))
    hours = ["broker=a/date=2026-11-21/hour=02", "broker=a/date=2026-11-21/hour=03"]
    assert files == [f"{table}/v=1/{hour}" for table in (EVENT, MESSAGE) for hour in hours]
    (path,) = (tmp_path / f"{MESSAGE}/v=1/{hours[0]}").iterdir()
    table = pq.read_table(path, partitioning=None)
    assert table.schema.equals(arrow_schema(MESSAGE))
    sent = {row["position"]: row for row in rows}
    for row in table.to_pylist():
        assert {"body": row["body"], "headers": row["headers"]} == {
            name: sent[row["position"]][name] for name in ("body", "headers")
        }
    positions = table["position"].to_pylist()
    assert path.name == f"part-a-{positions[0]}-{positions[-1]}.parquet"
    assert positions == sorted(positions)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_compaction_merges_small_files_in_order_and_keeps_large_ones_and_the_present_hour(
    tmp_path: Path,
) -> None:
    rows = [
        row
        for row in rows_of(1, messages=3_000)
        if row["event_ts"] < traffic.START_US + 9 * traffic.MINUTE_US
    ]
    write(tmp_path, "q", 0, rows[:4000])
    (large,) = tmp_path.rglob("*.parquet")
    for batch, begin in enumerate(range(len(rows), 4000, -100), 1):  # the last positions first
        write(tmp_path, "q", batch, rows[max(4000, begin - 100) : begin])
    three = datetime(2026, 11, 21, 3, tzinfo=UTC)
    assert list(compact.compact(tmp_path, datetime(2026, 11, 21, 2, 59, tzinfo=UTC))) == []
    (done,) = compact.compact(tmp_path, three, file_bytes=2 * large.stat().st_size)
    assert (done.files_after, done.rows) == (2, len(rows) - 4000)
    assert large.exists()
    (merged,) = set(tmp_path.rglob("*.parquet")) - {large}
    positions = pq.read_table(merged, partitioning=None)["position"].to_pylist()
    assert positions == [row["position"] for row in rows[4000:]]
    assert list(compact.compact(tmp_path, three, file_bytes=2 * large.stat().st_size)) == []


def test_files_of_a_version_that_had_fewer_columns_are_compacted_with_new_ones(tmp_path: Path) -> None:
    rows = [row for row in rows_of(1) if row["event_ts"] < traffic.START_US + 9 * traffic.MINUTE_US]
    write(tmp_path, "q", 0, rows[:10])
    (old,) = tmp_path.rglob("*.parquet")
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(["topic"]), old)
    write(tmp_path, "q", 1, [row | {"topic": "/topic/t"} for row in rows[10:]])
    (done,) = compact.compact(tmp_path, LATER)
    assert done.rows == len(rows)
    (merged,) = tmp_path.rglob("*.parquet")
    assert pq.read_table(merged, partitioning=None)["topic"].to_pylist() == [None] * 10 + ["/topic/t"] * (
        len(rows) - 10
    )


def test_compacted_files_end_near_the_wanted_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mom_pipeline.parts.ROW_GROUP_BYTES", 10_000)
    rows = rows_of(1, messages=1_000)
    for batch, begin in enumerate(range(0, len(rows), 100)):
        write(tmp_path, "q", batch, rows[begin : begin + 100])
    list(compact.compact(tmp_path, LATER, file_bytes=30_000))
    assert visible(tmp_path) == expected(rows)
    sizes = sorted(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert len(sizes) > 3
    assert all(30_000 <= size < 60_000 for size in sizes[2:])  # the last of both hours are smaller


def test_a_second_compaction_waits_for_none(tmp_path: Path) -> None:
    rows = rows_of(1)
    write(tmp_path, "q", 0, rows, tasks=4)
    running: Iterator[compact.Compacted] = compact.compact(tmp_path, LATER)
    next(running)
    with pytest.raises(ArchiveError, match="another process holds"):
        list(compact.compact(tmp_path, LATER))
    list(running)
    assert visible(tmp_path) == expected(rows)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\n", "compact"])
def test_a_name_that_is_no_part_of_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="may have letters"):
        archive_files.staging_folder(name, 0)
