"""A program that archives the files of a folder, for tests that kill it: SOURCE ROOT."""

from __future__ import annotations

import sys

from mom_pipeline.jobs import archive
from mom_pipeline.parquet_archive import ArchiveSink
from mom_pipeline.session import make_session
from pyspark_mom import schema


def main(source: str, root: str) -> None:
    """Archive each file of the source as a batch, and end."""
    conf = {"spark.sql.shuffle.partitions": "1"}
    spark = make_session(
        "archiving", "local[1]", conf=conf, java_options=("-XX:TieredStopAtLevel=1",), niceness=0
    )
    spark.dataSource.register(ArchiveSink)
    types = ", ".join(f"{column.name} {column.ddl}" for column in schema.COLUMNS)
    events = spark.readStream.schema(types).option("maxFilesPerTrigger", "1").parquet(source)
    writer = archive.transform(events).writeStream.format("mom_archive").option("path", root)
    query = writer.option("checkpointLocation", f"{root}/_checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
