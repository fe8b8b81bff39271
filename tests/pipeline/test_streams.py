"""Streams of a run: how they are watched, and how they are stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mom_pipeline import checkpoints, streams
from mom_pipeline.progress import Progress
from mom_pipeline.source import Source
from mom_pipeline.stop import Stop
from tests.pipeline.stage import JournalStage
from tests.pipeline.test_spark import work

pytestmark = pytest.mark.xdist_group("spark")

WAIT_S = 60.0


class Stream:
    """A resident query that reads a stage, and has each batch written by `write`."""

    def __init__(self, spark: SparkSession, stage: JournalStage, place: Path) -> None:
        self.checkpoint = place / "checkpoint"
        self.progress = Progress()
        self.stop = Stop()
        self.write: Callable[[DataFrame], DataStreamWriter] = lambda rows: rows.writeStream.format("noop")
        self.show: Callable[[Progress], None] = lambda _: None
        self._spark = spark
        self._source = Source(stage.url, "A")

    def run(self) -> None:
        begin = {"startingOffsets": "earliest"}
        writer = self.write(self._source.stream(self._spark, ["position"], **begin))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(**streams.trigger(3600, once=False))
        query = streams.Query(writer.start(), writer, *self._source.extent(**begin))
        watch = streams.Watch([query], self.progress)
        try:
            watch.until_ended(self.stop, self.show)
        finally:
            assert not self._spark.streams.active


@pytest.fixture
def stream(spark: SparkSession, stage: JournalStage, tmp_path: Path) -> Stream:
    work(stage, 10)
    return Stream(spark, stage, tmp_path)


def test_a_stream_is_stopped_after_its_batch(stream: Stream) -> None:
    """The batch goes on when others have looked at it some times behind the request."""
    looks = threading.Semaphore(0)

    def batch(rows: DataFrame, number: int) -> None:
        stream.stop.request("test")
        assert all(looks.acquire(timeout=WAIT_S) for _ in range(5))
        assert rows.count() > 0

    stream.write = lambda rows: rows.writeStream.foreachBatch(batch)
    stream.show = lambda _: looks.release() if stream.stop.requested else None
    stream.run()
    reached = checkpoints.reached(stream.checkpoint)
    assert reached is not None
    assert (reached.batch, reached.begun) == (0, None)


def test_a_batch_that_takes_too_long_is_interrupted(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BATCH_S", 0.2)
    sleeping = f"java_method('java.lang.Thread', 'sleep', {1000 * WAIT_S:.0f}L) IS NULL"
    stream.write = lambda rows: rows.where(sleeping).writeStream.format("noop")

    def show(progress: Progress) -> None:
        if (stream.checkpoint / "offsets" / "0").exists():
            stream.stop.request("test")

    stream.show = show
    began = time.monotonic()
    stream.run()
    assert time.monotonic() - began < WAIT_S
    assert checkpoints.reached(stream.checkpoint) is None


def test_the_positions_of_the_first_batch_are_known_before_it_is_complete(stream: Stream) -> None:
    seen: list[tuple[int, int]] = []

    def show(progress: Progress) -> None:
        seen.append((progress.read, progress.total))
        if progress.rows:
            stream.stop.request("test")

    stream.show = show
    stream.run()
    (total,) = {total for _, total in seen}
    assert total == stream.progress.read > 10
    assert seen[0] == (0, total)


@pytest.mark.parametrize(("failures", "fails"), [(2, False), (5, True)])
def test_a_query_whose_tasks_spark_could_not_serialize_starts_again(
    stream: Stream, failures: int, fails: bool
) -> None:
    batches = 0

    def batch(rows: DataFrame, number: int) -> None:
        nonlocal batches
        batches += 1
        if batches <= failures:
            raise RuntimeError("Task serialization failed: Illegal size 5 of collection, expected 7")
        assert rows.count() > 0

    stream.write = lambda rows: rows.writeStream.foreachBatch(batch)
    stream.show = lambda progress: stream.stop.request("test") if progress.rows else None
    with pytest.raises(StreamingQueryException) if fails else nullcontext():
        stream.run()
    reached = checkpoints.reached(stream.checkpoint)
    assert (reached is None) == fails
    assert batches == failures + (not fails)
