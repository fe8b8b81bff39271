"""Writers of Spark: each batch of rows is published into a broker exactly once.

Each task stages its rows, which are invisible. The driver commits the stages of all tasks with the name of
the producer and the number of the batch. A batch that Spark repeats, since it did not learn that it was
committed, is recognized by the broker."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_mom.bulk_client import BulkClient, Stage
from pyspark_mom.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

#: the id of the query, which stays the same as long as its checkpoint
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The rows that one task has staged; without rows, there is no stage. `query` is the id of its streaming
    query, else empty."""

    stage: Stage
    query: str = ""


class BulkWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query, as one batch. Spark makes it once for each query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._producer = options.producer or f"batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """See `DataSourceArrowWriter.write`."""
        return Staged(_stage(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See `DataSourceWriter.commit`."""
        _commit(self._options, self._producer, self._options.batch or 0, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """See `DataSourceWriter.abort`."""
        _abort(self._options, _staged(messages))


class BulkStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """See `DataSourceStreamArrowWriter.write`."""
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context is not None else None
        return Staged(_stage(self._options, iterator), query or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See `DataSourceStreamWriter.commit`. Only the tasks know the id of the query."""
        staged = _staged(messages)
        producer = self._options.producer or next((one.query for one in staged if one.query), "")
        if producer:  # without tasks there are no rows
            _commit(self._options, producer, batchId, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See `DataSourceStreamWriter.abort`."""
        _abort(self._options, _staged(messages))


def _stage(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Stage:
    """Stage the rows of a task under an id of its own: another attempt of the task has another."""
    with closing(BulkClient(options)) as client:
        return client.stage_rows(batches)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _commit(options: SinkOptions, producer: str, batch: int, staged: Sequence[Staged]) -> None:
    stages = [one.stage for one in staged if one.stage.rows]
    if not stages:  # a commit is a record: a stream that reads the same broker would read it, and never rest
        return
    with closing(BulkClient(options)) as client:
        published = client.commit(producer, batch, stages)
    if not published:
        _log.warning("batch %d of %s had been published before, and was not published again", batch, producer)


def _abort(options: SinkOptions, staged: Sequence[Staged]) -> None:
    with closing(BulkClient(options)) as client:
        client.abort([one.stage.id for one in staged if one.stage.parts])
