"""The parts of a flow: status, consumer of the queue, offset of the remote broker, refusals, timers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from broker_app.base.events import FLOW_RECOVERED, FLOW_REFUSED, FLOW_STALLED, Event
from broker_app.core import client_address
from broker_app.core import commands as c
from broker_app.core.inspection import views
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.core.reasons import UNDELIVERABLE
from broker_app.engine import Engine
from broker_app.features.bridge.bridge_errors import BridgeError
from broker_app.features.bridge.timeline import Timeline
from mom_client.connection.link import Link

#: the bytes that a settled delivery takes in the engine's inbox
SETTLED_BYTES: Final = 16


class Status:
    """The status of a flow for reports, and its events in the `timeline` of the bridge.

    Times are seconds since 1970, 0 for never.
    """

    def __init__(self, timeline: Timeline, queue: str) -> None:
        self._timeline = timeline
        self._queue = queue
        self.error: BridgeError | None = None
        self.error_at = 0.0
        #: when the remote broker accepted a message last
        self.progress_at = 0.0
        #: True if an answer is overdue
        self.stalled = False

    def note(self, event: Event, code: str = "", detail: str = "") -> None:
        """Add an event to the timeline."""
        self._timeline.note(event, self._queue, code, detail)

    def failed(self, error: BridgeError) -> None:
        """Keep and note the last error."""
        self.error, self.error_at = error, time.time()
        self.note(FLOW_STALLED if self.stalled else FLOW_REFUSED, *error)

    def recovered(self) -> None:
        """Clear and note the end of an error."""
        self.clear()
        self.note(FLOW_RECOVERED)

    def clear(self) -> None:
        """Clear the error."""
        self.error, self.stalled = None, False


class Consumer:
    """The exclusive consumer of a queue at home; each start of a flow has a new one."""

    def __init__(self, engine: Engine, source: str, id: str) -> None:
        self._engine = engine
        self._source = source
        self._id = id
        self.peer: Peer | None = None

    def submit(self, command: c.Command, size: int = 200) -> None:
        """Hand a command to the engine."""
        self._engine.submit(command, size)

    @property
    def exists(self) -> bool:
        """True if the queue exists."""
        return self._source in self._engine.broker.destinations.queues

    @property
    def waiting(self) -> int:
        """Messages that wait in the queue."""
        queue = self._engine.broker.destinations.queues.get(self._source)
        return queue.depth if queue is not None else 0

    @property
    def depth(self) -> int:
        """Messages that wait in the queue, and unsettled ones."""
        queue = self._engine.broker.destinations.queues.get(self._source)
        return queue.depth + queue.unsettled if queue is not None else 0

    def has_unsent(self, accepted: int) -> bool:
        """True if a message up to the position `accepted` waits that was never sent."""
        queue = self._engine.broker.destinations.queues.get(self._source)
        return accepted >= self._engine.broker.turn.next_position or (
            queue is not None and views.has_untried(queue, accepted)
        )

    def subscribe(self, receiver: InnerReceiver, user: str, window: int, receipt: object) -> None:
        """Subscribe with a credit of `window`; nothing is delivered before `resume`."""
        peer = self.peer = Peer(receiver, user=user)
        peer.client = client_address.address_of("", user)
        peer.paused = True
        credit = min(window, self._engine.broker.turn.limits.max_credit)
        self.submit(
            c.Subscribe(
                *(peer, self._id, self._source, c.INDIVIDUAL, credit), exclusive=True, receipt=receipt
            )
        )

    @property
    def subscription(self) -> Subscription | None:
        """The subscription, if there is one."""
        return self.peer.subscriptions.get(self._id) if self.peer is not None else None

    def resume(self) -> None:
        """Have messages delivered."""
        if self.peer is not None:
            self.submit(c.Resume(self.peer))

    def pause(self) -> None:
        """Have no more messages delivered."""
        if self.peer is not None and not self.peer.paused:
            self.submit(c.Pause(self.peer))

    def settle(self, tags: Sequence[int]) -> None:
        """Acknowledge messages."""
        if self.peer is not None:
            self.submit(c.Settle(self.peer, tags), SETTLED_BYTES * len(tags))

    def return_deliveries(self, tags: Sequence[int]) -> None:
        """Return messages to the queue."""
        if self.peer is not None and tags:
            self.submit(c.Return(self.peer, tags))

    def dead_letter(self, tag: int, detail: str) -> None:
        """Make a message a dead letter."""
        if self.peer is not None:
            self.submit(c.Return(self.peer, [tag], dead_reason=UNDELIVERABLE, detail=detail))

    def unsubscribe(self) -> None:
        """Receive no more, and keep what is unsettled."""
        if self.peer is not None:
            self.submit(c.Unsubscribe(self.peer, self._id, keep_unsettled=True))

    def close(self) -> None:
        """Return everything unsettled to the queue."""
        if self.peer is not None:
            self.submit(c.Disconnect(self.peer))
            self.peer = None


class RemoteOffset:
    """The offset of the remote broker: the position up to which it has the messages of a flow."""

    def __init__(self) -> None:
        #: the remote broker has all up to this position
        self.position = 0
        #: its count of messages that is expected at the next start; None if it is not known
        self._count: int | None = None
        #: positions that were sent and not answered: it may have them
        self._unanswered: list[int] = []

    def forget_count(self) -> None:
        """The next start may be at another broker."""
        self._count = None

    def foreign(self) -> None:
        """The remote broker keeps no offset."""
        self.position, self._count = 0, None

    def started(self, position: int, count: int) -> tuple[int, str]:
        """Take over what the remote broker reports. Returns the gap between both counts, and its detail."""
        gap, detail = 0, ""
        if self._count is not None:
            expected = self._count + sum(one <= position for one in self._unanswered)
            gap = abs(count - expected)
            detail = f"it counts {count} messages, and {expected} were accepted"
        self._count = count
        self.position = position
        return gap, detail

    def accepted(self, count: int) -> None:
        """Count messages that the remote broker accepted."""
        if self._count is not None:
            self._count += count

    def subscribed(self) -> None:
        """A new start: what was unanswered is sent again."""
        self._unanswered.clear()

    def unanswered(self, positions: Sequence[int]) -> None:
        """Remember positions without an answer."""
        self._unanswered += positions


class Refusals:
    """The message that was refused last, and how often in a row."""

    def __init__(self) -> None:
        self._position = 0
        self.times = 0
        #: True from a refusal until a message is accepted: only one message is sent at a time
        self.cautious = False

    def count(self, position: int) -> None:
        """Count a refusal of the message at a position."""
        if position != self._position:
            self.times = 0
        self._position = position
        self.times += 1


class Timers:
    """The times of a flow, by the loop's monotonic clock; 0.0 is none."""

    def __init__(self) -> None:
        #: the next attempt of a flow that was refused
        self.retry_at = 0.0
        #: since when an answer is due
        self._due_since = 0.0
        #: bytes of the connection that have to be sent before that answer can come, and that were sent by the
        #: last check
        self._due_behind = self._sent_bytes = 0
        self._idle_since = 0.0

    def connected(self) -> None:
        """Count the bytes of a new connection."""
        self._sent_bytes = 0

    def expect_answer(self, link: Link) -> None:
        """An answer is due from now on, when everything written so far has been sent."""
        self._due_since = time.monotonic()
        self._due_behind = link.written

    def answered(self) -> None:
        """No answer is due."""
        self._due_since = 0.0

    def is_overdue(self, now: float, sent_bytes: int, limit_s: float) -> bool:
        """True if an answer is due for longer than `limit_s`. A long body on a slow line is not overdue."""
        if self._due_since and self._sent_bytes < min(sent_bytes, self._due_behind):
            self._due_since = now
        self._sent_bytes = sent_bytes
        return bool(self._due_since) and now - self._due_since > limit_s

    def active(self) -> None:
        """The flow is not idle."""
        self._idle_since = 0.0

    def is_idle(self, now: float, limit_s: float) -> bool:
        """True if the flow has been idle for `limit_s`, by calls without `active` in between."""
        self._idle_since = self._idle_since or now
        return now - self._idle_since >= limit_s
