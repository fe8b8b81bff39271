"""What a destination with limits keeps beside its messages: weight, producers, and who waits in line."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from broker_app.core.message import Envelope
from broker_app.core.policy import REMOVE_LOW_PRIORITY, REMOVE_OLDEST, DestinationPolicy

if TYPE_CHECKING:
    from broker_app.core.peer import Peer

#: who has sent nothing for so long is no producer any more, even while connected
PRODUCER_MS = 60_000


class BlockedPublish:
    """A message that was received and not let in: its producer has no answer yet."""

    __slots__ = ("arrival", "body", "envelope", "peer", "receipt", "until_ms")

    def __init__(
        self, peer: Peer, envelope: Envelope, body: bytes, receipt: Any, arrival: int, until_ms: int
    ) -> None:
        self.peer = peer
        self.envelope = envelope
        self.body = body
        self.receipt = receipt
        #: its place in every line: behind what arrived before it, also in a line that it enters later
        self.arrival = arrival
        #: when it is refused
        self.until_ms = until_ms

    @property
    def size(self) -> int:
        return len(self.body) + self.envelope.weight


class LimitUsage:
    """The limits of one destination at work.

    `bytes` counts the bodies of what waits and what is unsettled, and is exact where there is a limit for
    them. Of `unread` messages, which were there before the counting began, only the number is known until
    their bodies are read back; till then each counts as much as the average of those that were. `line`
    holds in order what waits for room.
    """

    __slots__ = ("_read", "_read_bytes", "bytes", "line", "policy", "producers", "since", "unread")

    def __init__(self, policy: DestinationPolicy) -> None:
        self.policy = policy
        self.bytes = 0
        self.unread = 0
        #: the first position that was counted as it came
        self.since = 0
        self._read = self._read_bytes = 0
        self.line: deque[BlockedPublish] = deque()
        #: when each producer sent last, ms
        self.producers: dict[Peer, int] = {}

    @property
    def removes(self) -> bool:
        """Whether what waits makes room for what comes."""
        return self.policy.limit_behavior in (REMOVE_OLDEST, REMOVE_LOW_PRIORITY)

    @property
    def estimated_bytes(self) -> int:
        """What the messages weigh together."""
        return self.bytes + (self.unread * self._read_bytes // self._read if self._read else 0)

    def holds(self, messages: int, bytes_: int) -> bool:
        """Whether so many messages of so many bytes are within the limits."""
        policy = self.policy
        return (not policy.max_messages or messages <= policy.max_messages) and (
            not policy.max_bytes or bytes_ <= policy.max_bytes
        )

    def read_back(self, position: int, size: int) -> None:
        """A body came from the journal."""
        if position < self.since and self.unread:
            self.unread -= 1
            self.bytes += size
            self._read += 1
            self._read_bytes += size

    def recount(self, known_bytes: int, unread: int, since: int) -> None:
        """Begin the counting anew: `unread` messages before the position `since` were not looked at."""
        self.bytes, self.unread, self.since = known_bytes, unread, since

    def shift(self, by_ms: int) -> None:
        """Have each producer send so much later."""
        self.producers = {peer: sent_ms + by_ms for peer, sent_ms in self.producers.items()}

    def admits(self, peer: Peer, now_ms: int) -> bool:
        """Whether `peer` may send here as far as the number of producers goes; it then counts as one."""
        most, producers = self.policy.max_producers, self.producers
        if most and peer not in producers and len(producers) >= most:
            self.producers = producers = {
                producer: sent_ms
                for producer, sent_ms in producers.items()
                if not producer.gone and now_ms - sent_ms < PRODUCER_MS
            }
            if len(producers) >= most:
                return False
        if most:
            producers[peer] = now_ms
        return True
