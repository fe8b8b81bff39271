"""Consumers of this broker before those of others, on queues with `prefer_local`.

A quick consumer is without credit for a moment now and then: between the last delivery that it may hold and
its next acknowledgement. A message that crossed to another broker for that would cost more than the moment.
So consumers of other brokers wait while the local ones are without credit, for at most `WAIT_MS`. They do not
wait where a message has waited so long already: then local consumers do not keep up.
"""

from __future__ import annotations

from typing import Final

from broker_app.core.delivery.rotation import Rotation
from broker_app.core.model import Queue, Subscription
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.timers import Alarms
from broker_app.core.turn import Turn

#: added to the priority of consumers of other brokers where local ones are preferred: below all of theirs
AFTER_LOCAL: Final = -(1 << 32)
#: how long a message waits for local consumers while others have credit, ms: several times what a quick one
#: takes to acknowledge, with a commit before and after
WAIT_MS: Final = 20


def comes_after_local(subscription: Subscription) -> bool:
    """Return whether a consumer is one of another broker that is served after local ones."""
    return subscription.priority < AFTER_LOCAL // 2


class LocalPreference:
    """Makes rotations that prefer local consumers, and ends what others wait in them when it is due."""

    def __init__(self, turn: Turn, store: MessageStore) -> None:
        self._turn = turn
        self._store = store
        self.alarms: Alarms[LocalFirst] = Alarms(turn.call_at)

    def apply(self, queue: Queue) -> None:
        """Have a queue prefer local consumers from now on."""
        if not isinstance(queue.available, LocalFirst):
            rotation = LocalFirst(queue, self._turn, self.alarms)
            rotation.take_over(queue.available)
            queue.available = rotation

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift when consumers of other brokers are served, because the clock was set."""
        self.alarms.shift(by_ms)

    def run_due(self) -> None:
        """Serve consumers of other brokers that have waited for local ones long enough."""
        for rotation in self.alarms.due(self._turn.now_ms):
            if rotation.end_wait():
                self._store.mark_dirty(rotation.queue)


class LocalFirst(Rotation):
    """A rotation in which consumers of other brokers, the last of all, may have to wait: `first` is None
    then, though `lower` has them."""

    __slots__ = ("_alarms", "_is_late", "_turn", "_until_ms", "queue")

    def __init__(self, queue: Queue, turn: Turn, alarms: Alarms[LocalFirst]) -> None:
        super().__init__()
        self.queue = queue
        self._turn = turn
        self._alarms = alarms
        #: whether no local consumer has had credit since a wait for one ended
        self._is_late = True
        #: the end of the last wait
        self._until_ms = 0

    def join(self, subscription: Subscription) -> None:
        """Add a consumer behind those of its priority."""
        if not comes_after_local(subscription):
            self._is_late = False
            super().join(subscription)
            return
        waits = self.first is None and (bool(self.lower) or self._begin_wait())
        if waits:
            self._serve_others()
        super().join(subscription)
        if waits:
            self._hold_others()

    def leave(self, subscription: Subscription) -> None:
        """Remove a consumer. Others wait if no local one is left."""
        super().leave(subscription)
        if self.first is not None and comes_after_local(self.first) and self._begin_wait():
            self._hold_others()

    def take_over(self, other: Rotation) -> None:
        """Have the consumers of `other`, which is empty then. Assumes: there are none here."""
        super().take_over(other)
        self._is_late = self.first is None or comes_after_local(self.first)

    def end_wait(self) -> bool:
        """Serve consumers of other brokers, unless they wait for longer; returns whether they are served
        now."""
        if self.first is not None or not self.lower:
            return False
        now_ms = self._turn.now_ms
        if now_ms < self._until_ms <= now_ms + WAIT_MS:  # else the clock was set
            self._alarms.set(self, self._until_ms)
            return False
        self._is_late = True
        self._serve_others()
        return True

    def _serve_others(self) -> None:
        if self.lower:
            self.first = self.lower.pop(0)

    def _hold_others(self) -> None:
        assert self.first is not None
        self.lower.insert(0, self.first)
        self.first = None

    def _begin_wait(self) -> bool:
        """Have the consumers of other brokers wait for local ones; False when they have to be served."""
        now_ms = self._turn.now_ms
        since_ms = _waits_since_ms(self.queue, now_ms)
        if self._is_late or since_ms <= now_ms - WAIT_MS:
            return False
        self._until_ms = until_ms = since_ms + WAIT_MS
        rings_ms = self._alarms.at_ms(self)
        if not rings_ms or until_ms < rings_ms:
            self._alarms.set(self, until_ms)
        return True


def _waits_since_ms(queue: Queue, now_ms: int) -> int:
    """The time of the message that waits longest; now when none waits, 0 when that is not known."""
    since_ms = now_ms
    for lane in queue.lanes:
        message = lane.first()
        if message is not None:
            since_ms = min(since_ms, message.time_ms if message.time_ms <= now_ms else 0)  # the clock was set
        elif lane.paged.count or lane.loading:
            return 0
    return since_ms
