"""Everything that can be asked of the core, one class a deed.

`receipt` is an opaque token that comes back with the answer; None asks for no answer on success.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from broker_app.core.errors import Refused
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.core.model import Peer, Subscription
from broker_app.core.policy import Policies

AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
ACK_MODES = (AUTO, CLIENT, INDIVIDUAL)
#: the target of a Transfer that returns dead letters to where they died
ORIGIN = "origin"

# (envelope, body, receipt)
Entry = tuple[Envelope, bytes, Any]


@dataclass(slots=True)
class Publish:
    """A run of messages of one peer, in order. Each is accepted or refused by itself."""

    peer: Peer
    entries: list[Entry]


@dataclass(slots=True)
class Subscribe:
    """Begin a subscription. `render_key` is equal for subscriptions whose messages are rendered to equal
    bytes (None: rendered one by one). `lease_ms` > 0: an unsettled delivery is returned by itself after that
    time.

    `name`, on a topic: consume the subscription of that name, made when there is none. A `durable` one keeps
    messages while nobody is there; a `shared` one may have several consumers at once. `start`, on a topic:
    where in the retained history to begin ("first", "last", "seq:…", "time:…"; empty is now). `exclusive`, on
    a queue: one such consumer is served, others stand by. `snapshot`, on a topic of the broker itself: it
    wants to hear first how things stand (`facts.SnapshotWanted`)."""

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
    start: str = ""
    snapshot: bool = False
    receipt: Any = None


@dataclass(slots=True)
class Unsubscribe:
    """End a subscription. What it holds unsettled goes back to its place, unless `keep_unsettled`; with
    `forget`, the durable subscription that it consumed is deleted with all that it kept."""

    peer: Peer
    id: str
    receipt: Any = None
    keep_unsettled: bool = False
    forget: bool = False


@dataclass(slots=True)
class DeleteSubscription:
    """Delete the durable subscription of this name and all that it kept. It must be `owner`'s, unless that
    is empty, and nobody may consume it but, through a subscription that ends with it, the peer itself."""

    peer: Peer
    name: str
    owner: str = ""
    receipt: Any = None


@dataclass(slots=True)
class DeliverTo:
    """Messages of the broker itself for one topic subscription alone, in order: (envelope, body)."""

    subscription: Subscription
    messages: Sequence[tuple[Envelope, bytes]]


@dataclass(slots=True)
class Settle:
    """Acknowledge deliveries by tag; `cumulative`: and all earlier ones of the same subscription."""

    peer: Peer
    tags: Sequence[int]
    cumulative: bool = False
    receipt: Any = None


@dataclass(slots=True)
class Return:
    """Give deliveries back (NACK): to their place, or with `dead_reason` to the dead letters. With `delay_ms`
    they wait so long before another attempt; without, as long as the queue's policy says."""

    peer: Peer
    tags: Sequence[int]
    cumulative: bool = False
    dead_reason: str = ""
    detail: str = ""
    receipt: Any = None
    delay_ms: int = 0


@dataclass(slots=True)
class Extend:
    """Renew the lease of deliveries to `lease_ms` from now."""

    peer: Peer
    tags: Sequence[int]
    lease_ms: int
    receipt: Any = None
    cumulative: ClassVar[bool] = False


@dataclass(slots=True)
class Begin:
    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class Enlist:
    """Keep a Publish, Settle or Return until its transaction is committed. Receipts of that command are
    answered when it is carried out; `receipt` comes back only where it cannot be kept."""

    peer: Peer
    transaction: str
    command: Publish | Settle | Return
    receipt: Any = None


@dataclass(slots=True)
class Commit:
    """Carry out all that the transaction holds, or nothing."""

    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class Abort:
    peer: Peer
    transaction: str
    receipt: Any = None


@dataclass(slots=True)
class MarkRollbackOnly:
    """A transaction holds what its client may not do any more: its COMMIT is refused, with this refusal."""

    peer: Peer
    transaction: str
    refusal: Refused


@dataclass(slots=True)
class Pause:
    """The peer's transport is full: hold its deliveries back."""

    peer: Peer


@dataclass(slots=True)
class Resume:
    peer: Peer


@dataclass(slots=True)
class Answer:
    """Answer `receipt` in its turn, with no other effect (receipts for frames that change nothing)."""

    peer: Peer
    receipt: Any


@dataclass(slots=True)
class Disconnect:
    """The session is over: temporary queues and subscriptions go, unsettled deliveries return. What waits
    for room still comes in before the answer; without a `receipt`, or where the session breaks off
    (`abandon`), it is as if it had never come."""

    peer: Peer
    receipt: Any = None
    abandon: bool = False


@dataclass(slots=True)
class Loaded:
    """Bodies that the core asked to be read back (`Outcome.fetches`). Of `damaged` positions nothing could be
    read; their records only say so (`records.damaged`)."""

    address: str
    priority: int
    positions: Sequence[int]
    purpose: int
    records: Sequence[bytes]
    damaged: Collection[int] = ()


@dataclass(slots=True)
class Purge:
    """Remove what waits in a queue (not what is unsettled): `ready` what could be handed out, `delayed` what
    is not due. The answer's message is None."""

    peer: Peer
    address: str
    receipt: Any = None
    ready: bool = True
    delayed: bool = True


class Chosen(NamedTuple):
    """One message of a Transfer: its position, its PUBLISHED record (None does for a message whose body is in
    memory, and where no copy is made), and header lines to add to its block."""

    position: int
    record: bytes | None = None
    lines: bytes = b""


@dataclass(slots=True)
class Transfer:
    """Take waiting messages out of the queue `source`, each by itself: to the queue `target` under their old
    ids, to where each of them died (`target` is ORIGIN), or away for good (`target` empty).

    `keep` leaves them at the source as well, which makes it a copy. `revive` takes off what made them dead
    letters. The answer is a list of `moving.Moved`, one for each message chosen up to the first whose target
    has no room; Refused, when there is no such source, or no such target can be."""

    peer: Peer
    source: str
    chosen: Sequence[Chosen]
    target: str = ""
    keep: bool = False
    revive: bool = False
    receipt: Any = None


@dataclass(slots=True)
class Insert:
    """Put messages (id, envelope, body) with ids of their own into one queue, in order. The answer is a list
    of `moving.Moved`, one for each up to the first that has no room; Refused, when that target cannot be."""

    peer: Peer
    target: str
    entries: Sequence[tuple[bytes, Envelope, bytes]]
    receipt: Any = None


@dataclass(slots=True)
class BridgeConnected:
    """Another broker has connected: from now on there is the queue that stands for the offsets."""

    peer: Peer


@dataclass(slots=True)
class BeginFlow:
    """Begin, or begin anew, to take in what the broker `sender` forwards of its queue `source` (a name) to
    the queue `target` (an address). The peer is told the mark by a message whose headers are `accepted` and
    `count`, as if by a subscription `id`, and an `Unsubscribe` of that ends the flow. Any other flow of the
    same queue of this sender is broken. Refused for another user than the one who began it first."""

    peer: Peer
    id: str
    sender: str
    source: str
    target: str
    receipt: Any = None


@dataclass(slots=True)
class Forward:
    """A run of messages of one flow, in order, and the position of each there. Those up to the mark are here
    already and are accepted without being stored. The first that is refused breaks the flow, and all that
    follow are refused with flow-broken."""

    peer: Peer
    flow: str
    entries: Sequence[Entry]
    positions: Sequence[int]


@dataclass(slots=True)
class BreakFlow:
    """Refuse a message of a flow, or the flow itself, in its turn: `refusal` is the answer, and breaks it."""

    peer: Peer
    flow: str
    refusal: Refused
    receipt: Any = None


@dataclass(slots=True)
class DeleteOffset:
    """Forget how far the broker `sender` has come with what it forwards of its queue `source`; no flow of it
    may run. What it sends again, because it had no answer yet, is then stored again, and whoever begins next
    owns the new mark."""

    peer: Peer
    sender: str
    source: str
    receipt: Any = None


@dataclass(slots=True)
class ReassignOffset:
    """Have another user go on with what the broker `sender` forwards of its queue `source`, from where it
    has come; no flow of it may run."""

    peer: Peer
    sender: str
    source: str
    owner: str
    receipt: Any = None


@dataclass(slots=True)
class Reconfigure:
    """From now on these policies hold, and these limits where there are any. Queues that have a policy of
    their own are made."""

    policies: Policies
    limits: Limits | None = None


@dataclass(slots=True)
class CreateQueue:
    """Make a queue where there is none, as its first use would. Empty, it does not outlive a restart."""

    peer: Peer
    address: str
    receipt: Any = None


@dataclass(slots=True)
class DeleteQueue:
    """End a queue that has no consumers; with `force` also when messages wait in it or are unsettled, which
    are dropped. One that its policy declares comes back, empty, with the next `Reconfigure`."""

    peer: Peer
    address: str
    force: bool = False
    receipt: Any = None


@dataclass(slots=True)
class StoreSpace:
    """How many bytes of messages the journal has space for, beside those of the commands of this run; None
    when that is more than enough."""

    room: int | None


@dataclass(slots=True)
class ClockStepped:
    """The clock was set forward by so much (back, if negative), and what lasts is to last as long as it was
    to."""

    by_ms: int


Command = (
    Publish
    | Subscribe
    | Unsubscribe
    | DeliverTo
    | DeleteSubscription
    | Settle
    | Return
    | Extend
    | Begin
    | Enlist
    | Commit
    | Abort
    | MarkRollbackOnly
    | Pause
    | Resume
    | Answer
    | Disconnect
    | Loaded
    | Purge
    | Transfer
    | Insert
    | BridgeConnected
    | BeginFlow
    | Forward
    | BreakFlow
    | DeleteOffset
    | ReassignOffset
    | Reconfigure
    | CreateQueue
    | DeleteQueue
    | StoreSpace
    | ClockStepped
)
