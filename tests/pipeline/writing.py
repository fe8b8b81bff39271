"""A program that writes the lines of files into a broker, for tests that kill it: SOURCE CHECKPOINT URL
CREDENTIAL DESTINATION."""

from __future__ import annotations

import sys

from mom_pipeline.session import make_session
from tests.support.java import QUICK


def main(source: str, checkpoint: str, url: str, credential: str, destination: str) -> None:
    """Write each file of the source as a batch, and end."""
    conf = {"spark.sql.shuffle.partitions": "1"}
    spark = make_session("writing", "local[1]", conf=conf, java_options=QUICK, niceness=0)
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(source).selectExpr("value AS body")
    writer = lines.writeStream.format("mom").options(url=url, credential=credential, destination=destination)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
