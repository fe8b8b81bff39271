"""The backlog: what waits in all queues of the node together, dead letters apart.

Only queues in which something waits or is handed out are remembered, each as it was when it moved last; so
what rests costs a line of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker_app.core.destination import DEAD_SUFFIX
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
    since 1970) the oldest of them in memory does."""

    queue: Queue
    depth: int
    is_dead: bool
    since_ms: int | None


class Backlog:
    """`note` takes each queue that moved, `sum` adds up."""

    def __init__(self) -> None:
        self._held: dict[str, QueueBacklog] = {}

    def note(self, queue: Queue, dead_letter_queues: frozenset[str]) -> None:
        """A queue moved. `dead_letter_queues` are addresses that destinations name for their dead letters."""
        depth = queue.depth
        if not depth and not queue.unsettled:
            self._held.pop(queue.address, None)
            return
        oldest = queue.oldest()
        self._held[queue.address] = QueueBacklog(
            queue,
            depth,
            is_of_dead_letters(queue.address, dead_letter_queues),
            oldest.time_ms if oldest else None,
        )

    def __iter__(self) -> Iterator[QueueBacklog]:
        """Those that hold anything."""
        return iter(self._held.values())

    def sum(self, queues: Mapping[str, Queue]) -> BacklogTotals:
        """Over those that are still among `queues`; the others are forgotten."""
        backlog = unsettled = dead = 0
        since_ms: int | None = None
        gone = []
        for address, held in self._held.items():
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
        for address in gone:
            del self._held[address]
        return BacklogTotals(backlog, unsettled, dead, since_ms)


def is_of_dead_letters(address: str, dead_letter_queues: frozenset[str]) -> bool:
    """Whether what waits there are dead letters, which wait for an operator and not for consumers."""
    return address.endswith(DEAD_SUFFIX) or address in dead_letter_queues
