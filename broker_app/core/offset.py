"""Marks: how far other brokers have come with what they forward to this one.

A broker numbers what it forwards of a queue; the numbers grow and are never used twice. Up to which of them
all is here is the mark of that sender and queue. It is recorded in the same batch as the messages, so a
message that is sent again, because the answer to it was lost, is known to be a repeat.
"""

from __future__ import annotations

from broker_app.core.errors import Refused

#: offsets are recorded under addresses of their own, /mark/<sender>/<source>
_PREFIX = "/mark/"


class Offset:
    """What is here of the queue `source` (its name there) of another broker: all up to `position`, `count`
    messages, the last at `time_ms`. `owner` is the user who began it, and who alone goes on from it: whoever
    else could would push it ahead, and what is new would be taken for repeats."""

    __slots__ = ("count", "owner", "position", "sender", "source", "time_ms")

    def __init__(
        self, sender: str, source: str, owner: str, position: int = 0, count: int = 0, time_ms: int = 0
    ) -> None:
        self.sender = sender
        self.source = source
        self.owner = owner
        self.position = position
        self.count = count
        self.time_ms = time_ms

    @property
    def address(self) -> str:
        return address_of(self.sender, self.source)

    @property
    def facts(self) -> tuple[str, int, int, int]:
        """What is recorded of it: owner, position, count, time in ms."""
        return self.owner, self.position, self.count, self.time_ms


def address_of(sender: str, source: str) -> str:
    """Where the mark of a queue is recorded; a sender's name has no "/"."""
    return f"{_PREFIX}{sender}/{source}"


def of_address(address: str, facts: tuple[str, int, int, int]) -> Offset:
    """A mark that was recorded."""
    sender, _, source = address.removeprefix(_PREFIX).partition("/")
    return Offset(sender, source, *facts)


def is_offset(address: str) -> bool:
    """Whether records of this address are of a mark."""
    return address.startswith(_PREFIX)


class Flow:
    """What one connection forwards of one queue. `id` is its name there, that of its subscription to the sync
    queue; `broken` is what all further messages are refused with, once there is a reason."""

    __slots__ = ("broken", "id", "offset", "target", "user")

    def __init__(self, id: str, user: str, offset: Offset, target: str) -> None:
        self.id = id
        self.user = user
        self.offset = offset
        self.target = target
        self.broken: Refused | None = None

    def break_off(self, why: Refused) -> None:
        """Take nothing more: what comes behind must not overtake what was refused."""
        if self.broken is None:
            detail = f"flow {self.id!r} is broken, and has to begin anew: {why.detail}"
            self.broken = broken(detail, because=why.code)


def broken(detail: str, **facts: object) -> Refused:
    return Refused("flow-broken", detail, **facts)
