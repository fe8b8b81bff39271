"""Producers that outrun consumers at full speed: they are paced, which is not read for moments, so that the
queue stays short. Of clients without a connection of their own, as over REST, what they send is held instead.

Between a producer and a consumer at full speed, both with a window, a queue that has grown by chance would
stay as long as it is, and each message would wait for all of those before it. A queue is there to take what
slow consumers cannot take: when they do not get on quickly while its producers wait, those go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Final

from broker_app.core import commands as c
from broker_app.core.model import Peer, Queue
from broker_app.core.publishing.polling_consumers import PollingConsumers, is_polled
from broker_app.core.turn import Turn

#: waiting messages up to which producers are not paced: connections, and clients without one. Those send
#: fewer a second, so that as many messages would wait for longer
SHORT: Final = 256
SHORT_OF_HELD: Final = 32
#: acknowledgements for which a producer waits, for each message that it has sent
ACKED: Final = 1.5
#: ms that it waits for them at most, for each message; so it still sends 10,000 a second
WAIT_MS: Final = 0.1
#: the same across a link of a cluster, and at least: acknowledgements take two more turns of two brokers
ACROSS_WAIT_MS: Final = 0.3
ACROSS_MS: Final = 20
#: the part of them with which producers are still paced after that time. Across a link consumers get on less
#: evenly: what they acknowledge comes in frames, and may wait for two brokers
ACROSS_ENOUGH: Final = 0.5
#: ms that clients without a connection wait at most, for each message: in most of that time the broker reads
#: what they send next
HELD_WAIT_MS: Final = 0.5
#: ms without pacing after consumers have not got on within that time: at first, and after further times
FREE_MS: Final = 100
MOST_FREE_MS: Final = 10_000
#: bytes of commands that are held, of all queues; beyond it no producer waits longer than this turn. Each
#: command counts as that many bytes more than its bodies have
MOST_HELD: Final = 16 * 1024 * 1024
_HELD_BYTES: Final = 500


class Pace:
    """The pace of a queue."""

    __slots__ = (
        "free_ms",
        "free_until_ms",
        "from_acked",
        "held",
        "is_polled",
        "polling",
        "short",
        "until_acked",
        "until_ms",
        "waiting",
    )

    def __init__(self) -> None:
        #: the producers that wait, until so many messages were acknowledged, or this time
        self.waiting: set[Peer] = set()
        self.until_acked = self.until_ms = 0.0
        #: what came meanwhile of peers that are not ordered
        self.held: deque[c.Publish] = deque()
        #: messages that had been acknowledged when the first of them began to wait
        self.from_acked = 0
        #: waiting messages up to which none of them waits
        self.short = SHORT
        #: whether all consumers polled when the first of them began to wait
        self.is_polled = False
        self.polling = PollingConsumers()
        #: when producers wait again, and how long they do not after the next time in vain
        self.free_until_ms, self.free_ms = 0, FREE_MS

    def gets_on(self, queue: Queue, now_ms: int) -> bool:
        """Return whether consumers get on quickly enough to wait for them again, although less was
        acknowledged than was waited for."""
        if queue.remote_consumers:
            taken = queue.counters.acked - self.from_acked
            return taken >= ACROSS_ENOUGH * (self.until_acked - self.from_acked)
        return self.is_polled and self.polling.get_on(queue, now_ms)

    def is_free(self, now_ms: int) -> bool:
        """Return whether producers are let be, by the clock as it is: it may have been set back."""
        return now_ms < self.free_until_ms <= now_ms + MOST_FREE_MS

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
        #: bytes of the commands that are held
        self.held_bytes = 0

    def published(self, queue: Queue, peer: Peer, count: int) -> None:
        """Have the producer of `count` messages to a queue that is not short wait. One that has subscriptions
        never waits: its acknowledgements may be what others wait for. A peer that is not ordered is many
        clients, each of which waits for the answer to what it has sent: what comes next of them is held."""
        pace = queue.pace
        if pace is None:
            pace = queue.pace = Pace()
        now_ms, acked = self._turn.now_ms, queue.counters.acked
        if peer.ordered and (peer.subscriptions or not peer.connection):
            return
        if pace.is_free(now_ms) or not (queue.unsettled or pace.polling.are_there(queue, now_ms)):
            return
        if queue not in self.queues:
            self.queues[queue] = pace
            pace.until_acked = pace.from_acked = acked
            pace.until_ms = now_ms + (ACROSS_MS if queue.remote_consumers else 1)
            pace.short = SHORT if peer.ordered else SHORT_OF_HELD
            pace.is_polled = is_polled(queue)
            pace.polling.watch(queue, now_ms)
        pace.until_acked += ACKED * count
        wait_ms = WAIT_MS if peer.ordered else HELD_WAIT_MS
        pace.until_ms += (ACROSS_WAIT_MS if queue.remote_consumers else wait_ms) * count
        self._note_next()
        self._turn.follows_up = True
        if peer.ordered:
            pace.waiting.add(peer)
            self._paced.add(peer)
            self._changed(peer)

    def hold(self, queue: Queue | None, command: c.Publish) -> bool:
        """Hold a command of a peer that is not ordered, if the producers of its queue wait; returns whether
        it is held."""
        pace = self.queues.get(queue) if queue is not None else None
        if pace is None:
            return False
        self.held_bytes += _size(command)
        pace.held.append(command)
        if self.held_bytes > MOST_HELD:
            pace.until_ms = self._turn.now_ms
        return True

    def next_held(self, queue: Queue) -> c.Publish | None:
        """The next command that was held for a queue, to be carried out now; None when there is none."""
        pace = queue.pace
        if not pace.held:
            return None
        command: c.Publish = pace.held.popleft()
        self.held_bytes -= _size(command)
        return command

    def put_back(self, queue: Queue, rest: c.Publish | None) -> None:
        """Hold what is left of a command that was begun, and those behind it, until the next turn, unless
        producers wait again."""
        pace = queue.pace
        if rest is not None:
            self.held_bytes += _size(rest)
            pace.held.appendleft(rest)
        if pace.held and queue not in self.queues:
            self.queues[queue] = pace
            pace.until_acked = pace.from_acked = queue.counters.acked
            pace.until_ms = self._turn.now_ms
            self._note_next()

    def review(self) -> list[Queue]:
        """Let producers go on that have waited long enough. Returns the queues of which commands are held
        that are to be carried out now."""
        now_ms = self._turn.now_ms
        resumed = []
        for queue, pace in list(self.queues.items()):
            if queue.depth > pace.short and queue.counters.acked < pace.until_acked:
                if now_ms < pace.until_ms:
                    continue
                if not pace.gets_on(queue, now_ms):
                    pace.waited_in_vain(now_ms)
            else:
                pace.free_ms = FREE_MS
            for peer in pace.waiting:
                self._paced.discard(peer)
                self._changed(peer)
            pace.waiting.clear()
            del self.queues[queue]
            if pace.held:
                resumed.append(queue)
        self._note_next()
        return resumed

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift the times until which producers wait, after the clock was set."""
        for pace in self.queues.values():
            pace.until_ms += by_ms
        self._note_next()

    def _note_next(self) -> None:
        self.next_ms = ceil(min((pace.until_ms for pace in self.queues.values()), default=0))
        if self.next_ms:
            self._turn.call_at(self.next_ms)


def _size(command: c.Publish) -> int:
    """About the bytes that a command holds in memory."""
    return _HELD_BYTES + sum(len(body) for _, body, _ in command.entries)
