"""Marks: how far other brokers have come with what they forward to this one.

A broker numbers what it forwards of a queue; the numbers grow and are never used twice. Up to which of them
all is here is the mark of that sender and queue. It is recorded in the same batch as the messages, so a
message that is sent again, because the answer to it was lost, is known to be a repeat.
"""

from __future__ import annotations

from broker_app.core.destination import MAX_NAME, QUEUE, SYNC_QUEUE
from broker_app.core.errors import Refused
from broker_app.core.peer import Peer
from broker_app.core.policy import DestinationPolicy
from broker_app.core.queue import Queue
from broker_app.core.subscription import Subscription

SYNC_ADDRESS = f"/{QUEUE}/{SYNC_QUEUE}"
#: marks are recorded under addresses of their own, /mark/<sender>/<source>
_PREFIX = "/mark/"
#: characters of the name of a sender, and of a queue there
MAX_SENDER, MAX_SOURCE = 100, MAX_NAME


class Mark:
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


def of_address(address: str, facts: tuple[str, int, int, int]) -> Mark:
    """A mark that was recorded."""
    sender, _, source = address.removeprefix(_PREFIX).partition("/")
    return Mark(sender, source, *facts)


def is_mark(address: str) -> bool:
    """Whether records of this address are of a mark."""
    return address.startswith(_PREFIX)


def check_names(sender: str, source: str) -> None:
    """Refused for a sender or a queue of his that cannot have a mark."""
    for what, name, most in (("sender", sender, MAX_SENDER), ("source", source, MAX_SOURCE)):
        if not 1 <= len(name) <= most or not name.isprintable():
            raise Refused(
                "invalid",
                f"the {what} of a flow is called {name[:80]!r}; it needs 1 to {most} printable characters",
            )
    if "/" in sender:
        raise Refused("invalid", f"the sender of a flow is called {sender!r}; it must not contain /")


class Flow:
    """What one connection forwards of one queue. `id` is its name there, that of its subscription to the sync
    queue; `broken` is what all further messages are refused with, once there is a reason."""

    __slots__ = ("broken", "id", "mark", "peer", "subscription", "target")

    def __init__(self, subscription: Subscription, mark: Mark, target: str) -> None:
        self.subscription = subscription
        self.peer: Peer = subscription.peer
        self.id = subscription.id
        self.mark = mark
        self.target = target
        self.broken: Refused | None = None

    def break_off(self, why: Refused) -> None:
        """Take nothing more: what comes behind must not overtake what was refused."""
        if self.broken is None:
            detail = f"flow {self.id!r} is broken, and has to begin anew: {why.detail}"
            self.broken = broken(detail, because=why.code)


def broken(detail: str, **facts: object) -> Refused:
    return Refused("flow-broken", detail, **facts)


class SyncQueue(Queue):
    """What stands for the marks among the queues: they are what waits in it, and bridges consume it. Nobody
    sends to it or takes out of it."""

    __slots__ = ("_marks",)

    def __init__(self, marks: dict[str, Mark]) -> None:
        self._marks = marks
        super().__init__(SYNC_ADDRESS, durable=True)

    def apply_policy(self, policy: DestinationPolicy) -> None:
        super().apply_policy(policy)
        self.shut = True  # so that senders are looked at

    @property
    def depth(self) -> int:
        return len(self._marks)


def check_is_no_sync_queue(address: str) -> None:
    """Refused for what only bridges use, by frames of their own."""
    if address == SYNC_ADDRESS:
        raise Refused(
            "unsupported",
            f"{SYNC_ADDRESS} has no messages that could be sent, received or moved: it holds how far other "
            "brokers have come with what they forward to this one, and GET /api/v1/forwarding shows it",
        )
