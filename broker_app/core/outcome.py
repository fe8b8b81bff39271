"""What deciding a run of commands leads to: records to keep first, then everything to let out."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.core.destination import is_forwarded
from broker_app.core.errors import Refused
from broker_app.core.model import Fanout, Peer, Subscription

#: the first level of all system topics
SYSTEM = "$mom"


class DestinationCreated(NamedTuple):
    address: str


class DestinationDeleted(NamedTuple):
    address: str


class DestinationFull(NamedTuple):
    """A destination came to its limit; told once, until it has been below it again."""

    address: str
    detail: str


class ConsumerJoined(NamedTuple):
    subscription: Subscription


class ConsumerLeft(NamedTuple):
    subscription: Subscription


class ConsumerSlow(NamedTuple):
    """A consumer takes too little; `detail` says what follows from it."""

    subscription: Subscription
    detail: str


class SnapshotWanted(NamedTuple):
    """Somebody subscribed to what the broker tells, and wants to hear first how things stand."""

    subscription: Subscription


class Arrived(NamedTuple):
    """Messages for another broker wait in a store-and-forward queue that nobody consumes: some came, or came
    back, in this batch."""

    address: str


class DeadLetter(NamedTuple):
    """So many messages of a queue went to the dead letters in one batch; id and detail are the last one's."""

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
    | SnapshotWanted
    | DeadLetter
)

#: what bodies are read back for: their lane, because they are due, or for a subscription that reads history
#: (the address is then the key of its replay)
LANE, DUE, REPLAY = range(3)


class Fetch(NamedTuple):
    """Bodies to be read back from the journal and handed in as a `Loaded` for the same purpose."""

    address: str
    priority: int
    positions: list[int]
    purpose: int = LANE


class Failure(NamedTuple):
    """A command that was given up because of a fault of the broker, before anything was changed."""

    peer: Peer
    error: Exception


class Outcome:
    """The first seven attributes are the journal's batch; the others are let out after its commit.

    `parts` are pieces of records in order, `count` the number of records; record i has the position
    `first_position + i`. `published` and `freed` are positions of bodies to keep and to give up.
    """

    __slots__ = (
        "_indexes",
        "closes",
        "count",
        "dead_letters",
        "destinations",
        "events",
        "failures",
        "fanouts",
        "fetches",
        "first_position",
        "forwarded",
        "freed",
        "parts",
        "published",
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
        #: peers with something in their mailbox, which goes out before the fan-outs
        self.touched: list[Peer] = []
        self.fanouts: list[Fanout] = []
        self.fetches: list[Fetch] = []
        #: peers to be told why and disconnected
        self.closes: list[tuple[Peer, Refused]] = []
        #: what happened, for who listens to the broker itself
        self.events: list[Event] = []
        #: store-and-forward queues that records of this batch speak of, or that got something back
        self.forwarded: dict[str, None] = {}
        self.dead_letters: dict[tuple[str, str], DeadLetter] = {}
        #: what is to be logged; their clients are answered, or closed
        self.failures: list[Failure] = []
        #: peers whose clients are read no further from now on (True), or again (False)
        self.throttles: list[tuple[Peer, bool]] = []
        self._indexes: dict[str, int] = {}

    @property
    def quiet(self) -> bool:
        """Whether nobody waits for it: nothing to let out, only records, as of plain acknowledgements."""
        return not (
            self.touched or self.fanouts or self.fetches or self.closes or self.published or self.throttles
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

    def close_fanouts(self) -> None:
        """Add nothing more to the fan-outs; drop those that have no members left."""
        self.fanouts = [fanout for fanout in self.fanouts if fanout.close()]

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        if not (self.events or self.dead_letters):
            return []
        events, self.events = [*self.events, *self.dead_letters.values()], []
        self.dead_letters.clear()
        return events

    def record(self, part: bytes) -> None:
        """Add a record of one part."""
        self.parts.append(part)
        self.count += 1
