"""Statistics of each destination and minute, compared with a query of DuckDB over the same events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mom_pipeline.jobs import statistics
from tests.pipeline import traffic

COUNTS = (
    "enqueued", "dequeued", "delivered", "redelivered", "expired", "dead_lettered", "discarded", "bytes_in",
    "bytes_out",
)  # fmt: skip
ORACLE = """
SELECT broker, destination, epoch_us(date_trunc('minute', event_ts)) AS minute,
       count_if(event IN ('ENQUEUE', 'RECEIVE')), count_if(event IN ('ACK', 'FORWARD_ACK')),
       count_if(event IN ('ACK', 'FORWARD_ACK', 'NACK') AND delivery_count >= 1),
       count_if(event IN ('ACK', 'FORWARD_ACK', 'NACK') AND delivery_count >= 2),
       count_if(event = 'EXPIRE'), count_if(event = 'DEADLETTER'), count_if(event = 'DISCARD'),
       coalesce(sum(body_size) FILTER (event IN ('ENQUEUE', 'RECEIVE')), 0)::BIGINT,
       coalesce(sum(body_size) FILTER (event IN ('ACK', 'FORWARD_ACK')), 0)::BIGINT,
       max(queue_time_us) FILTER (event IN ('ACK', 'FORWARD_ACK')),
       list(queue_time_us ORDER BY queue_time_us) FILTER (event IN ('ACK', 'FORWARD_ACK'))
FROM read_parquet(?) GROUP BY ALL
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events of two brokers."""
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    return traffic.write(path, traffic.traffic("a", seed=1), traffic.traffic("b", seed=2, messages=300))


def oracle(events: Path) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """(counts …, largest time, all times) by broker, destination and minute."""
    rows = duckdb.execute(ORACLE, [str(events)]).fetchall()
    return {row[:3]: row[3:] for row in rows}


def minutes(rows: DataFrame) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The rows by broker, destination and minute."""
    found = rows.withColumn("minute", F.unix_micros("minute")).collect()
    return {(row.broker, row.destination, row.minute): row.asDict() for row in found}


def test_each_minute_has_the_counts_and_percentiles_of_its_events(spark: SparkSession, events: Path) -> None:
    expected = oracle(events)
    found = minutes(statistics.transform(spark.read.parquet(str(events))))
    assert found.keys() == expected.keys()
    sketches = 0
    for key, row in found.items():
        *counts, largest, times = expected[key]
        assert [row[name] for name in COUNTS] == counts
        assert row["queue_time_us_max"] == largest
        assert row["final"]
        assert (row["kll"] is not None) == (row["dequeued"] >= statistics.SKETCHED)
        sketches += row["kll"] is not None
        if not times:
            assert row["queue_time_us_p50"] is None
            continue
        for rank, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
            below = sum(time <= row[f"queue_time_us_{name}"] for time in times)
            assert abs(below / len(times) - rank) <= max(0.02, 1 / len(times))
    assert 5 < sketches < len(found)


def test_only_whole_minutes_of_the_interval_are_computed(spark: SparkSession, events: Path) -> None:
    rows = spark.read.parquet(str(events))
    start = datetime.fromtimestamp(traffic.START_US / 1e6, UTC) + timedelta(minutes=3)
    found = minutes(statistics.transform(rows, start, start + timedelta(minutes=2)))
    first = traffic.START_US + 3 * traffic.MINUTE_US
    wanted = {key for key in oracle(events) if first <= key[2] < first + 2 * traffic.MINUTE_US}
    assert found.keys() == wanted
    with pytest.raises(ValueError, match="not a whole minute"):
        statistics.transform(rows, start + timedelta(seconds=30))
    with pytest.raises(ValueError, match="time zone"):
        statistics.transform(rows, start.replace(tzinfo=None))


def test_acknowledgements_of_old_journals_count_as_one_delivery_of_unknown_duration(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal = traffic.Journal("a")
    message = traffic.Message(1, "/queue/a", traffic.START_US, b"body")
    unknown: dict[str, Any] = {"queue_time_us": None, "delivery_count": None, "body_size": None}
    journal.record("ACK", traffic.START_US, message, **unknown)
    path = traffic.write(tmp_path / "events.parquet", journal)
    (row,) = minutes(statistics.transform(spark.read.parquet(str(path)))).values()
    assert (row["dequeued"], row["delivered"], row["redelivered"], row["bytes_out"]) == (1, 1, 0, 0)
    assert (row["queue_time_us_p99"], row["queue_time_us_max"], row["kll"]) == (None, None, None)


def test_hours_are_merged_from_the_sketches_of_minutes(spark: SparkSession, events: Path) -> None:
    stats = statistics.transform(spark.read.parquet(str(events))).persist()
    by_minute = minutes(stats)
    found = minutes(statistics.merge(stats, "hour"))
    stats.unpersist()
    hour = traffic.START_US // (60 * traffic.MINUTE_US) * 60 * traffic.MINUTE_US
    assert {key[2] for key in found} == {hour, hour + 60 * traffic.MINUTE_US}
    for (broker, destination, hour), row in found.items():
        parts = [
            (key, minute)
            for key, minute in by_minute.items()
            if key[:2] == (broker, destination) and hour <= key[2] < hour + 60 * traffic.MINUTE_US
        ]
        assert [row[name] for name in COUNTS] == [sum(minute[name] for _, minute in parts) for name in COUNTS]
        sketched = [key for key, minute in parts if minute["kll"] is not None]
        times = [time for key in sketched for time in oracle(events)[key][-1]]
        assert row["sketched"] == len(times)
        if not times:
            assert (row["queue_time_us_p99"], row["kll"]) == (None, None)
            continue
        below = sum(time <= row["queue_time_us_p95"] for time in times)
        assert abs(below / len(times) - 0.95) <= 0.02
    assert any(row["sketched"] for row in found.values())


def test_a_stream_gives_the_rows_of_minutes_that_are_over(spark: SparkSession, events: Path) -> None:
    rows = spark.read.parquet(str(events))
    stream = spark.readStream.schema(rows.schema).parquet(str(events.parent))
    stats = statistics.transform(statistics.watermarked(stream))
    query = (
        stats.writeStream.format("memory")
        .queryName("stats")
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(110)
    found = minutes(spark.table("stats"))
    last = max(key[2] for key in oracle(events))
    wanted = {key for key in oracle(events) if key[2] < last - traffic.MINUTE_US}
    assert wanted <= found.keys()
    assert all([found[key][name] for name in COUNTS] == list(oracle(events)[key][:9]) for key in found)
