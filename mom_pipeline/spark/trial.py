"""A first query, to see that Spark, Java and the workers in Python run together."""

from __future__ import annotations

import time

from mom_pipeline.session import make_session


def run() -> float:
    """Start Spark, have a worker compute three rows, and stop it; the seconds until they were there."""
    began = time.monotonic()
    spark = make_session("mom pipeline doctor", "local[1]", niceness=0)  # it is awaited
    try:
        total = spark.sparkContext.parallelize(["1", "2", "3"], 1).map(float).sum()
        taken = time.monotonic() - began
    finally:
        spark.stop()
    assert total == 6.0
    return taken
