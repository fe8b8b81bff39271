"""A consumer's interest in one destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.core.peer import Peer
    from broker_app.core.queue import Queue
    from broker_app.core.topic import Look


class Subscription:
    """`queue` is where its messages wait: a shared queue, or one of its own behind a topic filter.

    `head` is a free place for the session's rendering. `look`, while set, is the group of topic
    subscriptions that are served together because their messages are rendered to equal bytes.
    """

    __slots__ = (
        "ack",
        "address",
        "available",
        "credit",
        "head",
        "id",
        "lease_ms",
        "look",
        "look_key",
        "peer",
        "queue",
        "unsettled",
    )

    def __init__(
        self, peer: Peer, id: str, address: str, ack: str, credit: int, lease_ms: int, look_key: object
    ) -> None:
        self.peer = peer
        self.id = id
        self.address = address
        self.ack = ack
        self.credit = credit
        self.lease_ms = lease_ms
        self.look_key = look_key
        self.look: Look | None = None
        self.queue: Queue
        self.head: bytes | None = None
        self.unsettled = 0
        #: whether it stands in `queue.available`
        self.available = False
