"""The same work without Spark: PyArrow writes an archive, DuckDB counts and reconciles."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from mom_pipeline import archive_tables
from pyspark_mom import ranges, schema
from pyspark_mom.brokers import Brokers
from pyspark_mom.offsets import Place
from pyspark_mom.options import parse

_STATISTICS = """
SELECT broker, destination, date_trunc('minute', event_ts) AS minute,
       count_if(event IN ('ENQUEUE', 'RECEIVE')) AS enqueued,
       count_if(event IN ('ACK', 'FORWARD_ACK')) AS dequeued,
       sum(body_size) FILTER (event IN ('ENQUEUE', 'RECEIVE')) AS bytes_in,
       sum(body_size) FILTER (event IN ('ACK', 'FORWARD_ACK')) AS bytes_out,
       approx_quantile(queue_time_us, [0.5, 0.95, 0.99]) FILTER (event IN ('ACK', 'FORWARD_ACK')) AS times
FROM read_parquet(?, hive_partitioning = false) GROUP BY ALL
"""
#: places of columns that are compared
_SUMS = {"enqueued": 3, "dequeued": 4, "bytes_in": 5}
_RECONCILE = """
WITH sent AS (
  SELECT message_position AS position, max(event_ts) FILTER (event = 'FORWARD_ACK') AS confirmed
  FROM read_parquet(?) WHERE peer_broker = 'west' GROUP BY 1
), received AS (
  SELECT origin_position AS position, count(*) AS arrivals
  FROM read_parquet(?) WHERE event = 'RECEIVE' AND origin_broker = 'home' GROUP BY 1
)
SELECT CASE WHEN sent.position IS NULL THEN 'foreign' WHEN arrivals > 1 THEN 'doubled'
            WHEN arrivals = 1 THEN 'ok' WHEN confirmed <= ?::TIMESTAMPTZ THEN 'lost'
            ELSE 'in-flight' END AS state, position
FROM sent FULL JOIN received USING (position)
"""


class Written(NamedTuple):
    """The rows that PyArrow wrote, and its seconds: with the decoder of the data source, and for rows that
    are in memory."""

    rows: int
    both_s: float
    writing_s: float


def archive(options: dict[str, str], table: str, root: Path) -> Written:
    """Write a journal with PyArrow, in this process, in folders of hours."""
    names = archive_tables.names(table)
    began = time.monotonic()
    _write(_with_hours(decoded(options, names)), names, root)
    both_s = time.monotonic() - began
    batches = list(_with_hours(decoded(options, names)))
    began = time.monotonic()
    _write(batches, names, root.with_name(f"{root.name}-writer"))
    return Written(sum(batch.num_rows for batch in batches), both_s, time.monotonic() - began)


def _with_hours(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hour = pc.floor_temporal(batch["event_ts"], unit="hour")
        yield batch.append_column("hour", pc.strftime(hour, format="%Y-%m-%dT%H"))


def _write(batches: Iterable[pa.RecordBatch], names: Sequence[str], root: Path) -> None:
    first = pa.schema([*schema.arrow_schema(names), pa.field("hour", pa.string())])
    reader = pa.RecordBatchReader.from_batches(first, iter(batches))
    parquet = ds.ParquetFileFormat()
    ds.write_dataset(
        reader,
        root,
        format=parquet,
        file_options=parquet.make_write_options(compression="zstd"),
        partitioning=ds.partitioning(
            pa.schema([("broker", pa.string()), ("hour", pa.string())]), flavor="hive"
        ),
    )


def decoded(options: dict[str, str], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a whole journal, as the data source reads them, without Spark."""
    parsed = parse(options)
    brokers = Brokers(parsed, fail_on_unreachable=True)
    try:
        spans = brokers.spans()
        start = {name: Place(span.epoch, span.low, span.tag) for name, span in spans.items()}
        end = {name: Place(span.epoch, span.end, span.tag) for name, span in spans.items()}
    finally:
        brokers.close()
    for part in ranges.split(start, end, 1):
        yield from ranges.read(part, parsed, schema.arrow_schema(names))


def statistics(files: str) -> tuple[dict[str, int], float]:
    """Statistics of minutes: the sums of some columns, and the seconds that it took."""
    began = time.monotonic()
    rows = duckdb.execute(_STATISTICS, [files]).fetchall()
    taken = time.monotonic() - began
    return {name: sum(row[place] for row in rows) for name, place in _SUMS.items()}, taken


def reconcile(sent: str, received: str, confirmed_until: str) -> tuple[dict[str, set[int]], float]:
    """The positions in each state, and the seconds that it took."""
    began = time.monotonic()
    rows = duckdb.execute(_RECONCILE, [sent, received, confirmed_until]).fetchall()
    taken = time.monotonic() - began
    found: dict[str, set[int]] = {}
    for state, position in rows:
        found.setdefault(state, set()).add(position)
    return found, taken
