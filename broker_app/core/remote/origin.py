"""Messages that another broker of the cluster owns, and the reports about them that go back to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker_app.core.message import Envelope, Message
from broker_app.core.model import Peer, Queue


class RemoteMessage(Message):
    """A message of another broker. `origin_tag` is its delivery there, 0 if that has not to be settled."""

    __slots__ = ("arrived_ms", "holding", "origin", "origin_tag")

    def __init__(
        self,
        origin: Origin,
        tag: int,
        envelope: Envelope,
        body: bytes,
        time_ms: int,
        id: bytes,
        attempts: int = 0,
    ) -> None:
        super().__init__(envelope, body, 0, time_ms, recorded=False)
        self.origin: Origin = origin
        self.origin_tag = tag
        self.explicit_id = id
        self.attempts = attempts
        self.arrived_ms = 0
        #: the queue in which it is unsettled here
        self.holding: Queue | None = None


class ReturnedDelivery(NamedTuple):
    """A delivery that was not acknowledged. `attempted`: a consumer had it, and it failed for `reason`; the
    others are as in `commands.Return`."""

    tag: int
    attempted: bool = False
    reason: str = ""
    dead_reason: str = ""
    detail: str = ""
    delay_ms: int = 0


class Origin:
    """The other broker, named `broker`, over one connection: it takes `acked` and `returned` when its `peer`
    is flushed. `schedule_flush` is that of the turn."""

    __slots__ = (
        *("_schedule_flush", "acked", "broker", "ended", "peer", "question", "returned"),
        *("waiting", "waiting_bytes"),
    )

    def __init__(self, peer: Peer, schedule_flush: Callable[[Peer], None], broker: str = "") -> None:
        self.peer = peer
        self.broker = broker
        self._schedule_flush = schedule_flush
        self.acked: list[int] = []
        self.returned: list[ReturnedDelivery] = []
        #: the last question whether all reports before it are recorded
        self.question = 0
        #: the number of its messages that wait for a consumer here, and the bytes of their bodies
        self.waiting = self.waiting_bytes = 0
        #: whether its connection has ended: its messages are delivered again by their owner
        self.ended = False

    def ask(self) -> int:
        """Ask whether all that was reported before is recorded; returns the number of the question. Its
        answer is one to all before it."""
        self.question += 1
        self._schedule_flush(self.peer)
        return self.question

    def acknowledge(self, message: RemoteMessage) -> bool:
        """Report that a message was acknowledged; returns whether its owner has to record that."""
        _release(message)
        if message.origin_tag and not self.ended:
            self.acked.append(message.origin_tag)
            if not self.peer.touched:
                self._schedule_flush(self.peer)
        return message.origin_tag > 0

    def give_back(self, message: RemoteMessage) -> None:
        """Return a message that no consumer has seen."""
        _release(message)
        self._give_back(ReturnedDelivery(message.origin_tag))

    def fail(
        self, message: RemoteMessage, reason: str, dead_reason: str = "", detail: str = "", delay_ms: int = 0
    ) -> None:
        """Return a message whose delivery failed."""
        _release(message)
        self._give_back(
            ReturnedDelivery(message.origin_tag, True, reason, dead_reason, detail[:1_000], delay_ms)
        )

    def _give_back(self, returned: ReturnedDelivery) -> None:
        if returned.tag and not self.ended:
            self.returned.append(returned)
            self._schedule_flush(self.peer)


def _release(message: RemoteMessage) -> None:
    """Count a message as unsettled here no longer."""
    queue, message.holding = message.holding, None
    if queue is not None:
        queue.remote_unsettled -= 1
        queue.remote_bytes -= len(message.body)
