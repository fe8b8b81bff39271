"""Messages that were sent to the remote broker and have no answer: of one flow, and of all flows of a pipe.

Each flow has a limit of its own. The budget of the pipe limits their sum, so that a thousand flows to a slow
broker do not fill the memory: when it is used up, flows wait in a queue for the room that answers set free.
A flow with nothing in flight may send one message all the same, so that no flow starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from broker_app.core.model import Delivery

#: bytes of bodies of one flow: beyond, the queue hands out no more until half of them are answered
FLIGHT_BYTES: Final = 8 * 1024 * 1024
#: bytes of bodies of all flows of a pipe
PIPE_BYTES: Final = 64 * 1024 * 1024


class WaitingFlow(Protocol):
    """A flow that waits for room in the budget."""

    def room_available(self) -> None:
        """There is room: use it, and wait again if it was not enough."""


class Budget:
    """The bytes that the flows of one pipe share. A flow may overdraw it by one body."""

    def __init__(self, room: int) -> None:
        #: bytes that may still be sent
        self.room = room
        #: flows that wait for room, the longest waiting first
        self._waiting: dict[WaitingFlow, None] = {}

    @property
    def open(self) -> bool:
        """True if there is room that no flow waits for."""
        return self.room > 0 and not self._waiting

    def wait(self, flow: WaitingFlow) -> None:
        """Call `flow.room_available` when there is room."""
        self._waiting.setdefault(flow)

    def stop_waiting(self, flow: WaitingFlow) -> None:
        """Do not call a flow any more."""
        self._waiting.pop(flow, None)

    def clear(self) -> None:
        """Forget all flows that wait: the connection is lost."""
        self._waiting.clear()

    def share(self) -> None:
        """Give the room to the flows that wait, in turn."""
        while self._waiting and self.room > 0:
            flow = next(iter(self._waiting))
            del self._waiting[flow]
            flow.room_available()


class InflightWindow:
    """The messages of one flow in flight. A receipt is the position of its message."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        #: receipt → (tag, bytes) of what has no answer, the oldest first
        self.sent: dict[bytes, tuple[int, int]] = {}
        self.bytes = 0

    @property
    def full(self) -> bool:
        """True if the limit of the flow is reached."""
        return self.bytes >= FLIGHT_BYTES

    def fitting(self, deliveries: Iterable[Delivery], largest: int, in_turn: bool) -> int:
        """The number of `deliveries` that may be sent now: as many as there is room for, up to a body of more
        than `largest` bytes. One may always be sent when nothing is in flight."""
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

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Note deliveries that are sent."""
        sent, size = self.sent, 0
        for _, tag, message in deliveries:
            length = len(message.body)
            size += length
            sent[b"%d" % message.position] = (tag, length)
        self.bytes += size
        self.budget.room -= size

    def confirm(self, receipts: Sequence[bytes], start: int) -> tuple[list[int], int]:
        """Remove what `receipts` confirm, from `start` to the first that is not of this flow.

        Returns the tags and the bytes.
        """
        pop = self.sent.pop
        tags = []
        size = 0
        for at in range(start, len(receipts)):
            sent = pop(receipts[at], None)
            if sent is None:
                break
            tags.append(sent[0])
            size += sent[1]
        self.bytes -= size
        self.budget.room += size
        return tags, size

    def refuse(self, receipt: bytes) -> int | None:
        """Remove a refused message. Returns its tag; None if it is not of this flow."""
        tag, size = self.sent.pop(receipt, (None, 0))
        self.bytes -= size
        self.budget.room += size
        return tag

    def clear(self) -> list[int]:
        """Remove all, which will not be answered any more. Returns their positions."""
        positions = [int(receipt) for receipt in self.sent]
        self.sent.clear()
        self.budget.room += self.bytes
        self.bytes = 0
        return positions
