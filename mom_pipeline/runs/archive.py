"""The run `archive`: events, and on request messages with their bodies, become files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mom_pipeline import archive_tables, checkpoints, streams
from mom_pipeline.archive_files import MANIFEST
from mom_pipeline.job_folder import Job, JobFolder
from mom_pipeline.jobs import archive
from mom_pipeline.run_state import RunState
from mom_pipeline.runner import Run, Surroundings, begun
from mom_pipeline.source import Source
from pyspark_mom import schema
from pyspark_mom.offsets import as_dict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION: Final = 1
#: where queries without a checkpoint begin, if it is not where the parameters say
_START: Final = "start.json"
#: rows of a batch: enough for large files, and few enough for the memory of a small machine
MAX_ROWS: Final = 500_000
_MAX_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class Archive:
    """The parameters: the archive's folder, and the tables that are written. `every_s` is the interval of a
    resident run; without it, the run ends with what is there now."""

    out: Path
    tables: tuple[str, ...] = (archive_tables.EVENT,)
    start: datetime | None = None
    every_s: int | None = None
    once: bool = False


def run(name: str, source: Source, wish: Archive, around: Surroundings) -> Run:
    """Archive, and return the run, which has ended. Raises PipelineError."""
    source.parsed()
    parameters = {**source.parameters(), "out": str(wish.out.absolute()), "tables": list(wish.tables)}
    job = Job(name, "archive", VERSION, schema.VERSION, {**parameters, "from": _from(wish)})
    with begun(job, around) as found, found.spark(interrupted=False) as spark:
        from mom_pipeline.parquet_archive import ArchiveSink

        spark.dataSource.register(ArchiveSink)
        found.progress.reports_cursor = source.reports_cursor
        queries: list[streams.Query] = []
        try:
            for table in wish.tables:
                queries.append(_start(spark, source, wish, table, found))  # noqa: PERF401 -- one may fail
        except BaseException:
            for query in queries:
                query.running.stop()
            raise
        watch = streams.Watch(queries, found.progress)
        try:
            watch.until_ended(found.stop, around.show)
        finally:
            for table, watched in zip(wish.tables, watch.watched, strict=True):
                _note(found, source, wish.out.absolute() / table, watched)
    return found


def _note(run: Run, source: Source, folder: Path, watched: streams.Watched) -> None:
    """Note for the lineage what a query has read and written."""
    run.lineage.read(source.url, watched.started, watched.places)
    manifests = {"manifest": f"{MANIFEST}/{watched.id}", "batches": watched.batches}
    run.lineage.wrote(str(folder), watched.rows, **manifests)


def _start(spark: SparkSession, source: Source, wish: Archive, table: str, run: Run) -> streams.Query:
    """Start the query of a table."""
    start = _begin(wish, run.folder)
    begins, ends = source.extent(**start)
    reached = checkpoints.reached(run.folder.checkpoint / table)
    if reached is not None:
        begins = as_dict(reached.places)
    if table == archive_tables.MESSAGE:
        start |= {"content": "messages", "includeHeaders": "true", "maxBytesPerTrigger": str(_MAX_BYTES)}
    else:
        start |= {"maxRowsPerTrigger": str(MAX_ROWS)}
    if source.reports_cursor:
        start["cursor"] = archive_tables.cursor(run.name, table)
    rows = archive.transform(source.stream(spark, archive_tables.names(table), **start), table)
    writer = rows.writeStream.format("mom_archive").option("path", str(wish.out.absolute()))
    writer = writer.option("table", table).option("checkpointLocation", str(run.folder.checkpoint / table))
    writer = writer.queryName(f"{run.name} {table}").trigger(**streams.trigger(wish.every_s, once=wish.once))
    return streams.Query(writer.start(), writer, begins, ends)


def _offsets(folder: JobFolder) -> list[dict[str, Any]]:
    """The positions that each table has reached."""
    rows: list[dict[str, Any]] = []
    for table in folder.job.parameters["tables"]:
        found = checkpoints.reached(folder.checkpoint / table)
        for broker, place in found.places.items() if found else ():
            rows.append({"table": table, "broker": broker, "epoch": place.epoch, "position": place.pos})
    return rows


def _begin_at(folder: JobFolder, positions: Mapping[str, int]) -> Path | None:
    """Set the checkpoint aside, so that the next run begins at these positions; return where it is."""
    folder.write(_START, positions)
    if not folder.checkpoint.exists():
        return None
    kept = folder.path / f"checkpoint.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    folder.checkpoint.rename(kept)
    return kept


def _begin(wish: Archive, folder: JobFolder) -> dict[str, str]:
    """The option with the place where a query begins that has no checkpoint."""
    positions = folder.read(_START)
    if positions is not None:
        return {"startingOffsets": json.dumps(positions)}
    begin = _from(wish)
    return {"startingTimestamp": begin} if begin else {"startingOffsets": "earliest"}


def _from(wish: Archive) -> str | None:
    """The time where a new archive begins, as the source takes it."""
    return None if wish.start is None else wish.start.strftime("%Y-%m-%dT%H:%M:%SZ")


STATE: Final = RunState(
    again="the next run reads {source} again from where it begins; rows that {out} has are refused, so empty "
    "it, or name another folder",
    offsets=_offsets,
    begin_at=_begin_at,
)
