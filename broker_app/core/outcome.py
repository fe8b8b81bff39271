"""The outcome of a run of commands: records to store first, then all that is sent after their commit.

Events of destinations, consumers and dead letters are part of it, for the system topics (`$mom.…`). They are
rare, never one for each message; all but `Arrived`, `MessagesEnded`, `InterestChanged`, `SentAgain` and
`SubscriptionChanged` are emitted only while a system topic has subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.destination import is_forwarded
from broker_app.core.durability import records
from broker_app.core.message import Message
from broker_app.core.model import Fanout, Peer, Subscription

#: why a destination was deleted: by an administrator or its owner; without use for some time
DELETED, UNUSED = "deleted", "unused"


class DestinationCreated(NamedTuple):
    """A destination was created."""

    address: str


class DestinationDeleted(NamedTuple):
    """A destination was deleted, for a `reason` such as `UNUSED`."""

    address: str
    reason: str = DELETED


class DestinationFull(NamedTuple):
    """A destination reached a limit; emitted once, until it has had room again."""

    address: str
    detail: str


class ConsumerJoined(NamedTuple):
    """A subscription began."""

    subscription: Subscription


class ConsumerLeft(NamedTuple):
    """A subscription ended."""

    subscription: Subscription


class ConsumerSlow(NamedTuple):
    """A consumer is too slow; `detail` describes the consequence."""

    subscription: Subscription
    detail: str


class InterestChanged(NamedTuple):
    """Consumers of this broker have come or left; `want` is the `interest.Want` of them."""

    want: Any


class SentAgain(NamedTuple):
    """A message was stored whose client had sent it before, perhaps to another broker: its destination, and
    the digest of its dedup-id."""

    address: str
    digest: bytes


class SubscriptionChanged(NamedTuple):
    """A durable subscription was created or got other terms; without `terms` it was deleted."""

    name: str
    terms: records.Terms | None


class SnapshotWanted(NamedTuple):
    """A new subscription of a system topic asks for the present state first."""

    subscription: Subscription


class Arrived(NamedTuple):
    """Messages were added or returned to a store-and-forward queue that has no consumer."""

    address: str


class MessagesEnded(NamedTuple):
    """Recorded messages of a watched queue ended (`MessageStore.watches_ends`): `messages`, and those at
    `positions`, which were not in memory. `cause` is one of `records.CAUSES`."""

    address: str
    cause: str
    messages: Sequence[Message]
    positions: Sequence[int]


class DeadLetter(NamedTuple):
    """The number of messages of a queue that were dead-lettered in one batch; id and detail are of the
    last."""

    address: str
    reason: str
    messages: int
    message_id: str
    detail: str


Event = (
    Arrived
    | DestinationCreated
    | DestinationDeleted
    | DestinationFull
    | ConsumerJoined
    | ConsumerLeft
    | ConsumerSlow
    | InterestChanged
    | SentAgain
    | SubscriptionChanged
    | SnapshotWanted
    | MessagesEnded
    | DeadLetter
)

#: why bodies are read back: for their lane, because they are due, for a subscription that replays history
#: (the address is then the key of its replay), or for a dead letter of a delivery whose body was released
LANE, DUE, REPLAY, DEAD = range(4)


class Fetch(NamedTuple):
    """Bodies to be read back from the journal and handed in as a `Loaded` for the same purpose."""

    address: str
    priority: int
    positions: list[int]
    purpose: int = LANE


class CommandFailure(NamedTuple):
    """A command that failed because of an internal error, before anything was changed."""

    peer: Peer
    error: Exception


class Outcome:
    """The first seven attributes are the `Batch` that the journal commits; the others are sent after that.

    `parts` are pieces of records in order, `count` the number of records; record i has the position
    `first_position + i`. `published` and `freed` are positions of bodies to keep and to free.
    `destinations` are addresses that records refer to by index; those of clients are among them.
    """

    __slots__ = (
        "_clients",
        "_indexes",
        "arrived",
        "closes",
        "count",
        "dead_letters",
        "destinations",
        "ended",
        "events",
        "failures",
        "fanouts",
        "fetches",
        "first_position",
        "forwarded",
        "freed",
        "parts",
        "published",
        "refusals",
        "throttles",
        "time_us",
        "touched",
    )

    def __init__(self, first_position: int, time_us: int) -> None:
        self.first_position = first_position
        self.time_us = time_us
        self.destinations: list[str] = []
        self.parts: list[bytes] = []
        self.count = 0
        self.published: list[int] = []
        self.freed: list[int] = []
        #: peers whose mailbox is not empty; it is sent before the fan-outs
        self.touched: list[Peer] = []
        #: how many refusals are in their mailboxes
        self.refusals = 0
        self.fanouts: list[Fanout] = []
        self.fetches: list[Fetch] = []
        #: peers to disconnect, with the reason
        self.closes: list[tuple[Peer, Refused]] = []
        #: subscriptions that the broker has ended, and why
        self.ended: list[tuple[Subscription, Refused]] = []
        #: for the system topics
        self.events: list[Event] = []
        #: for bridges, as it is at the end of the batch
        self.arrived: list[Arrived] = []
        #: store-and-forward queues with records in this batch, or to which deliveries were returned
        self.forwarded: dict[str, None] = {}
        self.dead_letters: dict[tuple[str, str], DeadLetter] = {}
        #: internal errors to log; their clients are answered or disconnected
        self.failures: list[CommandFailure] = []
        #: peers to throttle (True), or to read again (False)
        self.throttles: list[tuple[Peer, bool]] = []
        self._indexes: dict[str, int] = {}
        self._clients: dict[str, bytes] = {}

    @property
    def quiet(self) -> bool:
        """True if there is nothing to send, only records, as for plain acknowledgements."""
        return not (
            self.touched
            or self.fanouts
            or self.fetches
            or self.closes
            or self.ended
            or self.published
            or self.throttles
        )

    def destination(self, address: str) -> int:
        """The index of `address` in this batch's destination table."""
        index = self._indexes.get(address)
        if index is None:
            index = self._indexes[address] = len(self.destinations)
            self.destinations.append(address)
            if is_forwarded(address):
                self.forwarded[address] = None
        return index

    def client(self, address: str) -> bytes:
        """The packed index of a client, given by its `client_address`; that of NO_CLIENT when it is empty."""
        packed = self._clients.get(address)
        if packed is None:
            packed = records.pack_client(len(self.destinations) if address else records.NO_CLIENT)
            self._clients[address] = packed
            if address:
                self.destinations.append(address)
        return packed

    def close_fanouts(self) -> None:
        """Add nothing more to the fan-outs; drop those that have no members left."""
        self.fanouts = [fanout for fanout in self.fanouts if fanout.close()]

    def take_events(self) -> list[Event]:
        """Return and clear the events."""
        events = [*self.events, *self.arrived, *self.dead_letters.values()]
        self.events, self.arrived = [], []
        self.dead_letters.clear()
        return events

    def record(self, part: bytes) -> None:
        """Add a record of one part."""
        self.parts.append(part)
        self.count += 1
