"""The sink of the archive: each batch of a stream becomes visible exactly once, for every reader.

Spark's own file sink needs readers that know its log. Here tasks write Parquet files that no reader sees yet,
and the driver renames them to their places; `archive_files` has the steps, and the state after a kill behind
each.

Folders are broker, date and hour (UTC, whatever the time zone of the session), not the destination: there are
thousands of those, and most are small. Rows are in order of position; `destination` is a column with a
dictionary, so a filter on it reads little else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mom_pipeline import archive_files, archive_tables
from mom_pipeline.archive_files import ArchiveError, ArchivePart
from mom_pipeline.parts import PartWriter

#: most files that a task writes at a time, and most bytes that it keeps for them
MAX_OPEN = 32
MAX_BUFFERED = 64 * 1024 * 1024
_US_PER_HOUR = 3_600_000_000
_EPOCH = datetime(1970, 1, 1)


class ArchiveSink(DataSource):
    """`writeStream.format("mom_archive")`, after `spark.dataSource.register(ArchiveSink)`. Options: `path`, a
    folder that the driver and all tasks share, and `table`. Rows are those of `jobs.archive`; positions of
    one broker are in one partition or in disjoint ones, as the source reads them."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mom_archive"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """The writer of a stream; ArchiveError names an option that is wrong, or columns that are missing."""
        if overwrite:
            raise ArchiveError("an archive only grows; use the output mode append")
        root, table = Path(self.options.get("path", "")), self.options.get("table", archive_tables.EVENT)
        if not root.is_absolute():
            raise ArchiveError(f"the option path is {str(root)!r}; it must be an absolute path")
        missing = set(archive_tables.names(table)) - set(schema.names)
        if missing:
            raise ArchiveError(
                f"the rows have no columns {', '.join(sorted(missing))}; jobs.archive.transform chooses them"
            )
        return _Writer(root, table)


@dataclass(frozen=True)
class _Staged(WriterCommitMessage):
    """The files that a task wrote, and the query that it belongs to."""

    query: str
    parts: list[ArchivePart]


class _Writer(DataSourceStreamArrowWriter):
    def __init__(self, root: Path, table: str) -> None:
        self._root, self._table = root, table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Staged:
        """Write the rows of a task into files that no reader sees. A query is known by the id in its
        checkpoint: by its name, a new checkpoint, whose batches begin at 0 again, would look like one whose
        batches were written before."""
        task = TaskContext.get()
        query = task.getLocalProperty("sql.streaming.queryId") if task is not None else None
        batch = task.getLocalProperty("streaming.sql.batchId") if task is not None else None
        if not query or not batch:
            raise ArchiveError("Spark gives this task no id of a query; only streams can be archived")
        staging = archive_files.staging_folder(query, int(batch))
        return _Staged(query, stage_rows(iterator, self._root, staging, self._table))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the files of all tasks visible."""
        staged = [message for message in messages if isinstance(message, _Staged)]
        if staged:
            parts = [part for message in staged for part in message.parts]
            archive_files.commit(self._root, staged[0].query, batchId, parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave the files of a failed batch where no reader sees them; its next attempt deletes them."""


def stage_rows(batches: Iterator[pa.RecordBatch], root: Path, staging: str, table: str) -> list[ArchivePart]:
    """Write rows into files below the folder `staging`: one for each hour of a broker, or more when it is
    large. They are on the disk when this returns."""
    schema = archive_tables.arrow_schema(table)
    writers: dict[str, PartWriter] = {}
    parts: list[ArchivePart] = []
    for batch in batches:
        for broker, date, hour, rows in _by_hour(batch):
            folder = archive_files.hour_folder(
                table, archive_files.checked_name("broker", broker), date, hour
            )
            writer = writers.pop(folder, None) or PartWriter(root, staging, table, folder, broker)
            writers[folder] = writer  # the one used last is at the end
            writer.add(rows.select(schema.names).cast(schema))
            if len(writers) > MAX_OPEN:
                parts += writers.pop(next(iter(writers))).close()
        if sum(writer.buffered for writer in writers.values()) > MAX_BUFFERED:
            for writer in writers.values():
                writer.flush()
    for writer in writers.values():
        parts += writer.close()
    return parts


def _by_hour(batch: pa.RecordBatch) -> Iterator[tuple[str, str, int, pa.RecordBatch]]:
    """(broker, date, hour, its rows) of each hour of each broker."""
    hours = pc.divide(batch["event_ts"].cast(pa.int64()), _US_PER_HOUR)
    keys = pa.table({"broker": batch["broker"], "hour": hours})
    groups = keys.group_by(["broker", "hour"], use_threads=False).aggregate([]).to_pylist()
    for group in groups:
        rows = batch
        if len(groups) > 1:
            is_in = pc.and_(pc.equal(batch["broker"], group["broker"]), pc.equal(hours, group["hour"]))
            rows = batch.filter(is_in)
        begin = _EPOCH + timedelta(hours=group["hour"])
        yield group["broker"], begin.date().isoformat(), begin.hour, rows
