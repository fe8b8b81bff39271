"""The destinations of a broker, and whether messages can be sent to one."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.core.destination import (
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    has_wildcard,
    is_forwarded,
    parse,
)
from broker_app.core.message import (
    DeliveryOptions,
    Envelope,
)
from broker_app.core.model import LimitUsage, NamedSubscription, Queue
from broker_app.core.outcome import Arrived, DestinationCreated
from broker_app.core.policy import DestinationPolicy
from broker_app.core.remote.offset import Offset
from broker_app.core.remote.sync_queue import SYNC_ADDRESS, SyncQueue, check_is_no_sync_queue
from broker_app.core.topics.topic import Topics
from broker_app.core.turn import Turn


class Destinations:
    """Queues by address, subscriptions of topics, durable and shared subscriptions."""

    def __init__(self, turn: Turn, topics: Topics, offsets: dict[str, Offset]) -> None:
        self._turn = turn
        self._offsets = offsets
        self.queues: dict[str, Queue] = {}
        self.topics = topics
        #: separate, so that no wildcard matches private topics
        self.temporary_topics = Topics()
        #: named subscriptions, by the address of their queue
        self.named: dict[str, NamedSubscription] = {}
        #: in place of deleted temporary queues: messages to it are counted and dropped
        self.discard = Queue("/temp-queue/gone", durable=False)
        self.discard.deleted = True
        self.discard.limit_usage = LimitUsage(self.discard.policy)  # so that each message is checked

    def queue(self, address: str, *, durable: bool = True) -> Queue:
        """The queue of `address`, created when it does not exist."""
        queue = self.queues.get(address)
        if queue is None:
            queue = SyncQueue(self._offsets) if address == SYNC_ADDRESS else Queue(address, durable=durable)
            queue.forwarded = queue.in_order = is_forwarded(address)
            queue.apply_policy(self._turn.policies.of(address))
            self.queues[address] = queue  # when it is complete
            self._turn.emit_destination(DestinationCreated(address))
        return queue

    def policy_of(self, queue: Queue) -> DestinationPolicy:
        """The policy of a queue; a durable subscription has that of its topic."""
        return self._turn.policies.of(
            queue.address, queue.named.terms.filter if queue.named is not None else ""
        )

    def topics_of(self, destination: Destination) -> Topics:
        """The subscriptions of topics of this kind."""
        return self.topics if destination.kind == TOPIC else self.temporary_topics

    def create_declared(self) -> None:
        """Create the queues that have a policy of their own."""
        for address in self._turn.policies.exact:
            if address.startswith("/queue/"):
                self.queue(address)

    def target(self, envelope: Envelope) -> Queue | None:
        """The queue that an envelope names, created on first use; None when it names a topic."""
        address = envelope.address
        queue = self.queues.get(address)
        if queue is not None and not (queue.producers_paused or queue.named) and envelope.options is None:
            return queue
        destination = self.check_sendable(address, envelope.options)
        if queue is not None:
            return queue
        if not destination.is_queue:
            return None
        if destination.kind == TEMP_QUEUE:
            # The requester has disconnected: its replies are dropped, and the sender gets no error.
            return self.discard
        return self.queue(address)

    def check_sendable(self, address: str, options: DeliveryOptions | None = None) -> Destination:
        """The destination of a message; Refused when it cannot be sent there now. Creates nothing."""
        destination = sendable(address)
        if options is not None and options.is_delayed and destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            raise Refused(
                "unsupported",
                f"a message to {address} cannot be delayed, because a temporary destination is deleted with "
                "its connection; send it when it is due",
            )
        check_is_no_sync_queue(address)
        queue = self.queues.get(address)
        paused = (
            self._turn.policies.of(address).refuses_producers if queue is None else queue.producers_paused
        )
        if paused:
            raise Refused("paused", f"{address} accepts no messages now: {_pause_reason(address)}")
        if queue is None and destination.kind == QUEUE:
            self.check_creation(address)
        return destination

    def check_creation(self, address: str) -> None:
        """Refused when a queue of this name is not created automatically."""
        if not self._turn.policies.of(address).auto_create:
            raise Refused(
                "not-found",
                f"there is no queue {address}, and queues of this name are not created automatically; "
                "ask an administrator to create it",
            )

    def emit_arrivals(self) -> None:
        """Publish one event for each queue whose messages wait for a bridge that is not connected."""
        self._turn.out.arrived = [
            Arrived(address)
            for address in self._turn.out.forwarded
            if (queue := self.queues.get(address)) is not None
            and not queue.consumers
            and queue.first_lane() is not None
        ]


def _pause_reason(address: str) -> str:
    if is_forwarded(address):
        return "an administrator paused it, or its bridge is being drained"
    return "an administrator paused it"


def sendable(address: str) -> Destination:
    """The destination of a message; Refused when it names more than one."""
    destination = parse(address)
    if not destination.is_queue and has_wildcard(destination.name):
        raise Refused("bad-destination", f"{address!r} has a wildcard; send the message to one topic")
    return destination
