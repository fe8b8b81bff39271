"""The Spark data source `mom`: the journals of MOM brokers as a table, and brokers as a sink.

Spark finds it by the name of this package. It imports every package called `pyspark_*` when it searches for
data sources, so the modules of this one are imported when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_mom.reader import JournalReader
    from pyspark_mom.sink import BulkStreamWriter, BulkWriter
    from pyspark_mom.stream import JournalStreamReader


class DefaultSource(DataSource):
    """`format("mom")` of Spark, to read and to write, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mom"

    def schema(self) -> str:
        """The columns of the table when the query does not name any; see `schema.COLUMNS`."""
        from pyspark_mom import options, schema

        return schema.ddl(options.parse(self.options))

    def reader(self, schema: StructType) -> JournalReader:
        """The reader of a batch query, which reads what is stored when it is planned."""
        from pyspark_mom.options import parse
        from pyspark_mom.reader import JournalReader
        from pyspark_mom.schema import requested

        return JournalReader(parse(self.options), requested(schema))

    def streamReader(self, schema: StructType) -> JournalStreamReader:
        """The reader of a streaming query."""
        from pyspark_mom.options import parse
        from pyspark_mom.schema import requested
        from pyspark_mom.stream import JournalStreamReader

        return JournalStreamReader(parse(self.options, streaming=True), requested(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BulkWriter:
        """The writer of a batch query: its rows are published as one batch, once."""
        from pyspark_mom import sink, sink_columns, sink_options

        options = sink_options.parse(self.options)
        sink_columns.check(schema, options, overwrite=overwrite)
        return sink.BulkWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> BulkStreamWriter:
        """The writer of a streaming query: each of its batches is published once."""
        from pyspark_mom import sink, sink_columns, sink_options

        options = sink_options.parse(self.options, streaming=True)
        sink_columns.check(schema, options, overwrite=overwrite)
        return sink.BulkStreamWriter(options)
