"""The backlog: what waits in all queues of the node together, dead letters apart.

Only queues in which something waits or is handed out are remembered, each as it was when it moved last; so
what rests costs a line of a loop.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from broker_app.base.deadline import Deadline
from broker_app.core.model import Queue


class BacklogTotals(NamedTuple):
    """Messages that wait, dead letters not among them; those handed out and not settled; dead letters; and
    since when (ms since 1970) the oldest of the first has waited, None when nothing does."""

    backlog: int = 0
    unsettled: int = 0
    dead: int = 0
    since_ms: int | None = None


class QueueBacklog(NamedTuple):
    """A queue as it was when it moved last: how many wait, whether they are dead letters, and since when (ms
    since 1970) the oldest of them does, where that is known."""

    queue: Queue
    depth: int
    is_dead: bool
    since_ms: int | None


class Backlog:
    """`note` takes each queue that moved, `sum` adds up."""

    def __init__(self) -> None:
        self._held: dict[str, QueueBacklog] = {}
        #: by address, since when (ms since 1970) a queue restored from the journal is known to hold messages
        self._restored: dict[str, tuple[Queue, int]] = {}

    def note_restored(self, queue: Queue, since_ms: int) -> None:
        """Remember since when a queue from the journal has waited at least: no message of it is in memory."""
        if queue.depth and not queue.counters.published:
            self._restored[queue.address] = queue, since_ms

    def since_ms(self, queue: Queue) -> int | None:
        """Since when (ms since 1970) the oldest message has waited; after a restart, since the restart at
        least. None when it is not known."""
        oldest = queue.oldest_in_memory()
        if oldest is not None:
            return oldest.time_ms
        restored = self._restored.get(queue.address)
        if restored is None or not queue.depth:
            return None
        counters = queue.counters
        if restored[0] is queue and not (
            counters.delivered or counters.dead or counters.expired or counters.removed
        ):
            return restored[1]
        del self._restored[queue.address]  # the messages that were restored first may have left
        return None

    def note(self, queue: Queue, *, is_of_dead_letters: bool) -> None:
        """Note what a queue that moved holds."""
        depth = queue.depth
        if not depth and not queue.unsettled:
            self._held.pop(queue.address, None)
            return
        self._held[queue.address] = QueueBacklog(
            queue,
            depth,
            is_of_dead_letters,
            self.since_ms(queue),
        )

    def __iter__(self) -> Iterator[QueueBacklog]:
        """Those that hold anything."""
        return iter(self._held.values())

    def sum(self, queues: Mapping[str, Queue]) -> Generator[None, None, BacklogTotals]:
        """Return the totals of those that are still among `queues`; the others are forgotten. Messages may
        be moved at each step."""
        backlog = unsettled = dead = 0
        since_ms: int | None = None
        gone = []
        remaining, deadline = iter(list(self._held.items())), Deadline(time.monotonic)
        for first in remaining:
            deadline.begin()
            for address, held in chain((first,), deadline.each(remaining)):
                if queues.get(address) is not held.queue:
                    gone.append(address)
                    continue
                unsettled += held.queue.unsettled
                if held.is_dead:
                    dead += held.depth
                    continue
                backlog += held.depth
                if held.since_ms is not None and (since_ms is None or held.since_ms < since_ms):
                    since_ms = held.since_ms
            yield
        for address in gone:
            if queues.get(address) is not self._held[address].queue:
                del self._held[address]
                self._restored.pop(address, None)
        return BacklogTotals(backlog, unsettled, dead, since_ms)
