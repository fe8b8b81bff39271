"""Consumers that poll, as over REST: whether they are there, and whether they get on.

They take many messages with each request and acknowledge them together, with nothing unsettled between two
requests. So they are judged by what was acknowledged within some time.
"""

from __future__ import annotations

from typing import Final

from broker_app.core.model import Queue

#: ms between two looks at what they have acknowledged; they get on if it is so much of what was published
LOOK_MS: Final = 100
ENOUGH: Final = 0.75


def is_polled(queue: Queue) -> bool:
    """Return whether no consumer of a queue has a connection over which it takes what comes."""
    return not any(one.peer.ordered for one in queue.consumers)


class PollingConsumers:
    """Those of one queue. A time that lies ahead is of a clock that was set back since."""

    __slots__ = ("_acked", "_began_ms", "_published", "_seen_acked", "_seen_ms")

    def __init__(self) -> None:
        #: messages that had been acknowledged when something was published last; when they had become more
        self._seen_acked = self._seen_ms = 0
        #: when a look began, and what there was then; 0: what comes has no part in one
        self._began_ms = self._acked = self._published = 0

    def are_there(self, queue: Queue, now_ms: int) -> bool:
        """Return whether something was acknowledged a moment ago, perhaps as soon as it was taken."""
        acked = queue.counters.acked
        if acked != self._seen_acked:
            self._seen_acked, self._seen_ms = acked, now_ms
        return 0 <= now_ms - self._seen_ms < LOOK_MS and is_polled(queue)

    def watch(self, queue: Queue, now_ms: int) -> None:
        """Look at what comes from now on, unless a look goes on."""
        if not 0 <= now_ms - self._began_ms <= 2 * LOOK_MS:
            self._began_ms = now_ms
            self._acked, self._published = queue.counters.acked, queue.counters.published

    def get_on(self, queue: Queue, now_ms: int) -> bool:
        """Return whether they get on, as far as the look that goes on shows."""
        counters = queue.counters
        if 0 <= now_ms - self._began_ms < LOOK_MS:
            return True
        taken, published = counters.acked - self._acked, counters.published - self._published
        self._began_ms = 0  # what is published without waiting has no part in the next look
        return taken >= ENOUGH * published
