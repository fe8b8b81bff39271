"""The reader of batch queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_mom import ranges
from pyspark_mom.brokers import Brokers
from pyspark_mom.offsets import Place
from pyspark_mom.options import Options

if TYPE_CHECKING:
    import pyarrow as pa


class JournalReader(DataSourceReader):
    """Reads what the journals hold between the two ends that the options name, as of when the query is
    planned."""

    def __init__(self, options: Options, asked: pa.Schema) -> None:
        self._options = options
        self._asked = asked

    def partitions(self) -> list[InputPartition]:
        """See `DataSourceReader.partitions`."""
        start, end = self._extent()
        return list(ranges.split(start, end, self._options.min_partitions))

    def _extent(self) -> tuple[dict[str, Place], dict[str, Place]]:
        brokers = Brokers(self._options, fail_on_unreachable=self._options.fail_on_unreachable)
        try:
            spans = brokers.spans()
            start, end = brokers.extent(spans)
            brokers.check(start, spans)
            return start, end
        finally:
            brokers.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader.read`. Without partitions, Spark makes one that is none of ours."""
        if isinstance(partition, ranges.Range):
            yield from ranges.read(partition, self._options, self._asked)
