"""The broker that a run reads: its options for Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa

from pyspark_mom import ranges
from pyspark_mom.brokers import Brokers
from pyspark_mom.offsets import Place, as_dict
from pyspark_mom.option_types import HTTP
from pyspark_mom.options import Options, parse
from pyspark_mom.ranges import Range
from pyspark_mom.schema import COLUMNS, arrow_schema
from pyspark_mom.transport import open_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: epoch, position and tag by broker, as Spark stores them
Places = dict[str, dict[str, int]]
_DDL = {column.name: column.ddl for column in COLUMNS}


@dataclass(frozen=True)
class Source:
    """The journal at `url`, whose rows have `broker` as the name of the broker. `credential` names an
    environment variable or a file, `destinations` are patterns."""

    url: str
    broker: str
    destinations: Sequence[str] = ()
    credential: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None

    def parameters(self) -> dict[str, object]:
        """The part that belongs to a checkpoint."""
        return {"source": self.url, "broker": self.broker, "destinations": list(self.destinations)}

    def options(self, **more: str) -> dict[str, str]:
        """The options of the data source."""
        found = {"url": self.url, "broker": self.broker, **more}
        if self.destinations:
            found["destinations"] = ",".join(self.destinations)
        if urlsplit(self.url).scheme in HTTP:
            files = {"caFile": self.ca_file, "certFile": self.cert_file}
            found |= {option: file for option, file in files.items() if file}
        if self.credential:
            found["credential"] = self.credential
        return found

    def parsed(self) -> Options:
        """The options, checked. Raises InvalidOption."""
        return parse(self.options())

    def tag(self) -> int:
        """The tag of the journal. Raises MomError."""
        journal = open_journal(self.broker, self.parsed())
        try:
            return journal.span().tag
        finally:
            journal.close()

    def read(self, spark: SparkSession, columns: Iterable[str], **more: str) -> DataFrame:
        """The events as a table with these columns alone, since others cost time."""
        return spark.read.format("mom").schema(_ddl(columns)).options(**self.options(**more)).load()

    def read_here(self, spark: SparkSession, columns: Sequence[str], positions: Range) -> DataFrame:
        """The events of some positions in one partition, read by this process: that of few takes a part of
        the time that the processes of Spark need to begin. Raises MomError."""
        schema = arrow_schema(columns)
        batches = ranges.read(positions, self.parsed(), schema)
        return spark.createDataFrame(pa.Table.from_batches(batches, schema)).coalesce(1)

    def extent(self, **more: str) -> tuple[Places, Places]:
        """The places where a new stream with these options begins, and where it would end now. Raises
        MomError."""
        options = parse(self.options(**more), streaming=True)
        brokers = Brokers(options, fail_on_unreachable=True)
        try:
            spans = brokers.spans()
            ends = {name: Place(span.epoch, span.end, span.tag) for name, span in spans.items()}
            return as_dict(brokers.starts(spans)), as_dict(ends)
        finally:
            brokers.close()

    @property
    def reports_cursor(self) -> bool:
        """Return whether streams of it report their cursor."""
        return urlsplit(self.url).scheme in HTTP

    def stream(self, spark: SparkSession, columns: Iterable[str], **more: str) -> DataFrame:
        """The events as a stream."""
        return spark.readStream.format("mom").schema(_ddl(columns)).options(**self.options(**more)).load()


def _ddl(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} {_DDL[name]}" for name in columns)
