"""A job for a cluster: it reads a queue, writes it into others, and prints what it has seen.

`spark-submit cluster_job.py URL CREDENTIAL CHECKPOINT`; a stream is run if there is a checkpoint.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession


def main(url: str, credential: str, checkpoint: str) -> None:
    """Run all parts of the job."""
    spark = SparkSession.builder.getOrCreate()
    broker = {"url": url, "credential": credential}
    source = {**broker, "content": "messages", "destinations": "/queue/cluster.in", "minPartitions": "4"}
    rows = spark.read.format("mom").options(**source).load()
    bodies = sorted(row.body for row in rows.selectExpr("CAST(body AS STRING) body").collect())
    _bodies(rows).write.format("mom").options(**broker, destination="/queue/cluster.batch").mode(
        "append"
    ).save()
    if checkpoint:
        stream = spark.readStream.format("mom").options(
            **source, startingOffsets="earliest", maxRowsPerTrigger="400"
        )
        query = (
            _bodies(stream.load())
            .writeStream.format("mom")
            .options(**broker, destination="/queue/cluster.stream", checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    print(json.dumps({"bodies": bodies, "modules": _modules(spark)}))
    spark.stop()


def _bodies(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("body")


def _modules(spark: SparkSession) -> list[str]:
    """The files from which the data source comes in the Python of the workers."""
    parts = spark.sparkContext.parallelize(range(4), 4)
    return sorted(set(parts.map(lambda _: str(__import__("pyspark_mom").__file__)).collect()))


if __name__ == "__main__":
    main(*sys.argv[1:])
