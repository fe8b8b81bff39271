"""Producers that outrun consumers at full speed: they are paced, which is not read for moments, so that the
queue stays short.

Between a producer and a consumer at full speed, both with a window, a queue that has grown by chance would
stay as long as it is, and each message would wait for all of those before it. A queue is there to take what
slow consumers cannot take: when they do not get on quickly while its producers wait, those go on.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from broker_app.core.model import Peer, Queue
from broker_app.core.turn import Turn

#: waiting messages up to which producers are not paced
SHORT: Final = 256
#: acknowledgements for which a producer waits, for each message that it has sent
ACKED: Final = 1.5
#: ms that it waits for them at most, for each message; so it still sends 10,000 a second
WAIT_MS: Final = 0.1
#: the same across a link of a cluster, and at least: acknowledgements take two more turns of two brokers
ACROSS_WAIT_MS: Final = 0.3
ACROSS_MS: Final = 20
#: the part of them with which producers are still paced after that time. It is only across a link that
#: consumers get on less evenly: what they acknowledge comes in frames, and may wait for two brokers
ACROSS_ENOUGH: Final = 0.5
#: ms without pacing after consumers have not got on within that time: at first, and after further times
FREE_MS: Final = 100
MOST_FREE_MS: Final = 10_000


class Pace:
    """The pace of a queue."""

    __slots__ = ("free_ms", "free_until_ms", "from_acked", "until_acked", "until_ms", "waiting")

    def __init__(self) -> None:
        #: the producers that wait, until so many messages were acknowledged, or this time
        self.waiting: set[Peer] = set()
        self.until_acked = self.until_ms = 0.0
        #: messages that had been acknowledged when the first of them began to wait
        self.from_acked = 0
        #: when producers wait again, and how long they do not after the next time in vain
        self.free_until_ms, self.free_ms = 0, FREE_MS

    def is_enough(self, acked: int) -> bool:
        """Return whether consumers across a link get on quickly enough to wait for them again."""
        return acked - self.from_acked >= ACROSS_ENOUGH * (self.until_acked - self.from_acked)

    def waited_in_vain(self, now_ms: int) -> None:
        """Let producers be for a while, each time for longer."""
        self.free_until_ms = now_ms + self.free_ms
        self.free_ms = min(2 * self.free_ms, MOST_FREE_MS)


class PacedProducers:
    """Decides which producers wait for consumers: those in `paced`. `changed` is called with each that begins
    or ends to wait."""

    def __init__(self, turn: Turn, paced: set[Peer], changed: Callable[[Peer], None]) -> None:
        self._turn = turn
        self._paced = paced
        self._changed = changed
        #: queues whose producers wait
        self.queues: dict[Queue, Pace] = {}
        #: when the next producer has waited long enough, 0 when none waits
        self.next_ms = 0

    def published(self, queue: Queue, peer: Peer, count: int) -> None:
        """Have the producer of `count` messages to a queue that is not short wait. One that has subscriptions
        never waits: its acknowledgements may be what others wait for."""
        pace = queue.pace
        if pace is None:
            pace = queue.pace = Pace()
        now_ms = self._turn.now_ms
        if now_ms < pace.free_until_ms or peer.subscriptions or not peer.connection:
            return
        if queue not in self.queues:
            self.queues[queue] = pace
            pace.until_acked = pace.from_acked = queue.counters.acked
            pace.until_ms = now_ms + (ACROSS_MS if queue.remote_consumers else 1)
        pace.until_acked += ACKED * count
        pace.until_ms += (ACROSS_WAIT_MS if queue.remote_consumers else WAIT_MS) * count
        pace.waiting.add(peer)
        self._note_next()
        self._paced.add(peer)
        self._changed(peer)

    def review(self) -> None:
        """Let producers go on that have waited long enough."""
        now_ms = self._turn.now_ms
        for queue, pace in list(self.queues.items()):
            if queue.depth > SHORT and queue.counters.acked < pace.until_acked:
                if now_ms < pace.until_ms:
                    continue
                if not (queue.remote_consumers and pace.is_enough(queue.counters.acked)):
                    pace.waited_in_vain(now_ms)
            else:
                pace.free_ms = FREE_MS
            for peer in pace.waiting:
                self._paced.discard(peer)
                self._changed(peer)
            pace.waiting.clear()
            del self.queues[queue]
        self._note_next()

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift the times until which producers wait, after the clock was set."""
        for pace in self.queues.values():
            pace.until_ms += by_ms
        self._note_next()

    def _note_next(self) -> None:
        self.next_ms = ceil(min((pace.until_ms for pace in self.queues.values()), default=0))
        if self.next_ms:
            self._turn.call_at(self.next_ms)
