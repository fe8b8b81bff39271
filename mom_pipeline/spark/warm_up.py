"""Runs Spark once, so that Java records the classes: `python -m mom_pipeline.spark.warm_up ARCHIVE WORK`.

The work is that of jobs, or none: then the archive has the classes with which Java starts, and is small."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from mom_pipeline.session import attach, local_conf
from mom_pipeline.spark import class_data, gateway, java, spark_home

_MEMORY = "1g"
_ROWS = 1_000
#: Java writes the archive when it ends, for some seconds; on a busy machine for longer
_STOP_TIMEOUT_S = 300.0


class _Reader(DataSourceReader, DataSourceStreamReader):
    """Rows of one partition; as a stream, in one batch."""

    def initialOffset(self) -> dict[str, int]:
        return {"position": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"position": _ROWS}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def partitions(self, *_: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        times = pyarrow.array([n * 1_000_000 for n in range(_ROWS)], pyarrow.timestamp("us", "UTC"))
        yield pyarrow.RecordBatch.from_pydict(
            {
                "position": list(range(_ROWS)),
                "destination": [f"/queue/{n % 7}" for n in range(_ROWS)],
                "at": times,
                "body": [b"body"] * _ROWS,
            }
        )


class _Events(DataSource):
    """A small source in Python, of the shape of the one that reads brokers."""

    @classmethod
    def name(cls) -> str:
        return "warm_up"

    def schema(self) -> str:
        return "position bigint, destination string, at timestamp, body binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader()


def main(path: Path, work: str) -> None:
    """Run the work, and have Java write the archive at `path` when it ends."""
    found = java.find()
    home = spark_home.find(found)
    started = gateway.launch(found, home, _MEMORY, class_data.record(home, path))
    if work == class_data.JOBS:
        spark = attach(started, "warm-up", "local[2]", local_conf(_MEMORY))
        do_work(spark)
        spark.stop()
    else:
        started.connect().shutdown()
    started.stop(_STOP_TIMEOUT_S)


def do_work(spark: SparkSession) -> None:
    """Work as jobs do, in a batch and in streams."""
    with tempfile.TemporaryDirectory(prefix="mom-warm-up-") as directory:
        spark.dataSource.register(_Events)
        _batch(spark, directory)
        _stream(spark, directory)


def _batch(spark: SparkSession, directory: str) -> None:
    events = spark.read.format("warm_up").load().where("position >= 10")
    events.write.mode("overwrite").parquet(f"{directory}/events")
    stored = spark.read.parquet(f"{directory}/events")
    joined = stored.join(events.select("position", "body"), "position", "left_anti")
    joined.orderBy(functions.desc("at")).limit(10).collect()
    _statistics(stored).toArrow()
    spark.createDataFrame([(1, "one")], "id bigint, name string").collect()


def _statistics(events: DataFrame) -> DataFrame:
    return events.groupBy(functions.window("at", "1 minute"), "destination").agg(
        functions.count("*").alias("events"),
        functions.sum(functions.length("body")).alias("bytes"),
        functions.percentile_approx("position", 0.95).alias("p95"),
        functions.approx_count_distinct("position").alias("distinct"),
    )


def _stream(spark: SparkSession, directory: str) -> None:
    events = spark.readStream.format("warm_up").load()
    counted = _statistics(events.withWatermark("at", "1 minute"))

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{directory}/batch={number}")

    for frame, mode in ((events, "append"), (counted, "update")):
        writer = frame.writeStream.foreachBatch(keep).outputMode(mode)
        writer.option("checkpointLocation", f"{directory}/{mode}").trigger(
            availableNow=True
        ).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
