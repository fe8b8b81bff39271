"""What is on its way to the remote broker without an answer: of one flow, and of all flows of a pipe.

Each flow has a bound of its own. The pipe's budget bounds their sum, so that a thousand flows to a slow
broker do not fill the memory: when it is used up, flows stand in line for what answers set free. Whoever has
nothing on its way may send one message all the same, so that no flow starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from broker_app.core.model import Delivery

#: bytes of bodies of one flow: beyond, the queue hands out no more until half of them are answered
FLIGHT_BYTES: Final = 8 * 1024 * 1024
#: bytes of bodies of all flows of a pipe
PIPE_BYTES: Final = 64 * 1024 * 1024


class Waiting(Protocol):
    """Who stands in line for room in the budget."""

    def take_turn(self) -> None:
        """There is room: take what is needed, and stand in line again if it was not enough."""


class Budget:
    """The bytes that the flows of one pipe share. Who takes the last of them may overdraw it by one body."""

    def __init__(self, room: int) -> None:
        #: bytes that may be sent yet
        self.room = room
        #: who waits for room, the longest first
        self._line: dict[Waiting, None] = {}

    @property
    def open(self) -> bool:
        """Whether there is room that nobody waits for."""
        return self.room > 0 and not self._line

    def stand_in_line(self, who: Waiting) -> None:
        self._line.setdefault(who)

    def step_aside(self, who: Waiting) -> None:
        """`who` needs nothing any more."""
        self._line.pop(who, None)

    def dismiss(self) -> None:
        """There is no connection any more to send over."""
        self._line.clear()

    def share(self) -> None:
        """Answers came: give the room that there is to those in line, in turn."""
        while self._line and self.room > 0:
            who = next(iter(self._line))
            del self._line[who]
            who.take_turn()


class Flight:
    """What one flow sent. A receipt is the position of its message."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        #: receipt → (tag, bytes) of what has no answer, the oldest first
        self.sent: dict[bytes, tuple[int, int]] = {}
        self.bytes = 0

    @property
    def full(self) -> bool:
        """Whether the bound of the flow is reached."""
        return self.bytes >= FLIGHT_BYTES

    def fitting(self, deliveries: Iterable[Delivery], largest: int, in_turn: bool) -> int:
        """How many of `deliveries` may be sent now: as many as there is room for, up to a body of more than
        `largest` bytes. In line or not, one may go when nothing is on its way."""
        budget = self.budget
        room = min(FLIGHT_BYTES - self.bytes, budget.room if in_turn or budget.open else 0)
        if room <= 0 and not self.sent:
            room = 1
        count = 0
        for _, _, message in deliveries:
            length = len(message.body)
            if room <= 0 or length > largest:
                break
            room -= length
            count += 1
        return count

    def depart(self, deliveries: Sequence[Delivery]) -> None:
        """These are sent."""
        sent, size = self.sent, 0
        for _, tag, message in deliveries:
            length = len(message.body)
            size += length
            sent[b"%d" % message.position] = (tag, length)
        self.bytes += size
        self.budget.room -= size

    def arrive(self, receipts: Sequence[bytes], start: int) -> tuple[list[int], int]:
        """Tags and bytes of what `receipts` confirm, from `start` to the first that is not of this flow."""
        pop = self.sent.pop
        tags = []
        size = 0
        for receipt in receipts[start:] if start else receipts:
            sent = pop(receipt, None)
            if sent is None:
                break
            tags.append(sent[0])
            size += sent[1]
        self.bytes -= size
        self.budget.room += size
        return tags, size

    def turn_down(self, receipt: bytes) -> int | None:
        """The tag of what was refused; None when it is not of this flow."""
        tag, size = self.sent.pop(receipt, (None, 0))
        self.bytes -= size
        self.budget.room += size
        return tag

    def abandon(self) -> list[int]:
        """Nothing is answered any more; the positions of what had no answer."""
        positions = [int(receipt) for receipt in self.sent]
        self.sent.clear()
        self.budget.room += self.bytes
        self.bytes = 0
        return positions
