"""What the core knows of one session, and the mailbox through which outcomes reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker_app.core.errors import Refused
from broker_app.core.message import Message

if TYPE_CHECKING:
    from broker_app.core.account import Account
    from broker_app.core.marks import Flow
    from broker_app.core.subscription import Subscription
    from broker_app.core.transaction import Transaction

# (subscription, tag, message); tag 0 needs no acknowledgement
Delivery = tuple["Subscription", int, Message]


class Receiver(Protocol):
    """Whoever stands behind a peer: a STOMP session, the REST desk, an in-process client."""

    def flush(self, peer: Peer) -> None:
        """Take and clear `peer.receipts`, `refusals`, `deliveries`. Called after the commit, once a batch."""

    def render(self, subscription: Subscription, messages: list[Message]) -> bytes:
        """The bytes that carry `messages` to every subscription of the same look as `subscription`."""

    def send(self, data: bytes) -> None:
        """Take bytes that `render` made, perhaps for another receiver."""

    def throttle(self, on: bool) -> None:
        """Read no more of the client for the time being (`on`), for what it sent waits for room; or go on."""

    def close(self, refusal: Refused) -> None:
        """Tell the client why, and end the connection."""


class InnerReceiver:
    """A receiver within the node: behind it is no connection, and it subscribes to no topic, so nothing is
    fanned out to it. What it does with its mailbox is for a subclass to say; by itself it empties it."""

    def flush(self, peer: Peer) -> None:
        peer.receipts.clear()
        peer.refusals.clear()
        peer.deliveries.clear()

    def render(self, subscription: Subscription, messages: list[Message]) -> bytes:
        raise AssertionError("nothing is fanned out within the node")

    def send(self, data: bytes) -> None:
        raise AssertionError("nothing is fanned out within the node")

    def throttle(self, on: bool) -> None:
        """What is within the node has a bound of its own for what it sends."""

    def close(self, refusal: Refused) -> None:
        raise AssertionError(f"a peer without connection cannot be ended: {refusal}")


class Peer:
    """One session in the core's eyes.

    `receipts`, `refusals` and `deliveries` are filled while a batch is decided and taken by
    `receiver.flush` after its commit. A `detailed` peer gets `(token, message | None)` for each
    success, others the bare token. What it sends waits `patience_ms` for room in a full queue (0: as long
    as the broker's limits say). A refusal ends the connection of a `strict` peer: what it sent after that
    is not carried out.
    """

    __slots__ = (
        "account",
        "connection",
        "deliveries",
        "detailed",
        "fanned_out",
        "flows",
        "gone",
        "next_tag",
        "patience_ms",
        "paused",
        "receipts",
        "receiver",
        "refusals",
        "stopped",
        "strict",
        "subscriptions",
        "temporary",
        "touched",
        "transactions",
        "unsettled",
        "user",
    )

    def __init__(
        self, receiver: Receiver, *, user: str = "", detailed: bool = False, patience_ms: int = 0
    ) -> None:
        self.receiver = receiver
        self.user = user
        #: what it makes the broker keep in memory; None as long as that is nothing
        self.account: Account | None = None
        #: id of the STOMP connection, empty for others
        self.connection = ""
        self.detailed = detailed
        self.patience_ms = patience_ms
        #: whether it has disconnected
        self.gone = False
        self.strict = False
        #: whether it is strict and was refused
        self.stopped = False
        self.receipts: list[Any] = []
        self.refusals: list[tuple[Any, Refused]] = []
        self.deliveries: list[Delivery] = []
        self.touched = False
        self.paused = False
        self.next_tag = 1
        #: messages that its ended topic subscriptions got together with others
        self.fanned_out = 0
        self.unsettled: dict[int, tuple[Subscription, Message]] = {}
        self.subscriptions: dict[str, Subscription] = {}
        #: what it forwards as the bridge of another broker, by the ids of subscriptions
        self.flows: dict[str, Flow] = {}
        self.transactions: dict[str, Transaction] = {}
        self.temporary: set[str] = set()
