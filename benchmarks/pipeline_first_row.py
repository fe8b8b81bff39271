"""Starts Spark as jobs do, and prints a line with the first row of a journal: URL."""

from __future__ import annotations

import sys

from mom_pipeline.session import make_session
from mom_pipeline.source import Source

if __name__ == "__main__":
    spark = make_session("first row", "local[2]")
    (row,) = Source(sys.argv[1], "mom").read(spark, ["position"], endingOffsets='{"mom": 1000}').take(1)
    print(row, flush=True)
