"""The state that all components share while commands are decided: time, outcome, and answers to clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from broker_app.base.deadline import NEVER, Deadline
from broker_app.base.refused import Refused, internal
from broker_app.base.system_topics import SYSTEM
from broker_app.core import commands as c
from broker_app.core.destination import is_system_topic, parse
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.core.model import Peer, Queue
from broker_app.core.outcome import (
    CommandFailure,
    ConsumerJoined,
    ConsumerLeft,
    ConsumerSlow,
    DeadLetter,
    DestinationCreated,
    DestinationDeleted,
    DestinationFull,
    Outcome,
)
from broker_app.core.policy import Policies
from broker_app.core.topics.topic import Topics

_Parts = TypeVar("_Parts", bound=c.Parts)
_SYSTEM_TOPICS = f"/topic/{SYSTEM}"

# Messages outside the journal take their positions from here up, so that ids stay unique.
UNRECORDED = 1 << 47


class Turn:
    """The shared state of all components; `out` is the outcome of the current turn.

    `counters` are totals since start; so are `dead` and `dropped`, the messages that became dead letters and
    those that were discarded instead, by reason. `discarded` counts those and others. `on_stop` is called
    with each peer that a refusal stops.
    """

    def __init__(self, *, tag: int, limits: Limits | None, policies: Policies | None, topics: Topics) -> None:
        self.limits = limits or Limits()
        self.policies = policies or Policies()
        self.ids = MessageIds(tag)
        self.next_position = 1
        self.now_ms = 0
        #: when the rest has to wait for the next turn
        self.deadline = NEVER
        self.counters = dict.fromkeys(
            (
                *("published", "delivered", "redelivered", "expired", "discarded", "refused", "duplicates"),
                # of those, what was sent to topics, and delivered of them
                *("published_to_topics", "delivered_of_topics"),
            ),
            0,
        )
        self.dead: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        #: peers that are stopped and have not disconnected yet
        self.stopped_peers = 0
        #: the position of the newest message outside the journal
        self._unrecorded = UNRECORDED
        self.out = Outcome(1, 0)
        self._topics = topics
        self.on_stop: list[Callable[[Peer], None]] = []
        #: the time when `Broker.decide` has to be called even without commands
        self.next_call_ms = 0
        #: whether `Broker` has to do more at the end of this turn than to deliver and to record
        #: acknowledgements; set by each component that has something left for it
        self.follows_up = False

    def begin(self, now_us: int, onto: Outcome | None, deadline: Deadline) -> Outcome:
        """Begin a turn at the time `now_us`; returns its outcome, which is `onto` when that is not committed
        yet."""
        self.out = onto or Outcome(self.next_position, now_us)
        self.deadline = deadline
        self.now_ms = now_us // 1000
        return self.out

    def call_at(self, at_ms: int) -> None:
        """Have `Broker.decide` called at a time, or earlier."""
        if at_ms < self.next_call_ms:
            self.next_call_ms = at_ms

    def forget(self, peer: Peer) -> None:
        """Mark a peer as disconnected; it no longer counts as stopped."""
        if peer.stopped and not peer.disconnected:
            self.stopped_peers -= 1
        peer.disconnected = True

    def transient_message(self, envelope: Envelope, body: bytes) -> Message:
        """A new message that is not recorded."""
        return Message(envelope, body, self.transient_position(), self.now_ms, False)

    def transient_position(self) -> int:
        """The position of one more message that is not recorded."""
        self._unrecorded += 1
        return self._unrecorded

    def accept(self, peer: Peer, receipt: Any, answer: object = None) -> None:
        """Confirm a command; a detailed peer also gets `answer`: the published message, or transfer
        results."""
        if receipt is None:
            return
        peer.receipts.append((receipt, answer) if peer.detailed else receipt)
        if not peer.touched:
            peer.touched = True
            self.out.touched.append(peer)

    def refuse(self, peer: Peer, receipt: Any, error: Exception) -> None:
        """Refuse a command before anything was changed. A strict peer gets only the first refusal, and is
        stopped by it. An `error` that is not a refusal is an internal error: it ends the connection of the
        client, if there is one, and affects no other client."""
        if peer.stopped:
            return
        if not isinstance(error, Refused):
            self.out.failures.append(CommandFailure(peer, error))
            error = internal()
            if peer.connection:
                self.stop(peer)
                self.out.closes.append((peer, error))
                return
        if peer.strict:
            self.stop(peer)
        peer.refusals.append((receipt, error))
        self.out.refusals += 1
        self.schedule_flush(peer)

    def count_deliveries_of_topic(self, address: str, number: int) -> None:
        """Count deliveries of a topic, or of a filter of topics; those of system topics do not count."""
        if not address.startswith(_SYSTEM_TOPICS):
            self.counters["delivered"] += number
            self.counters["delivered_of_topics"] += number

    def detail_of(self, peer: Peer, error: Exception) -> str:
        """The reason why one part of a command is refused; notes an internal error."""
        if isinstance(error, Refused):
            return error.detail
        self.out.failures.append(CommandFailure(peer, error))
        return internal().detail

    def in_parts(self, parts: _Parts) -> _Parts | None:
        """Go on with a command; returns what is left of it when the deadline has passed."""
        for _ in parts.left:
            if self.deadline.passed:
                return parts
        return None

    def stop(self, peer: Peer) -> None:
        """Ignore all further commands of a peer, until it disconnects."""
        peer.stopped = True
        if not peer.disconnected:
            self.stopped_peers += 1
        for listener in self.on_stop:
            listener(peer)

    def schedule_flush(self, peer: Peer) -> None:
        """Have a peer flushed after the commit."""
        if not peer.touched:
            peer.touched = True
            self.out.touched.append(peer)

    # ------------------------------------------------------------------ events for system topics

    @property
    def has_listeners(self) -> bool:
        """True if a system topic has subscribers."""
        return self._topics.reaches(SYSTEM)

    def emit_destination(self, event: DestinationCreated | DestinationDeleted | DestinationFull) -> None:
        """Publish an event of a destination; temporary ones have none."""
        if self.has_listeners and not event.address.startswith("/temp-"):
            self.out.events.append(event)

    def emit_consumer(self, event: ConsumerJoined | ConsumerLeft | ConsumerSlow) -> None:
        """Publish an event of a consumer; consumers of system topics have none."""
        address = event.subscription.address
        if self.has_listeners and not address.startswith("/temp-") and not is_system_topic(parse(address)):
            self.out.events.append(event)

    def emit_dead_letter(self, queue: Queue, message: Message, reason: str, detail: str) -> None:
        """Count a dead letter; one event a batch for each queue and reason."""
        former = self.out.dead_letters.get((queue.address, reason))
        count = former.messages + 1 if former else 1
        event = DeadLetter(queue.address, reason, count, self.ids.of(message).decode(), detail)
        self.out.dead_letters[queue.address, reason] = event
