"""The tables of an archive: columns, types, and a reader that does not guess them.

`event` has the columns of `journal_event` without headers and bodies; `message` has those of a message that
was enqueued or received. `broker` is in the files, too, so each can be read alone; `date` and `hour` (UTC)
are folders only. Spark and DuckDB guess the types of folders from their names: a broker `007` becomes 7. So
types are fixed here."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mom_pipeline.archive_files import bounds
from pyspark_mom import schema

EVENT, MESSAGE = TABLES = ("event", "message")
VERSION = schema.VERSION

_OF_MESSAGES = (
    "broker", "epoch", "position", "event", "event_ts", "destination", "destination_kind", "topic",
    "message_id", "message_position", "body_size", "header_size", "priority", "expires_ts", "origin_broker",
    "origin_position", "correlation_id", "content_type", "schema_id", "trace_id", "headers", "body",
)  # fmt: skip
_BULKY = ("headers", "body")


def cursor(run: str, table: str) -> str:
    """The name of the cursor that a run has for a table."""
    return run if table == EVENT else f"{run}.{table}"


def columns(table: str) -> list[schema.Column]:
    """The columns of the files of a table."""
    if table == MESSAGE:
        return [column for column in schema.COLUMNS if column.name in _OF_MESSAGES]
    if table == EVENT:
        return [column for column in schema.COLUMNS if column.name not in _BULKY]
    raise ValueError(f"an archive has the tables {' and '.join(TABLES)}, not {table!r}")


def names(table: str) -> list[str]:
    """The names of the columns of the files of a table."""
    return [column.name for column in columns(table)]


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of the files of a table."""
    return schema.arrow_schema(names(table))


def read(
    spark: SparkSession,
    root: Path | str,
    table: str = EVENT,
    *,
    brokers: Collection[str] = (),
    start: datetime | None = None,
    end: datetime | None = None,
) -> DataFrame:
    """The rows of a table with event_ts in [start, end), of all brokers or of some. Only folders with such
    hours are read. An archive that has no files yet is empty."""
    types = ", ".join(f"{column.name} {column.ddl}" for column in columns(table))
    folder = Path(root) / table / f"v={VERSION}"
    if not folder.is_dir():
        return spark.createDataFrame([], types)
    rows = spark.read.schema(f"{types}, date date, hour int").parquet(str(folder))
    if brokers:
        rows = rows.filter(F.col("broker").isin(*brokers))
    if start is not None:
        rows = rows.filter((F.col("event_ts") >= start) & (F.col("date") >= _utc_date(start)))
    if end is not None:
        rows = rows.filter((F.col("event_ts") < end) & (F.col("date") <= _utc_date(end)))
    return rows.select(*names(table))


def read_positions(
    spark: SparkSession, root: Path | str, table: str, broker: str, start: int, end: int
) -> DataFrame:
    """The rows of a broker at positions in [start, end), of those files alone whose names have such."""
    types = ", ".join(f"{column.name} {column.ddl}" for column in columns(table))
    folder = Path(root) / table / f"v={VERSION}" / f"broker={broker}"
    files = [path for path in folder.glob("date=*/hour=*/part-*.parquet") if _has(path, start, end)]
    if not files:
        return spark.createDataFrame([], types)
    rows = spark.read.schema(types).parquet(*map(str, files))
    return rows.filter((F.col("position") >= start) & (F.col("position") < end))


def _has(file: Path, start: int, end: int) -> bool:
    first, last = bounds(file)
    return first < end and last >= start


def _utc_date(time: datetime) -> str:
    offset = time.utcoffset()
    if offset is None:
        raise ValueError(f"{time.isoformat()} has no time zone")
    return (time.replace(tzinfo=None) - offset).date().isoformat()
