"""The reader of streaming queries.

One object lives as long as its query and plans all batches; `read` is called in other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_mom import offsets, ranges
from pyspark_mom.brokers import Brokers
from pyspark_mom.cursor import Cursor
from pyspark_mom.offsets import Offset, Place, Stored
from pyspark_mom.options import Options
from pyspark_mom.transport import Span

if TYPE_CHECKING:
    import pyarrow as pa


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the journals from one durable end to the next."""

    def __init__(self, options: Options, asked: pa.Schema) -> None:
        self._options = options
        self._asked = asked
        self._brokers = Brokers(options, fail_on_unreachable=options.fail_on_unreachable)
        #: the ends that a query with Trigger.AvailableNow reads up to
        self._target: dict[str, Place] | None = None
        self._cursor = Cursor(options.cursor, self._brokers.journals)
        #: the ends that were seen last
        self._seen: dict[str, Place] = {}

    def __reduce__(self) -> tuple[type[JournalStreamReader], tuple[Options, pa.Schema]]:
        """The reader as workers get it: without files and connections, which `read` opens for itself."""
        return JournalStreamReader, (self._options, self._asked)

    def initialOffset(self) -> Stored:
        """The start of a new query. Brokers that are not reached join later."""
        spans = self._reached()
        start = self._brokers.starts(spans)
        self._cursor.report(start)
        return offsets.as_dict(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options for one batch."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what is there now, and then end. Brokers that are not reached are left out, but it is an
        error if all are: the query would end as if it had read everything."""
        self._target = _ends(self._reached())

    def _reached(self) -> dict[str, Span]:
        """The spans of the brokers that are reached. Raises the error of one if none is."""
        spans = self._brokers.spans()
        if not spans:
            raise next(iter(self._brokers.unreachable.values()))
        return spans

    def latestOffset(self, start: Stored, limit: ReadLimit) -> Stored:
        """The end of the next batch: `start` when there is nothing to read.

        A broker that `start` does not name begins here, without rows: where it begins must be in a checkpoint
        before it is read.
        """
        known = offsets.parse(start)
        spans = self._brokers.spans() if self._target is None else self._reached()
        self._brokers.check(known, spans)
        ends = _ends(spans)
        self._seen.update(ends)
        if self._target is not None:
            ends = {name: place for name, place in self._target.items() if name in spans}
        news = {name: span for name, span in spans.items() if name in ends.keys() - known.keys()}
        end = {**ends, **self._brokers.starts(news)}
        found = offsets.merge(known, self._limited(known, end, limit))
        # The batch before this one is complete. A query with Trigger.AvailableNow ends when there is no next
        # one.
        reached = {name: known[name] for name in known.keys() & spans.keys()}
        self._cursor.report(reached, now=self._target is not None and found == known)
        return offsets.as_dict(found)

    def _limited(self, start: Offset, end: Offset, limit: ReadLimit) -> Offset:
        if isinstance(limit, ReadMaxRows):
            return offsets.limit(start, end, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            size = self._brokers.bytes_per_position(start, end)
            return offsets.limit(start, end, max(1, int(limit.max_bytes / size)))
        return end

    def reportLatestOffset(self) -> Stored | None:
        """The ends that were seen last, for the progress of the query; those of brokers that are not reached
        are marked."""
        report = offsets.as_dict(self._seen)
        for name in self._brokers.unreachable.keys() & report.keys():
            report[name]["unreachable"] = True
        return report or None

    def partitions(self, start: Stored, end: Stored) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader.partitions`; follows from the arguments and the options alone."""
        return ranges.split(offsets.parse(start), offsets.parse(end), self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader.read`."""
        assert isinstance(partition, ranges.Range)
        return ranges.read(partition, self._options, self._asked)

    def commit(self, end: Stored) -> None:
        """Report the cursor. Spark calls this one batch late, and never for the last batch of a query with
        Trigger.AvailableNow: `latestOffset` knows more."""
        self._cursor.report(offsets.parse(end))

    def stop(self) -> None:
        """Close all journals."""
        self._brokers.close()


def _ends(spans: Mapping[str, Span]) -> dict[str, Place]:
    return {name: Place(span.epoch, span.end, span.tag) for name, span in spans.items()}
