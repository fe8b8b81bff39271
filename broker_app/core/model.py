"""Peers, their subscriptions and the queues that they consume: the records that commands act on.

They refer to each other, so they are defined together. Components own and change them.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from broker_app.base.refused import Refused
from broker_app.core.account import Account
from broker_app.core.delivery.rotation import Rotation
from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.records import Terms
from broker_app.core.message import DEFAULT_PRIORITY, Envelope, Message, group_of
from broker_app.core.policy import REMOVE_LOW_PRIORITY, REMOVE_OLDEST, DestinationPolicy
from broker_app.core.remote.offset import Flow
from broker_app.core.selectors.selector import Selector
from broker_app.core.storage.lane import Lane
from broker_app.core.topics.replay import Replay
from broker_app.core.transaction import Transaction

# (subscription, tag, message); tag 0 needs no acknowledgement
Delivery = tuple["Subscription", int, Message]

#: names a client over all its connections: its user, token and ids
ClientKey = tuple[str | None, ...]
#: discards samples that are not wanted
NO_SAMPLES: deque[int] = deque(maxlen=0)
DEFAULT_POLICY = DestinationPolicy()
#: the priority of the only lane of a queue that keeps the order of the journal
ANY_PRIORITY = DEFAULT_PRIORITY
#: a client that has sent nothing for so long is no longer counted as a producer
PRODUCER_MS = 60_000


class Receiver(Protocol):
    """The owner of a peer: a STOMP session, the REST API, or a client within the process."""

    def flush(self, peer: Peer) -> None:
        """Take and clear `peer.receipts`, `refusals`, `deliveries`. Called after the commit, once a batch,
        or again and again until many refusals are sent."""

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        """The bytes of `messages`, in the parts in which they are sent, for every subscription of the same
        fan-out group as `subscription`."""

    def send(self, part: bytes) -> None:
        """Send a part that `render` returned, perhaps of another receiver."""

    def throttle(self, on: bool) -> None:
        """Stop reading from the client (`on`) because many of its messages are blocked, or read again."""

    def hold(self, on: bool) -> None:
        """Stop reading from the client (`on`) because an interceptor holds much of it, or read again."""

    def close(self, refusal: Refused) -> None:
        """Send the reason to the client, and close the connection."""

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        """Report that the broker has ended a subscription, and why."""


class InnerReceiver:
    """A receiver within the process, without a connection and without subscriptions to topics. It discards
    what it receives; subclasses override `flush`."""

    def flush(self, peer: Peer) -> None:
        peer.receipts.clear()
        peer.refusals.clear()
        peer.deliveries.clear()

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        raise AssertionError("an inner receiver has no subscriptions to topics")

    def send(self, part: bytes) -> None:
        raise AssertionError("an inner receiver has no subscriptions to topics")

    def throttle(self, on: bool) -> None:
        """Do nothing: inner receivers bound what they send themselves."""

    def hold(self, on: bool) -> None:
        """Do nothing: inner receivers bound what they send themselves."""

    def close(self, refusal: Refused) -> None:
        raise AssertionError(f"an inner receiver has no connection to close: {refusal}")

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        raise AssertionError(f"an inner receiver has no subscription that can be ended: {refusal}")


class Peer:
    """A client session, as the core sees it.

    `receipts`, `refusals` and `deliveries` are filled while a batch is decided and taken by
    `receiver.flush` after its commit. A `detailed` peer gets `(token, message | None)` for each
    success, others the bare token. Its messages wait `blocked_timeout_ms` for room in a full queue (0: as
    long as the limits of the broker allow). A refusal ends the connection of a `strict` peer: later commands
    are ignored. Interceptors do not look at what the broker itself publishes, by peers that are `own`. A peer
    that is not `ordered` serves clients whose commands are independent of each other."""

    __slots__ = (
        "account",
        "blocked_timeout_ms",
        "client",
        "client_key",
        "connection",
        "deliveries",
        "detailed",
        "disconnected",
        "fanned_out",
        "flows",
        "next_tag",
        "ordered",
        "own",
        "paused",
        "receipts",
        "receiver",
        "refusals",
        "returned",
        "stopped",
        "strict",
        "subscriptions",
        "suspended",
        "temporary",
        "touched",
        "transactions",
        "unsettled",
        "user",
    )

    def __init__(
        self,
        receiver: Receiver,
        *,
        user: str = "",
        detailed: bool = False,
        blocked_timeout_ms: int = 0,
        own: bool = False,
        ordered: bool = True,
    ) -> None:
        self.receiver = receiver
        self.user = user
        self.own = own
        self.ordered = ordered
        #: its `client_address`, for records; empty for a part of the broker
        self.client = ""
        #: the same for all connections of one client that names itself; empty for others
        self.client_key: ClientKey = ()
        #: the memory that the broker uses for it; None while that is nothing
        self.account: Account | None = None
        #: id of the STOMP connection, empty for others
        self.connection = ""
        self.detailed = detailed
        self.blocked_timeout_ms = blocked_timeout_ms
        #: whether it has disconnected
        self.disconnected = False
        self.strict = False
        #: whether it is strict and was refused
        self.stopped = False
        self.receipts: list[Any] = []
        self.refusals: list[tuple[Any, Refused]] = []
        self.deliveries: list[Delivery] = []
        self.touched = False
        self.paused = False
        #: whether it is paused with the whole broker, for which it is not called slow
        self.suspended = False
        self.next_tag = 1
        #: messages that its ended topic subscriptions received by fan-out
        self.fanned_out = 0
        self.unsettled: dict[int, tuple[Subscription, Message]] = {}
        #: tags of deliveries that went back when it ended their subscription, the latest of them
        self.returned: dict[int, None] = {}
        self.subscriptions: dict[str, Subscription] = {}
        #: its flows, when it is the bridge of another broker, by subscription id
        self.flows: dict[str, Flow] = {}
        self.transactions: dict[str, Transaction] = {}
        self.temporary: set[str] = set()


class Fanout:
    """Messages of one batch for all `members` of a group: rendered once, sent to each. A member that leaves
    before the batch is decided receives none of them."""

    __slots__ = ("_left", "group", "members", "messages")

    def __init__(self, group: FanoutGroup, members: tuple[Subscription, ...]) -> None:
        self.group = group
        self.members = members
        self.messages: list[Message] = []
        self._left: set[Subscription] | None = None

    def leave(self, subscription: Subscription) -> bool:
        """Remove a member; returns whether it was one. `close` takes all that left out together."""
        if self._left is None:
            self._left = set()
        if subscription in self._left or subscription not in self.members:
            return False
        self._left.add(subscription)
        return True

    def close(self) -> bool:
        """Add no more messages; returns whether any member is left."""
        self.group.seal()
        if self._left:
            self.members = tuple(member for member in self.members if member not in self._left)
        return bool(self.members)


class FanoutGroup:
    """Subscriptions of one filter whose messages are rendered to equal bytes and need no settling."""

    __slots__ = ("_frozen", "fanned_out", "fanout", "members", "selector")

    def __init__(self, selector: Selector | None) -> None:
        #: the selector of all members
        self.selector = selector
        self.members: dict[Subscription, None] = {}
        self._frozen: tuple[Subscription, ...] | None = None
        #: the fan-out of the batch being decided; a change of members begins a new one
        self.fanout: Fanout | None = None
        #: messages that its members have received so far
        self.fanned_out = 0

    def add(self, subscription: Subscription) -> None:
        """Add a member."""
        self.seal()
        self._frozen = None
        self.members[subscription] = None
        subscription.fanned_out_before = self.fanned_out

    def remove(self, subscription: Subscription) -> None:
        """Remove a member, and count what it has received."""
        self.seal()
        self._frozen = None
        if subscription in self.members:
            del self.members[subscription]
            got = self.fanned_out - subscription.fanned_out_before
            subscription.delivered_directly += got
            subscription.peer.fanned_out += got

    def seal(self) -> None:
        """Add no more messages to the open fan-out."""
        if self.fanout is not None:
            self.fanned_out += len(self.fanout.messages)
            self.fanout = None

    def open(self) -> Fanout:
        """Begin the fan-out of this batch."""
        if self._frozen is None:
            self._frozen = tuple(self.members)
        self.fanout = Fanout(self, self._frozen)
        return self.fanout


class Subscription:
    """A consumer of one destination.

    `queue` is where its messages wait: a shared queue, or one of its own for a topic filter.

    `head` is for the session to cache rendered bytes in. `fanout_group`, while set, is the group of topic
    subscriptions that are served together because their messages are rendered to equal bytes.
    `probe_tag` is the delivery whose time to acknowledgement is measured, 0 for none.
    `inner_ack` is True if a part of the node settles its deliveries: `ack` is then INDIVIDUAL, and the client
    has asked for AUTO.
    """

    __slots__ = (
        "ack",
        "address",
        "available",
        "client",
        "credit",
        "dead_lettered",
        "delivered_directly",
        "exclusive",
        "exclusive_since_us",
        "fanned_out_before",
        "fanout_group",
        "head",
        "id",
        "inner_ack",
        "lease_ms",
        "next",
        "no_local",
        "peer",
        "previous",
        "principal",
        "priority",
        "probe_ms",
        "probe_tag",
        "processing_ms",
        "queue",
        "remote",
        "render_key",
        "replay",
        "returned",
        "selector",
        "selector_group",
        "since_ms",
        "unsettled",
        "watched",
    )

    def __init__(
        self, peer: Peer, id: str, address: str, ack: str, credit: int, lease_ms: int, render_key: object
    ) -> None:
        self.peer = peer
        #: the `client_address` of the consumer
        self.client = peer.client
        #: `commands.Subscribe.principal`
        self.principal: object = None
        self.id = id
        self.address = address
        self.ack = ack
        self.credit = credit
        self.lease_ms = lease_ms
        self.render_key = render_key
        self.inner_ack = False
        self.fanout_group: FanoutGroup | None = None
        self.queue: Queue
        self.head: bytes | None = None
        self.unsettled = 0
        #: the selector that messages must match, None for all
        self.selector: Selector | None = None
        #: its `selective.state.SelectorGroup` on a queue with selective delivery, which alone sets it
        self.selector_group: Any = None
        #: whether it asks to be the only consumer that is served
        self.exclusive = False
        #: when it has asked for that, µs: of several, the first one is served
        self.exclusive_since_us = 0
        #: consumers of a queue with a higher one are served first
        self.priority = 0
        #: whether it is not sent what its own connection publishes
        self.no_local = False
        #: whether it is for consumers of another broker of the cluster
        self.remote = False
        #: its progress through history, None when it receives new messages only
        self.replay: Replay | None = None
        #: when it was created
        self.since_ms = 0
        self.delivered_directly = 0
        #: deliveries that were returned
        self.returned = 0
        #: of them, those that became dead letters
        self.dead_lettered = 0
        #: messages that its group had fanned out before it joined
        self.fanned_out_before = 0
        self.probe_tag = self.probe_ms = 0
        #: times in ms from delivery to acknowledgement; statistics put a bounded deque here
        self.processing_ms = NO_SAMPLES
        #: whether settling has more to do: there are leases, groups, or bytes that are counted
        self.watched = lease_ms > 0
        #: whether it is in `rotation`, which alone sets its neighbours there
        self.available = False
        self.next: Subscription
        self.previous: Subscription

    @property
    def rotation(self) -> Rotation:
        """The consumers with credit that it takes turns with."""
        return self.queue.available if self.selector_group is None else self.selector_group.available

    @property
    def ended(self) -> bool:
        """True if it was ended; it may still have unsettled deliveries."""
        return self.peer.subscriptions.get(self.id) is not self

    @property
    def fanned_out(self) -> int:
        """Messages that it received by fan-out, together with the others of its group."""
        return self.fanout_group.fanned_out - self.fanned_out_before if self.fanout_group else 0

    @property
    def delivered(self) -> int:
        """Deliveries so far, redeliveries included."""
        return self.delivered_directly + self.fanned_out

    @property
    def acked(self) -> int:
        """Deliveries that were acknowledged."""
        return self.delivered - self.unsettled - self.returned


class NamedSubscription:
    """A durable or shared subscription of a topic. Its messages wait in `queue`, which clients consume by
    subscribing under the name. A durable one exists without consumers, and after a restart."""

    __slots__ = ("durable", "name", "queue", "selector", "terms")

    def __init__(self, name: str, terms: Terms, queue: Queue, selector: Selector | None) -> None:
        self.name = name
        self.terms = terms
        self.queue = queue
        self.durable = queue.durable
        self.selector = selector


class BlockedPublish:
    """A message that was received and waits for room; its producer has no receipt yet."""

    __slots__ = ("arrival", "body", "client", "envelope", "peer", "receipt", "until_ms")

    def __init__(
        self,
        peer: Peer,
        client: str,
        envelope: Envelope,
        body: bytes,
        receipt: Any,
        arrival: int,
        until_ms: int,
    ) -> None:
        self.peer = peer
        self.client = client
        self.envelope = envelope
        self.body = body
        self.receipt = receipt
        #: its place among all blocked messages, in the order of arrival
        self.arrival = arrival
        #: the time when it is refused
        self.until_ms = until_ms

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self.body) + self.envelope.overhead_bytes


class LimitUsage:
    """The use of the limits of one destination.

    `bytes` is the size of the bodies that wait or are unsettled; it is exact where they have a limit. Of
    `unread` messages, which are older than the count, only the number is known until their bodies are read
    back; until then each counts as the average of those that were. `blocked` has the messages that wait for
    room, in order.
    """

    __slots__ = ("_read", "_read_bytes", "blocked", "bytes", "policy", "producers", "since", "unread")

    def __init__(self, policy: DestinationPolicy) -> None:
        self.policy = policy
        self.bytes = 0
        self.unread = 0
        #: the first position that was counted as it came
        self.since = 0
        self._read = self._read_bytes = 0
        self.blocked: deque[BlockedPublish] = deque()
        #: when each producer sent last, ms
        self.producers: dict[Peer, int] = {}

    @property
    def removes(self) -> bool:
        """True if waiting messages are removed to make room for new ones."""
        return self.policy.limit_behavior in (REMOVE_OLDEST, REMOVE_LOW_PRIORITY)

    @property
    def estimated_bytes(self) -> int:
        """The size of all messages, in part estimated."""
        return self.bytes + (self.unread * self._read_bytes // self._read if self._read else 0)

    def holds(self, messages: int, bytes_: int) -> bool:
        """Return whether so many messages of so many bytes are within the limits."""
        policy = self.policy
        return (not policy.max_messages or messages <= policy.max_messages) and (
            not policy.max_bytes or bytes_ <= policy.max_bytes
        )

    def read_back(self, position: int, size: int) -> None:
        """Count a body that was read back from the journal."""
        if position < self.since and self.unread:
            self.unread -= 1
            self.bytes += size
            self._read += 1
            self._read_bytes += size

    def recount(self, known_bytes: int, unread: int, since: int) -> None:
        """Start the count again: the sizes of `unread` messages before the position `since` are not known."""
        self.bytes, self.unread, self.since = known_bytes, unread, since

    def shift(self, by_ms: int) -> None:
        """Shift when producers have sent, because the clock was set."""
        self.producers = {peer: sent_ms + by_ms for peer, sent_ms in self.producers.items()}

    def admits(self, peer: Peer, now_ms: int, elsewhere: int = 0) -> bool:
        """Return whether the number of producers, with those `elsewhere`, allows `peer` to send; it is then
        counted as one."""
        most = self.policy.max_producers
        if most and peer not in self.producers and len(self.producers) + elsewhere >= most:
            self.forget_producers(now_ms)
            if len(self.producers) + elsewhere >= most:
                return False
        if most:
            self.producers[peer] = now_ms
        return True

    def forget_producers(self, now_ms: int) -> None:
        """Forget the producers that are gone, or have sent nothing for a minute."""
        self.producers = {
            producer: sent_ms
            for producer, sent_ms in self.producers.items()
            if not (producer.disconnected or producer.stopped) and now_ms - sent_ms < PRODUCER_MS
        }


class QueueCounters:
    """Messages of a queue since the broker started, by what happened to them."""

    __slots__ = ("acked", "dead", "delivered", "discarded", "expired", "fetched", "published", "removed")

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        #: of those, the ones that their consumer chose by position
        self.fetched = 0
        self.acked = 0
        self.expired = 0
        self.dead = 0
        #: taken out by an operator: purged, moved to another queue, or deleted
        self.removed = 0
        #: accepted though there was no room, and not kept, because they were not persistent
        self.discarded = 0


class QueueSamples:
    """Samples in ms, of one message for each dispatch: the time from arrival to delivery (`wait_ms`), and
    from delivery to acknowledgement (`processing_ms`). Statistics put bounded deques here, and in
    `seen` the state that they read last."""

    __slots__ = ("processing_ms", "seen", "wait_ms")

    def __init__(self) -> None:
        self.wait_ms = self.processing_ms = NO_SAMPLES
        self.seen = 0


class Queue:
    """One queue. Durable queues are recorded; temporary ones, and those of topic subscriptions that are not
    durable, exist in memory only (`durable` False)."""

    __slots__ = (
        "account",
        "acked",
        "active",
        "address",
        "available",
        "consumers",
        "consumers_paused",
        "counters",
        "deleted",
        "dirty",
        "durable",
        "exclusive",
        "expiring",
        "forwarded",
        "idle_since_ms",
        "in_order",
        "lanes",
        "last_grouped",
        "limit_usage",
        "named",
        "pace",
        "policy",
        "producers_paused",
        "reader",
        "released",
        "remote",
        "remote_bytes",
        "remote_consumers",
        "remote_unsettled",
        "samples",
        "selective",
        "unsettled",
    )

    def __init__(self, address: str, *, durable: bool) -> None:
        self.address = address
        self.durable = durable
        #: the use of its limits, None when it has none
        self.limit_usage: LimitUsage | None = None
        self.apply_policy(DEFAULT_POLICY)
        #: the account that its memory is counted for, None where bodies can be paged out to the journal
        self.account: Account | None = None
        self.lanes: list[Lane] = []  # highest priority first
        #: in the order in which they came
        self.consumers: dict[Subscription, None] = {}
        #: consumers that can take a message now, the next one in turn first
        self.available = Rotation()
        #: those of them that are exclusive, in the order in which they have asked for it
        self.exclusive: dict[Subscription, None] = {}
        #: the exclusive consumer that is served while all others are on standby
        self.active: Subscription | None = None
        #: the `selective.state.SelectiveState` while consumers have selectors or messages have groups, else
        #: None; only selective delivery sets it and knows what it contains
        self.selective: Any = None
        #: the position of the newest recorded message that has a group
        self.last_grouped = 0
        #: messages that were acknowledged in the turn being decided, to be recorded, by `client_address`
        self.acked: dict[str, list[Message]] = {}
        self.dirty = False
        #: whether a message with an expiry may wait here
        self.expiring = False
        #: whether it was deleted; deliveries that are returned to it are dropped
        self.deleted = False
        self.idle_since_ms = 0
        #: whether messages keep the order of the journal whatever their priority
        self.in_order = False
        #: whether it is a store-and-forward queue: its messages keep their order, all are recorded, and those
        #: that are returned are delivered again at once, without a limit
        self.forwarded = False
        #: the named subscription whose messages wait here, None for queues that clients can address
        self.named: NamedSubscription | None = None
        self.unsettled = 0
        #: those of its consumers that are other brokers
        self.remote_consumers = 0
        #: messages of other brokers that wait for a consumer here; None while there are none
        self.remote: deque[Any] | None = None
        #: those that are unsettled, and their bytes; no limit counts them
        self.remote_unsettled = self.remote_bytes = 0
        #: whether bodies of unsettled deliveries may be only in the journal
        self.released = False
        #: the `paced_producers.Pace` of its producers; only that sets it and knows what it contains
        self.pace: Any = None
        self.counters = QueueCounters()
        self.samples = QueueSamples()
        self.reader = Reader(address)

    @property
    def unrecorded(self) -> int:
        """The number of waiting messages that are not recorded, and are lost when the broker stops."""
        return sum(lane.unrecorded for lane in self.lanes if lane.shift)

    def apply_policy(self, policy: DestinationPolicy) -> None:
        """Set the policy, and what follows from it for every message or consumer."""
        self.policy = policy
        #: whether messages are refused, and whether consumers receive nothing
        self.producers_paused = policy.refuses_producers
        self.consumers_paused = policy.holds_consumers
        if self.limit_usage is not None:
            self.limit_usage.policy = policy
        elif policy.has_limits and self.durable:
            self.limit_usage = LimitUsage(policy)

    @property
    def is_of_topic(self) -> bool:
        """True if messages of a topic wait here for its subscribers."""
        return self.named is not None or self.address.startswith(("/topic/", "/temp-topic/"))

    @property
    def topic_address(self) -> str:
        """The address of the topic, or the filter of topics, whose messages wait here."""
        return self.address if self.named is None else self.named.terms.filter

    @property
    def counts(self) -> bool:
        """True if the bytes of unsettled deliveries are counted."""
        return self.limit_usage is not None or self.account is not None

    @property
    def paged_bytes(self) -> int:
        """The estimated size of the bodies that are not in memory."""
        return sum(lane.average_bytes * (len(lane.paged) + len(lane.loading)) for lane in self.lanes)

    @property
    def depth(self) -> int:
        """The number of waiting messages, without unsettled ones."""
        return sum(map(len, self.lanes))

    @property
    def being_read(self) -> bool:
        """True while messages are read from the journal, to be delivered or matched."""
        return any(
            lane.loading or (lane.scan is not None and lane.scan.reading is not None) for lane in self.lanes
        )

    def lane(self, priority: int) -> Lane:
        """The lane of `priority`, created when there is none."""
        if self.in_order:
            priority = ANY_PRIORITY
        before = 0
        for lane in self.lanes:
            if lane.priority == priority:
                return lane
            before += lane.priority > priority
        lane = Lane(priority)
        self.lanes.insert(before, lane)
        return lane

    def lane_of(self, message: Message) -> int:
        """The priority of the lane that a message of this queue belongs to."""
        return ANY_PRIORITY if self.in_order else message.envelope.priority

    def group_of(self, message: Message) -> str:
        """The message group that decides which consumer receives a message, or empty. Store-and-forward
        queues have no groups: those are up to the target broker."""
        return "" if self.forwarded else group_of(message)

    def first_lane(self) -> Lane | None:
        """The lane with the highest priority that is not empty."""
        for lane in self.lanes:
            if lane.ready or lane.returned or lane.loading or lane.paged.count:
                return lane
        return None

    def oldest_in_memory(self) -> Message | None:
        """The message in memory that has waited longest, if any."""
        heads = [lane.returned[0][1] for lane in self.lanes if lane.returned]
        heads += [lane.ready[0] for lane in self.lanes if lane.ready]
        return min(heads, key=lambda message: message.time_ms, default=None)
