"""Replication offsets: how far other brokers have come that forward to this one.

A broker numbers the messages that it forwards of a queue; the numbers increase and are never reused. The
offset of a sender and queue is the number up to which all messages have arrived. It is recorded in the same
batch as the messages, so a message that is sent again, because its receipt was lost, is recognized as a
repeat."""

from __future__ import annotations

from broker_app.base.refused import Refused

#: offsets are recorded under addresses of their own, /mark/<sender>/<source>
_PREFIX = "/mark/"


class Offset:
    """The messages of the queue `source` of another broker that have arrived: all up to `position`, `count`
    in all, the last at `time_ms`. Only its `owner`, the user who began it, continues from it: another user
    could advance it, and new messages would be taken for repeats."""

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
        """The address under which it is recorded."""
        return address_of(self.sender, self.source)

    @property
    def facts(self) -> tuple[str, int, int, int]:
        """The content of its record: owner, position, count, time in ms."""
        return self.owner, self.position, self.count, self.time_ms


def address_of(sender: str, source: str) -> str:
    """The address under which an offset is recorded; the name of a sender has no "/"."""
    return f"{_PREFIX}{sender}/{source}"


def of_address(address: str, facts: tuple[str, int, int, int]) -> Offset:
    """The offset of a record."""
    sender, _, source = address.removeprefix(_PREFIX).partition("/")
    return Offset(sender, source, *facts)


def is_offset(address: str) -> bool:
    """Return whether an address is that of an offset."""
    return address.startswith(_PREFIX)


class Flow:
    """The messages that one connection forwards from one queue. `id` is also the id of its subscription to
    the sync queue; `broken` is the refusal of all further messages, once one was refused."""

    __slots__ = ("broken", "id", "offset", "target", "user")

    def __init__(self, id: str, user: str, offset: Offset, target: str) -> None:
        self.id = id
        self.user = user
        self.offset = offset
        self.target = target
        self.broken: Refused | None = None

    def break_off(self, why: Refused) -> None:
        """Refuse all further messages, because they must not overtake the refused one."""
        if self.broken is None:
            detail = f"flow {self.id!r} is broken, begin it again: {why.detail}"
            self.broken = broken(detail, because=why.code)


def broken(detail: str, **facts: object) -> Refused:
    """The refusal of messages of a broken flow."""
    return Refused("flow-broken", detail, **facts)
