"""Delayed redelivery: returned messages that wait for another attempt.

They count as unsettled: an internal peer holds them, and a lease returns them to their place. So do messages
that become dead letters as soon as their bodies are read, without a lease."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.core.model import InnerReceiver, Peer, Queue, Subscription
from broker_app.core.policy import DestinationPolicy


class DelayedRedelivery:
    """The messages that wait: at most `most`, and at most `most_bytes` of bodies."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.peer = Peer(InnerReceiver(), user="$mom")
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def take(self, queue: Queue, message: Message) -> int:
        """Hold a message; returns its tag, or 0 when too many wait already."""
        peer = self.peer
        if not peer.unsettled:
            self._bytes = 0
        if len(peer.unsettled) >= self._most or self._bytes + message.size > self._most_bytes:
            return 0
        return self.hold(queue, message)

    def hold(self, queue: Queue, message: Message) -> int:
        """Hold a message whatever waits already; returns its tag."""
        peer = self.peer
        tag = peer.next_tag
        peer.next_tag += 1
        subscription = Subscription(peer, "", queue.address, c.INDIVIDUAL, 1, 0, None)
        subscription.queue = queue
        subscription.unsettled = 1
        peer.unsettled[tag] = (subscription, message)
        queue.unsettled += 1
        self._bytes += message.size
        return tag

    def count(self, queue: Queue) -> int:
        """The number of messages of a queue that wait."""
        return sum(holder.queue is queue for holder, _ in self.peer.unsettled.values())

    def forget(self, message: Message) -> None:
        """Count a message that is no longer held."""
        self._bytes -= message.size


def retry_delay_ms(policy: DestinationPolicy, attempts: int) -> int:
    """The delay before a message is delivered again: longer with each attempt, up to a maximum."""
    if not policy.retry_delay_ms:
        return 0
    most = policy.max_retry_delay_ms or policy.retry_delay_ms
    delay: float = policy.retry_delay_ms
    for _ in range(attempts - 1):
        if delay >= most:
            break
        delay *= policy.retry_factor
    return int(min(delay, most))
