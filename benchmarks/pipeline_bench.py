"""Brokers with data, and Spark, for the parts of the pipeline's benchmark: each made when it is needed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench import progress
from benchmarks.generator import Generator
from benchmarks.pipeline_data import Broker
from benchmarks.pipeline_promises import Seen
from mom_pipeline.runner import Surroundings
from mom_pipeline.session import make_session
from mom_pipeline.source import Source
from tests.support.stores import STORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the names of promises, and what was seen
Found = Iterator[tuple[str, Seen]]

#: messages at scale 1
_BODIES, _EVENTS, _STORED = 1_200_000, 1_500_000, 300_000
#: heap of Spark's Java
MEMORY = "2g"


class NoConsole:
    """The API of a broker that keeps no runs."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return {"items": []} if path.startswith("/bulk/producers") else None


class Bench:
    """The brokers, their data and Spark, each made when it is needed first."""

    def __init__(self, directory: Path, generator: Generator, scale: float, runs: int, on: ExitStack) -> None:
        self.directory = directory
        self.generator = generator
        self.runs = runs
        self._scale = scale
        self._on = on

    def size(self, messages: int) -> int:
        return max(1_000, int(messages * self._scale))

    def share(self, seconds: float) -> float:
        """The part of a time at scale 1."""
        return seconds * self._scale

    def broker(self, name: str, number: int, journal: str = "") -> Broker:
        broker = Broker(self.directory, name, (8150 + number, 61750 + number), journal)
        broker.start()
        self._on.callback(broker.stop)
        return broker

    @cached_property
    def bodies(self) -> Broker:
        """A broker with messages of 1 KiB."""
        broker = self.broker("bodies", 0)
        broker.produce(self.generator, self.size(_BODIES), 1024)
        return broker

    @cached_property
    def events(self) -> Broker:
        """A broker with the events of small messages."""
        broker = self.broker("events", 1)
        broker.pass_through(self.generator, self.size(_EVENTS))
        return broker

    @cached_property
    def stored(self) -> Broker:
        """A broker with messages of 1 KiB in PostgreSQL."""
        url = self._on.enter_context(STORES["postgres"]()).url()
        broker = self.broker("stored", 2, url)
        broker.produce(self.generator, self.size(_STORED), 1024)
        return broker

    @cached_property
    def spark(self) -> SparkSession:
        spark = make_session("benchmark", "local[2]", MEMORY)
        self._on.callback(spark.stop)
        return spark

    def source(self, broker: Broker, url: str = "") -> Source:
        address = url or broker.journal_url
        with_login = address.startswith("http")
        return Source(address, "mom", (), broker.credential if with_login else None)

    def surroundings(self, name: str) -> Surroundings:
        return Surroundings(
            self.directory / "state" / name, NoConsole(), progress, lambda _: None, "local[2]", MEMORY
        )


def median_s(runs: int, work: Callable[[], object]) -> float:
    """The median of the seconds that some work takes."""
    taken = []
    for _ in range(runs):
        began = time.monotonic()
        work()
        taken.append(time.monotonic() - began)
    return statistics.median(taken)
