"""Streaming queries of a run: started, watched, and stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mom_pipeline.progress import IDLE, RUNNING, STOPPING, Progress
from mom_pipeline.source import Places
from mom_pipeline.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: seconds between two looks at a query, and when it is to stop
_LOOK_S: Final = 0.5
_SHORT_LOOK_S: Final = 0.05
#: seconds that a batch has to end in when the run is to stop; then it is made again by the next run
_BATCH_S: Final = 30.0
#: the error of a batch whose tasks Spark could not write down, which happens when two queries begin at the
#: same moment; nothing was done then, and the next attempt works
_NOT_SERIALIZED: Final = "Task serialization failed"
_ATTEMPTS: Final = 5


class Query(NamedTuple):
    """A query that runs, its writer, and the places where it begins and would end now: Spark reports the
    first of them never, the others when the first batch is done."""

    running: StreamingQuery
    writer: DataStreamWriter
    begins: Places
    ends: Places


class Watch:
    """Watches the queries of a run until all of them end, with their progress counted."""

    def __init__(self, queries: Sequence[Query], progress: Progress) -> None:
        self._progress = progress
        #: what each query has done, in the order of the queries
        self.watched = [Watched(query, progress) for query in queries]

    def until_ended(self, stop: Stop, show: Callable[[Progress], None]) -> None:
        """Wait until all queries end; when a stop is requested, stop each after its batch. Raises the error
        of a query that failed."""
        try:
            while self._look(show):
                if stop.wait(_LOOK_S):
                    self._stop_after_batches(show)
                    return
        finally:
            self._progress.set(state=STOPPING)
            for one in self.watched:
                one.query.stop()
            self._count()

    def _stop_after_batches(self, show: Callable[[Progress], None]) -> None:
        """Stop each query when the batch is complete that it makes now, if that does not take too long."""
        deadline = time.monotonic() + _BATCH_S
        numbers = [one.batch for one in self.watched]
        while self._look(show) and time.monotonic() < deadline:
            for one, number in zip(self.watched, numbers, strict=True):
                if one.is_between_batches or one.batch > number:
                    one.query.stop()
            time.sleep(_SHORT_LOOK_S)

    def _look(self, show: Callable[[Progress], None]) -> bool:
        """Show what was done; return whether a query is active. Raises the error of one that failed."""
        active = any(one.query.isActive for one in self.watched)
        self._count()
        show(self._progress)
        for one in self.watched:
            error = one.query.exception()
            if error is not None:
                one.start_again(error)
                active = True
        return active

    def _count(self) -> None:
        """Count what all queries have done; they read the same positions."""
        watched, progress = self.watched, self._progress
        for one in watched:
            one.look()
        if all(one.places for one in watched):
            progress.reach(_least(one.places for one in watched))
        progress.read = sum(one.read for one in watched) // len(watched)
        progress.total = progress.read + sum(one.lag for one in watched) // len(watched)
        lag = max(one.lag for one in watched)
        progress.set(lag=lag)
        if progress.state != STOPPING:
            progress.set(state=RUNNING if lag or not all(one.is_between_batches for one in watched) else IDLE)


def trigger(every_s: int | None, *, once: bool) -> dict[str, Any]:
    """The arguments of `DataStreamWriter.trigger`: what is there now, in one batch or in many, or for ever at
    an interval."""
    if every_s is not None:
        return {"processingTime": f"{every_s} seconds"}
    return {"once": True} if once else {"availableNow": True}


class Watched:
    """Counts each batch of a query once."""

    def __init__(self, query: Query, progress: Progress) -> None:
        self.query, self._writer, self._begins, ends = query
        self._progress = progress
        #: attempts to begin the next batch
        self._attempts = 1
        self.id = str(self.query.id)
        #: number of the last batch that is complete
        self.batch = -1
        #: places from which on and up to which it has read, and numbers of its first and last batch
        self.started: Places = {}
        self.places: Places = {}
        self.batches: list[int] = []
        self.rows = 0
        #: positions that were read, and that are not read yet
        self.read, self.lag = 0, _between(self._begins, ends)

    @property
    def is_between_batches(self) -> bool:
        """Return whether it makes no batch now."""
        return not (self.query.isActive and self.query.status["isTriggerActive"])

    def start_again(self, error: Exception) -> None:
        """Start the query again if its batch was never begun. Raises the error otherwise."""
        if _NOT_SERIALIZED not in str(error) or self._attempts == _ATTEMPTS:
            raise error
        self._attempts += 1
        self.query = self._writer.start()

    def look(self) -> None:
        """Count the batches that are complete."""
        for found in self.query.recentProgress:
            if found["batchId"] <= self.batch or not found["sources"]:
                continue
            start, end, latest = (
                _places(found["sources"][0][name]) for name in ("startOffset", "endOffset", "latestOffset")
            )
            start = start or self._begins
            self.lag = _between(end, latest)
            if "addBatch" in found["durationMs"]:
                self.batch = found["batchId"]
                self._attempts = 1
                self.started = self.started or start
                self.places = end
                self.batches = [*self.batches[:1], found["batchId"]]
                self.rows += found["numInputRows"]
                self.read += _between(start, end)
                self._progress.batch(found["numInputRows"], int(found["durationMs"]["triggerExecution"]))


def _least(places: Iterable[Places]) -> Places:
    """The least place of each broker."""
    found: Places = {}
    for each in places:
        for name, at in each.items():
            found[name] = min(found.get(name, at), at, key=lambda place: place["pos"])
    return found


def _places(offset: str | Mapping[str, Any] | None) -> Places:
    """An offset in a report of Spark, which is JSON in JSON."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return dict(found or {})


def _between(start: Places, end: Places) -> int:
    """The positions from one offset to another, of the brokers that both have."""
    return sum(max(0, end[name]["pos"] - start[name]["pos"]) for name in start.keys() & end.keys())
