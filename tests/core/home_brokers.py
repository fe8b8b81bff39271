"""Home brokers that forward to the broker in a storm: each message arrives once, in order, without a gap."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from broker_app.core.message import Envelope
from broker_app.core.remote.offset import address_of


class Sent(NamedTuple):
    """A message at its home broker: its position there, its envelope and body."""

    position: int
    envelope: Envelope
    body: bytes


class Home:
    """A queue of another broker whose messages go to `target`. `position` and `count` are the expected
    replication offset."""

    def __init__(self, sender: str, source: str, target: str) -> None:
        self.sender, self.source, self.target = sender, source, target
        #: all messages that were ever sent, in order
        self.outbox: list[Sent] = []
        self.position = self.count = 0

    @property
    def address(self) -> str:
        return address_of(self.sender, self.source)

    @property
    def next_position(self) -> int:
        return self.outbox[-1].position + 1 if self.outbox else 1

    @property
    def done(self) -> int:
        """The number of messages of the outbox that have arrived."""
        return sum(sent.position <= self.position for sent in self.outbox)

    def take(self, position: int) -> None:
        """Note that a message was accepted."""
        assert self.outbox[self.done].position == position, "nothing is left out, nothing overtakes"
        self.position = position
        self.count += 1


class SenderFlow:
    """A flow as the ledger expects it. `cursor` is where its sender continues in the outbox."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.broken = False
        self.cursor = home.done

    def draw(self, random: Random) -> list[Sent]:
        """The messages that the sender sends next, some of them again."""
        outbox = self.home.outbox
        start = max(0, self.cursor - random.choice((0, 0, 0, 1, 3)))
        self.cursor = min(len(outbox), self.cursor + random.choice((1, 2, 4)))
        return outbox[start : self.cursor]
