"""Rates of the jobs of the pipeline in one process, and of others with the same data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import pipeline_baselines as baselines
from benchmarks import pipeline_forwarded as forwarded
from benchmarks.pipeline_bench import Bench, Found, median_s
from benchmarks.pipeline_data import Broker
from benchmarks.pipeline_promises import Seen
from mom_pipeline import archive_tables
from mom_pipeline.archive_tables import EVENT, MESSAGE
from mom_pipeline.jobs import reconcile, statistics
from mom_pipeline.runs import archive, replay
from mom_pipeline.source import Source
from pyspark_mom import sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: messages at scale 1
_FORWARDED, _REPLAYED = 1_000_000, 400_000
#: columns that a job takes of messages
_OF_MESSAGES = ("position", "event_ts", "destination", "message_id", "body")

# ------------------------------------------------------------------------------- source


def source(bench: Bench) -> Found:
    """Rows a second of the data source, counted by Spark."""
    yield "source-1k", _source(bench, bench.bodies, bench.source(bench.bodies), _OF_MESSAGES, "messages")
    yield (
        "source-events",
        _source(bench, bench.events, bench.source(bench.events), statistics.COLUMNS, "events"),
    )
    over_http = bench.source(bench.bodies, bench.bodies.url)
    yield "source-http", _source(bench, bench.bodies, over_http, _OF_MESSAGES, "messages")
    yield (
        "source-postgres",
        _source(bench, bench.stored, bench.source(bench.stored), _OF_MESSAGES, "messages"),
    )


def _source(bench: Bench, broker: Broker, of: Source, columns: Sequence[str], content: str) -> Seen:
    options = {"content": content, "minPartitions": "2"}

    def read() -> None:
        of.read(bench.spark, columns, **options).write.format("noop").mode("overwrite").save()

    rows = of.read(bench.spark, ("position",), **options).count()
    read()
    taken = median_s(bench.runs, read)
    fault = f"{broker.messages:,} messages were sent" if rows < broker.messages else ""
    return Seen(rows / taken, f"{rows:,} rows", fault)


# ------------------------------------------------------------------------------ archive


def _archived(bench: Bench, broker: Broker, out: Path, *tables: str) -> float:
    """Archive tables of a broker as streams with their sinks; the seconds that it took."""
    wish = archive.Archive(out, tables)
    began = time.monotonic()
    archive.run(f"archive-{out.name}", bench.source(broker), wish, bench.surroundings(out.name))
    return time.monotonic() - began


def archiving(bench: Bench) -> Found:
    """The archive as its run makes it, next to PyArrow in one process over the same journal."""
    _archived(bench, bench.bodies, bench.directory / "archive-both-warm", *archive_tables.TABLES)
    both = bench.directory / "archive-both"
    taken = _archived(bench, bench.bodies, both, *archive_tables.TABLES)
    rows = {table: _rows_of(bench, both, table) for table in archive_tables.TABLES}
    fault = "" if rows[EVENT] >= rows[MESSAGE] > 0 else f"the archive has {rows}"
    yield "archive-both", Seen(rows[MESSAGE] / taken, f"and {rows[EVENT]:,} events", fault)
    for name, table, broker in (
        ("archive-1k", MESSAGE, bench.bodies),
        ("archive-events", EVENT, bench.events),
    ):
        _archived(bench, broker, bench.directory / f"{name}-warm", table)
        taken = _archived(bench, broker, bench.directory / name, table)
        options = bench.source(broker).options()
        if table == MESSAGE:
            options |= {"content": "messages", "includeHeaders": "true"}
        plain = baselines.archive(options, table, bench.directory / f"{name}-pyarrow")
        stored = _rows_of(bench, bench.directory / name, table)
        fault = (
            ""
            if stored == plain.rows
            else f"{stored:,} rows in the archive, {plain.rows:,} in that of PyArrow"
        )
        rate = stored / taken
        yield name, Seen(rate, f"{stored:,} rows", fault)
        yield f"{name}-share", Seen(rate * plain.both_s / plain.rows, f"{plain.rows / plain.both_s:,.0f}")
        yield (
            f"{name}-writer",
            Seen(rate * plain.writing_s / plain.rows, f"{plain.rows / plain.writing_s:,.0f}"),
        )


def _rows_of(bench: Bench, root: Path, table: str) -> int:
    return archive_tables.read(bench.spark, root, table).count()


# --------------------------------------------------------------------------- statistics


def counting(bench: Bench) -> Found:
    """Statistics as a stream and in batches from the journal, and next to DuckDB from the same Parquet."""
    of, broker = bench.source(bench.events), bench.events
    columns = statistics.COLUMNS
    events = of.read(bench.spark, columns).count()

    def batch(rows: DataFrame) -> Any:
        return statistics.transform(rows).toArrow()

    def from_journal() -> None:
        batch(of.read(bench.spark, columns, minPartitions="2"))

    from_journal()
    taken = median_s(bench.runs, from_journal)
    yield "statistics-batch", Seen(events / taken, f"{events:,} events")

    root = bench.directory / "statistics"
    _archived(bench, broker, root, EVENT)
    files = f"{root}/event/v=1/*/*/*/*.parquet"
    wanted, duckdb_s = baselines.statistics(files)
    duckdb_s = min(duckdb_s, baselines.statistics(files)[1])
    found = batch(archive_tables.read(bench.spark, root))
    spark_s = median_s(bench.runs, lambda: batch(archive_tables.read(bench.spark, root)))
    sums = {name: sum(found[name].to_pylist()) for name in wanted}
    fault = "" if sums == wanted else f"Spark has {sums}, DuckDB {wanted}"
    beside = f"Spark {events / spark_s:,.0f}, DuckDB {events / duckdb_s:,.0f} events/s"
    yield "statistics-share", Seen(duckdb_s / spark_s, beside, fault)
    yield "statistics-stream", Seen(_stream_rate(bench, of, events), f"{events:,} events")


def _stream_rate(bench: Bench, of: Source, events: int) -> float:
    rows = of.stream(
        bench.spark, statistics.COLUMNS, startingOffsets="earliest", maxRowsPerTrigger="500000",
        minPartitions="2",
    )  # fmt: skip
    counted = statistics.transform(statistics.watermarked(rows), final=False)
    writer = counted.writeStream.format("noop").outputMode("update")
    began = time.monotonic()
    query = (
        writer.option("checkpointLocation", str(bench.directory / "stream"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return events / (time.monotonic() - began)


# ---------------------------------------------------------------------- reconciliation


def reconciling(bench: Bench) -> Found:
    """Reconciliation of forwarded messages with injected errors, next to DuckDB."""
    made = forwarded.write(bench.directory, bench.size(_FORWARDED))
    spark = bench.spark

    def compare() -> dict[str, set[int]]:
        sent, received = (spark.read.parquet(str(path)) for path in (made.sent, made.received))
        messages = reconcile.transform(
            sent, received, origin="home", bridges=["west"], received_until=made.until
        )
        rows = reconcile.report(messages).select("state", "origin_position").toArrow().to_pylist()
        found: dict[str, set[int]] = {}
        for row in rows:
            found.setdefault(row["state"], set()).add(row["origin_position"])
        return found

    found = compare()
    taken = median_s(bench.runs, compare)
    until = (made.until - timedelta(minutes=1)).isoformat()
    plain, plain_s = baselines.reconcile(str(made.sent), str(made.received), until)
    plain.pop("ok", None)
    fault = "" if found == made.injected else "other ids than the injected ones"
    fault = fault or ("" if plain == made.injected else "DuckDB found others")
    counts = ", ".join(f"{len(ids):,} {state}" for state, ids in sorted(found.items()))
    yield "reconcile", Seen(taken, f"DuckDB {plain_s:.2f} s; {counts}", fault)


# ------------------------------------------------------------------------------- replay


def replaying(bench: Bench) -> Found:
    """A replay of messages of 1 KiB into a broker on the same cores."""
    root = bench.directory / "replay"
    _archived(bench, bench.bodies, root, MESSAGE)
    broker = bench.bodies
    credential = {"url": broker.url, "credential": broker.credential}
    wish = replay.Replay(root, limit=bench.size(_REPLAYED), to="/queue/again")
    around = bench.surroundings("replay")
    planned = replay.plan("bench", wish, around)
    began = time.monotonic()
    run = replay.run("bench", wish, planned, sink_options.parse(credential), around)
    taken = time.monotonic() - began
    depth = broker.ask("GET", "queues/again")["depth"]
    fault = "" if depth == run.progress.rows == bench.size(_REPLAYED) else f"{depth:,} are in the queue"
    yield "replay", Seen(run.progress.rows / taken, f"{run.progress.rows:,} messages", fault)
