"""The archive with Spark: streams into it, and tables out of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mom_pipeline import archive_tables
from mom_pipeline.archive_tables import EVENT, MESSAGE
from mom_pipeline.jobs import archive
from mom_pipeline.parquet_archive import ArchiveSink
from pyspark_mom import schema
from tests.pipeline import traffic

EVENTS = ", ".join(f"{column.name} {column.ddl}" for column in schema.COLUMNS)
KEYS = "broker, position, event, message_position"


@pytest.fixture(scope="module")
def journals() -> list[traffic.Journal]:
    """Two brokers; the name of one looks like a number."""
    return [traffic.traffic("007", seed=5, messages=300), traffic.traffic("b", seed=6, messages=100)]


@pytest.fixture(scope="module")
def source(journals: list[traffic.Journal], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their events, in files of which a stream reads one in each batch."""
    folder = tmp_path_factory.mktemp("source")
    for journal in journals:
        for start in range(0, len(journal.rows), 400):
            part = traffic.Journal(journal.broker, journal.rows[start : start + 400])
            traffic.write(folder / f"{journal.broker}-{start:06}.parquet", part)
    return folder


@pytest.fixture(scope="module")
def archived(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of both tables."""
    root = tmp_path_factory.mktemp("archive")
    for table in archive_tables.TABLES:
        stream(spark, source, root, table)
    return root


def stream(
    spark: SparkSession, source: Path, root: Path, table: str = EVENT, checkpoint: Path | None = None
) -> StreamingQuery:
    """Archive all files of the source that this archive does not have yet."""
    spark.dataSource.register(ArchiveSink)
    events = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", "1").parquet(str(source))
    options = {"path": str(root), "table": table}
    options["checkpointLocation"] = str(checkpoint or root / f"_checkpoint-{table}")
    writer = archive.transform(events, table).writeStream.format("mom_archive").options(**options)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(110)
    return query


def stored(root: Path, table: str = EVENT) -> list[tuple[Any, ...]]:
    """The keys of all rows, for DuckDB, in order."""
    files = f"{root}/{table}/v=1/**/*.parquet"
    return duckdb.execute(f"SELECT {KEYS} FROM read_parquet(?) ORDER BY ALL", [files]).fetchall()


def keys(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in KEYS.split(", ")) for row in rows)


def test_a_stream_archives_each_event_and_each_message_once(
    archived: Path, journals: list[traffic.Journal]
) -> None:
    rows = [row for journal in journals for row in journal.rows]
    assert stored(archived) == keys(rows)
    assert stored(archived, MESSAGE) == keys([row for row in rows if row["body"] is not None])


def test_a_batch_that_spark_does_not_know_as_committed_is_not_archived_again(
    spark: SparkSession, source: Path, journals: list[traffic.Journal], tmp_path: Path
) -> None:
    stream(spark, source, tmp_path)
    commits = sorted(
        (tmp_path / "_checkpoint-event" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)
    query = stream(spark, source, tmp_path)
    assert [
        progress.numInputRows > 0
        for progress in query.recentProgress
        if progress.batchId == int(commits[-1].name)
    ]
    assert stored(tmp_path) == keys([row for journal in journals for row in journal.rows])


def test_an_archive_that_begins_again_in_the_same_folder_is_refused(
    spark: SparkSession, source: Path, archived: Path, tmp_path: Path
) -> None:
    before = stored(archived)
    with pytest.raises(StreamingQueryException, match="archived before"):
        stream(spark, source, archived, checkpoint=tmp_path)
    assert stored(archived) == before


@pytest.mark.parametrize(
    ("path", "columns", "problem"),
    [
        ("relative", ["*"], "must be an absolute path"),
        ("/archive", ["event"], "no columns body_size, broker"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, source: Path, tmp_path: Path, path: str, columns: list[str], problem: str
) -> None:
    spark.dataSource.register(ArchiveSink)
    events = archive.transform(spark.readStream.schema(EVENTS).parquet(str(source))).select(*columns)
    writer = events.writeStream.format("mom_archive").option("checkpointLocation", str(tmp_path))
    with pytest.raises((StreamingQueryException, AnalysisException), match=problem):
        writer.option("path", path).trigger(availableNow=True).start().awaitTermination(110)


def test_the_reader_keeps_the_types_of_the_journal(
    spark: SparkSession, archived: Path, journals: list[traffic.Journal]
) -> None:
    rows = archive_tables.read(spark, archived, brokers=["007"])
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    assert types == {column.name: column.ddl for column in archive_tables.columns(EVENT)}
    assert {row.broker for row in rows.select("broker").distinct().collect()} == {"007"}
    assert rows.count() == len(journals[0].rows)
    three = datetime(2026, 11, 21, 3, tzinfo=UTC)
    limit = traffic.START_US + 10 * traffic.MINUTE_US
    early = sum(row["event_ts"] < limit for journal in journals for row in journal.rows)
    late = sum(row["event_ts"] >= limit for journal in journals for row in journal.rows)
    assert archive_tables.read(spark, archived, end=three).count() == early
    assert archive_tables.read(spark, archived, start=three).count() == late
    assert archive_tables.read(spark, archived / "nothing").count() == 0
    with pytest.raises(ValueError, match="no time zone"):
        archive_tables.read(spark, archived, start=three.replace(tzinfo=None))


def test_hours_are_those_of_utc_whatever_the_time_zone_of_the_session(
    spark: SparkSession, source: Path, archived: Path, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        stream(spark, source, tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert stored(tmp_path) == stored(archived)
    hours = {path.parent.relative_to(tmp_path) for path in (tmp_path / "event").rglob("*.parquet")}
    assert hours == {path.parent.relative_to(archived) for path in (archived / "event").rglob("*.parquet")}
    assert {path.name for path in hours} == {"hour=02", "hour=03"}
