"""The commands of the core, one class each.

`receipt` is an opaque token that is returned with the answer; with None, success is not answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.durability.records import Terms
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.core.model import NamedSubscription, Peer, Subscription
from broker_app.core.policy import Policies
from broker_app.core.remote.origin import Origin, RemoteMessage

AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
ACK_MODES = (AUTO, CLIENT, INDIVIDUAL)
#: the target of a Transfer that returns dead letters to the queue that they come from
ORIGIN = "origin"

# (envelope, body, receipt)
Entry = tuple[Envelope, bytes, Any]
# (envelope, body)
Row = tuple[Envelope, bytes]


@dataclass(slots=True)
class Publish:
    """Publish messages of one peer, in order. Each is accepted or refused by itself. Where a peer sends for
    several users, `user` is the one who sends these, and `client` the `client_address` of their producer."""

    peer: Peer
    entries: list[Entry]
    user: str = ""
    client: str = ""


@dataclass(slots=True)
class Subscribe:
    """Begin a subscription. `render_key` is equal for subscriptions whose messages are rendered to equal
    bytes (None: rendered one by one). `lease_ms` > 0: an unsettled delivery is returned by itself after that
    time.

    - `name`, on a topic: consume the subscription of that name, created when there is none. A `durable` one
    keeps messages while it has no consumer; a `shared` one may have several consumers at once. - `start`, on
    a topic: where in the retained history to begin ("first", "last", "seq:…", "time:…"; empty is now). -
    `exclusive`, on a queue: one such consumer is served, others are on standby. - `priority`, on a queue: the
    highest with credit is served first. - `no_local`, on a topic: without what its own connection publishes.
    - `snapshot`, on a system topic: send the present state first (`outcome.SnapshotWanted`). - `inner_ack`,
    with ack AUTO: see `SetInnerAck`. - `client`: the `client_address` of the consumer where a peer receives
    for several. - `principal`, on a system topic: the publisher decides with it what the subscription is
    sent. - `remote`: it is for consumers of another broker, and not sent what came from there; `owner` is the
    user to whom the named subscription then belongs. - `exclusive_since_us`: when it has asked to be the only
    one, if that was at another broker."""

    peer: Peer
    id: str
    address: str
    ack: str = AUTO
    credit: int = 100
    render_key: object = None
    lease_ms: int = 0
    selector: str = ""
    name: str = ""
    durable: bool = False
    shared: bool = False
    exclusive: bool = False
    priority: int = 0
    no_local: bool = False
    start: str = ""
    snapshot: bool = False
    client: str = ""
    inner_ack: bool = False
    receipt: Any = None
    principal: object = None
    remote: bool = False
    owner: str = ""
    exclusive_since_us: int = 0


@dataclass(slots=True)
class SetInnerAck:
    """Have deliveries of a subscription with ack AUTO be unsettled (`on`) until a part of the node settles
    them for the client, or no longer. Other subscriptions do not change."""

    subscription: Subscription
    on: bool


@dataclass(slots=True)
class Unsubscribe:
    """End a subscription. Its unsettled deliveries are returned to their place, unless `keep_unsettled`; with
    `forget`, the durable subscription that it consumed is deleted with all its messages."""

    peer: Peer
    id: str
    receipt: Any = None
    keep_unsettled: bool = False
    forget: bool = False


@dataclass(slots=True)
class SetCredit:
    """Change how many unsettled deliveries a subscription may hold."""

    peer: Peer
    id: str
    credit: int
    receipt: Any = None


@dataclass(slots=True)
class DeleteSubscription:
    """Delete the durable subscription of this name and all its messages. It must belong to `owner`, unless
    that is empty, and must have no consumers but those of the peer itself, which end with it. `decided`: a
    cluster has deleted it, so that a missing keeper is no reason to refuse."""

    peer: Peer
    name: str
    owner: str = ""
    receipt: Any = None
    decided: bool = False


@dataclass(slots=True)
class CreateSubscription:
    """Create a durable subscription without a consumer, which another broker of the cluster has created; one
    with the same filter and selector gets these `terms`."""

    peer: Peer
    name: str
    terms: Terms
    receipt: Any = None


@dataclass(slots=True)
class DeliverTo:
    """Deliver messages of the broker itself to one topic subscription only, which may be a named one without
    consumers, in order: (envelope, body)."""

    subscription: Subscription | NamedSubscription
    messages: Sequence[tuple[Envelope, bytes]]


@dataclass(slots=True)
class DeliverRemote:
    """Deliver messages of another broker to the consumers that a queue has here; `address` may be that of a
    named subscription's."""

    origin: Origin
    address: str
    messages: list[RemoteMessage]

    @property
    def peer(self) -> Peer:
        """The link, which takes turns with clients."""
        return self.origin.peer


@dataclass(slots=True)
class PublishRemote:
    """Deliver messages of another broker to the subscribers that their topics have here."""

    origin: Origin
    messages: list[RemoteMessage]

    @property
    def peer(self) -> Peer:
        """The link, which takes turns with clients."""
        return self.origin.peer


@dataclass(slots=True)
class ReturnRemote:
    """Return messages of another broker to it that have waited for a consumer since `since_ms` or longer."""

    origin: Origin
    since_ms: int


@dataclass(slots=True)
class EndOrigin:
    """Forget the messages of another broker, because the connection to it has ended."""

    origin: Origin


@dataclass(slots=True)
class RemoteRecorded:
    """Another broker has recorded all that was reported to it before this question of `Origin.ask`."""

    origin: Origin
    question: int


@dataclass(slots=True)
class Settle:
    """Acknowledge deliveries by tag; with `cumulative`, all earlier ones of the same subscription as well;
    with `lenient`, without those that are not unsettled any more. `origins` own messages that former parts of
    this command have acknowledged."""

    peer: Peer
    tags: Sequence[int]
    cumulative: bool = False
    receipt: Any = None
    lenient: bool = False
    origins: frozenset[Origin] = frozenset()


@dataclass(slots=True)
class Return:
    """Return deliveries (NACK): to their place, or with `dead_reason` to the dead letters. They are delivered
    again after `delay_ms`, or without it after the time that the policy of the queue sets. `detail` describes
    the failure for the dead letters. Deliveries that were not `attempted` are delivered again at once, and
    do not count as attempts. `lenient` is that of `Settle`."""

    peer: Peer
    tags: Sequence[int]
    cumulative: bool = False
    dead_reason: str = ""
    detail: str = ""
    receipt: Any = None
    delay_ms: int = 0
    attempted: bool = True
    lenient: bool = False


@dataclass(slots=True)
class RetryDelayed:
    """Deliver returned messages of a queue again now, which wait for another attempt."""

    peer: Peer
    address: str
    receipt: Any = None


@dataclass(slots=True)
class Extend:
    """Renew the lease of deliveries to `lease_ms` from now."""

    peer: Peer
    tags: Sequence[int]
    lease_ms: int
    receipt: Any = None
    cumulative: ClassVar[bool] = False
    lenient: ClassVar[bool] = False


@dataclass(slots=True)
class Begin:
    """Begin a transaction."""

    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class Enlist:
    """Keep a Publish, Settle or Return until its transaction is committed. The receipts of that command are
    answered when it is carried out; `receipt` is returned when it cannot be kept and, with `confirm`, when it
    is."""

    peer: Peer
    transaction: str
    command: Publish | Settle | Return
    receipt: Any = None
    confirm: bool = False


@dataclass(slots=True)
class Commit:
    """Carry out all commands of a transaction, or none."""

    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class Abort:
    """Roll a transaction back."""

    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class MarkRollbackOnly:
    """Have the COMMIT of a transaction refused with this refusal: its client has lost a permission it
    needs."""

    peer: Peer
    transaction: str
    refusal: Refused


@dataclass(slots=True)
class Pause:
    """Deliver nothing to a peer for now, because its transport is full."""

    peer: Peer


@dataclass(slots=True)
class Resume:
    """Deliver to a paused peer again; `left`: to these of its subscriptions, the others were served."""

    peer: Peer
    left: Sequence[Subscription] = ()


@dataclass(slots=True)
class Answer:
    """Answer `receipt` after all earlier commands: for frames that change nothing."""

    peer: Peer
    receipt: Any


@dataclass(slots=True)
class Refuse:
    """Answer `receipt` with a refusal that was decided elsewhere, after all earlier commands."""

    peer: Peer
    receipt: Any
    refusal: Refused


@dataclass(slots=True)
class Disconnect:
    """End a session: temporary queues and subscriptions are deleted, unsettled deliveries are returned. Its
    blocked messages are still admitted before the answer; without a `receipt`, or when the connection was
    lost (`abandon`), they are dropped. `goes_on`: the core has ended a part of it already."""

    peer: Peer
    receipt: Any = None
    abandon: bool = False
    goes_on: bool = False


@dataclass(slots=True)
class Loaded:
    """Hand in bodies that the core asked for (`Outcome.fetches`). Those at `damaged` positions could not be
    read; their records contain only the reason (`records.damaged`). Those `left` were not read, since all
    together are too large; the core asks for them again."""

    address: str
    priority: int
    positions: Sequence[int]
    purpose: int
    records: Sequence[bytes]
    damaged: Collection[int] = ()
    left: Sequence[int] = ()


@dataclass(slots=True)
class Purge:
    """Remove the messages that wait in a queue (not unsettled ones): those that are `ready`, and those that
    are `delayed`. The message of the answer is None."""

    peer: Peer
    address: str
    receipt: Any = None
    ready: bool = True
    delayed: bool = True


class Chosen(NamedTuple):
    """One message of a Transfer: its position, its PUBLISHED record (None is enough for a message whose body
    is in memory, and where no copy is made), and header lines to add to its block."""

    position: int
    record: bytes | None = None
    lines: bytes = b""


@dataclass(slots=True)
class DeliverChosen:
    """Deliver waiting messages of the queue `source` that are chosen by position, out of their order, each
    under a lease of `lease_ms` (0: none). `id` is the id of the subscription that holds them: it receives
    nothing else. `client` is that of `Subscribe`. The answer is a list of `TransferResult`."""

    peer: Peer
    id: str
    source: str
    chosen: Sequence[Chosen]
    lease_ms: int = 0
    receipt: Any = None
    client: str = ""


@dataclass(slots=True)
class Transfer:
    """Move waiting messages out of the queue `source`, each by itself: to the queue `target` under their old
    ids, to the queue that each of them comes from (`target` is ORIGIN), or delete them (`target` empty).

    `keep` leaves them at the source as well, which makes it a copy. `revive` removes the headers that they
    got as dead letters. The answer is a list of `transfers.TransferResult`, one for each message up to the
    first whose target has no room. Refused when there is no such source, or when such a target cannot exist.
    """

    peer: Peer
    source: str
    chosen: Sequence[Chosen]
    target: str = ""
    keep: bool = False
    revive: bool = False
    receipt: Any = None


@dataclass(slots=True)
class Insert:
    """Put messages (id, envelope, body) that have ids into one queue, in order. The answer is a list of
    `transfers.TransferResult`, one for each up to the first for which there is no room. Refused when such a
    target cannot exist."""

    peer: Peer
    target: str
    entries: Sequence[tuple[bytes, Envelope, bytes]]
    receipt: Any = None


@dataclass(slots=True)
class BridgeConnected:
    """Create the sync queue, because another broker has connected."""

    peer: Peer


@dataclass(slots=True)
class BeginFlow:
    """Begin, or restart, a flow: messages that the broker `sender` forwards from its queue `source` (a name)
    to the queue `target` (an address).

    The peer receives the replication offset in a message with the headers `accepted` and `count`, on a
    subscription `id`; an `Unsubscribe` of that ends the flow. Any other flow of the same queue of this sender
    is broken. Refused for another user than the one who began it first."""

    peer: Peer
    id: str
    sender: str
    source: str
    target: str
    receipt: Any = None


@dataclass(slots=True)
class Forward:
    """Take messages of one flow, in order, with the position of each at its sender. Those up to the
    replication offset are accepted without being stored again. The first that is refused breaks the flow, and
    all that follow are refused with flow-broken."""

    peer: Peer
    flow: str
    entries: Sequence[Entry]
    positions: Sequence[int]


@dataclass(slots=True)
class BreakFlow:
    """Refuse a message of a flow, or the flow itself, after all earlier commands: `refusal` breaks it."""

    peer: Peer
    flow: str
    refusal: Refused
    receipt: Any = None


@dataclass(slots=True)
class DeleteOffset:
    """Delete the replication offset of the queue `source` of the broker `sender`; it must have no flow.
    Messages that are sent again are then stored again, and the user who begins the next flow owns the new
    offset."""

    peer: Peer
    sender: str
    source: str
    receipt: Any = None


@dataclass(slots=True)
class ReassignOffset:
    """Make `owner` the user who continues from the replication offset of the queue `source` of the broker
    `sender`; it must have no flow."""

    peer: Peer
    sender: str
    source: str
    owner: str
    receipt: Any = None


class Need(NamedTuple):
    """The room that messages to one destination need: their number, the bytes of their bodies, and those of
    the largest."""

    messages: int
    bytes: int
    largest: int

    def plus(self, other: Need) -> Need:
        """The room for both."""
        return Need(
            self.messages + other.messages, self.bytes + other.bytes, max(self.largest, other.largest)
        )


@dataclass(slots=True)
class PublishBulk:
    """Publish rows (envelope, body) of one batch of a producer, which belongs to the user `owner`.

    The rows of a batch may come in several commands: `rows_before` is the number of those that earlier ones
    have published, and `last` is set in the last. `needs` is the room that all rows of the batch need, by
    address. It is checked with the first rows, and applies to dead letters only as far as they are in it.
    Refused when the batch was published before."""

    peer: Peer
    producer: str
    owner: str
    batch: int
    entries: Sequence[Row]
    needs: Mapping[str, Need]
    rows_before: int = 0
    last: bool = True
    receipt: Any = None


@dataclass(slots=True)
class Parts:
    """The rest of a command that goes on in the next turns. Commands of other peers are carried out between,
    so that it looks again at what it works on."""

    peer: Peer
    left: Iterator[None]


@dataclass(slots=True)
class Steps(Parts):
    """The rest of a command of which all or nothing is carried out. It goes on in the next turn before any
    other command, so that what was checked still holds and no client sees a part of it."""


@dataclass(slots=True)
class DeleteBulkProducer:
    """Forget a producer of batches. A batch that it sends again is then published again."""

    peer: Peer
    producer: str
    receipt: Any = None


@dataclass(slots=True)
class Reconfigure:
    """Apply other policies, and other limits unless they are None. Queues with a policy of their own are
    created."""

    policies: Policies
    limits: Limits | None = None


@dataclass(slots=True)
class CreateQueue:
    """Create a queue unless it exists, as its first use would. While empty, it does not survive a restart."""

    peer: Peer
    address: str
    receipt: Any = None


@dataclass(slots=True)
class DeleteQueue:
    """Delete a queue that has no consumers; with `force`, also one with messages, which are dropped. A queue
    with a policy of its own is created again, empty, by the next `Reconfigure`."""

    peer: Peer
    address: str
    force: bool = False
    receipt: Any = None


@dataclass(slots=True)
class MarkRepeat:
    """Mark a message of a queue as a repeat, if it waits here: its client has sent it again to another
    broker, which may deliver it first. `digest` is that of its dedup-id; `peer` the link to that broker."""

    peer: Peer
    address: str
    digest: bytes


@dataclass(slots=True)
class DeleteUnused:
    """Delete queues that have no use here, and that no other broker uses either."""

    addresses: Sequence[str]


@dataclass(slots=True)
class StoreSpace:
    """Set how many bytes of messages the journal has space for, in addition to those of this run; None when
    that is more than enough."""

    room: int | None


@dataclass(slots=True)
class ClockStepped:
    """Shift all time limits, because the clock was set forward by so much (back, if negative)."""

    by_ms: int


Command = (
    Publish
    | Subscribe
    | SetInnerAck
    | Unsubscribe
    | SetCredit
    | DeliverTo
    | DeliverRemote
    | PublishRemote
    | ReturnRemote
    | EndOrigin
    | RemoteRecorded
    | CreateSubscription
    | DeleteSubscription
    | Settle
    | Return
    | RetryDelayed
    | Extend
    | Begin
    | Enlist
    | Commit
    | Abort
    | MarkRollbackOnly
    | Pause
    | Resume
    | Answer
    | Refuse
    | Disconnect
    | Loaded
    | Purge
    | DeliverChosen
    | Transfer
    | Insert
    | BridgeConnected
    | BeginFlow
    | Forward
    | BreakFlow
    | DeleteOffset
    | ReassignOffset
    | PublishBulk
    | Parts
    | Steps
    | DeleteBulkProducer
    | Reconfigure
    | CreateQueue
    | DeleteQueue
    | StoreSpace
    | MarkRepeat
    | DeleteUnused
    | ClockStepped
)
