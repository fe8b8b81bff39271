"""Counts the events of an archive by destination: ARCHIVE RESULT."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import functions as F

from mom_pipeline import archive_tables
from mom_pipeline.session import make_session

if __name__ == "__main__":
    spark = make_session("read back", "local[2]", "2g")
    began = time.monotonic()
    events = archive_tables.read(spark, sys.argv[1])
    by_destination = events.groupBy("destination").agg(
        F.count("*").alias("rows"),
        F.count_if(F.col("event") == "ENQUEUE").alias("enqueued"),
        F.count_if(F.col("event") == "ACK").alias("ends"),
        F.count_distinct("message_id").alias("ids"),
    )
    found = by_destination.toArrow().to_pylist()
    sums = {name: sum(row[name] for row in found) for name in ("rows", "enqueued", "ends", "ids")}
    Path(sys.argv[2]).write_text(json.dumps({**sums, "seconds": time.monotonic() - began}))
