"""Unsettled deliveries: the peers that hold them, and when they are returned by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_app.core.consumer_tags import ConsumerTags
from broker_app.core.delayed_redelivery import DelayedRedelivery
from broker_app.core.limits import Limits
from broker_app.core.message import Message
from broker_app.core.model import Peer, Queue, Subscription
from broker_app.core.timers import Leases


class Holding(NamedTuple):
    """One unsettled delivery."""

    peer: Peer
    tag: int
    subscription: Subscription
    message: Message


class UnsettledDeliveries:
    """All deliveries that consumers hold, or that wait for another attempt (`delayed`)."""

    def __init__(self, limits: Limits) -> None:
        self.leases = Leases()
        self.delayed = DelayedRedelivery(limits.delayed_redeliveries, limits.memory_bytes // 4)
        #: peers that may hold deliveries
        self.peers: dict[Peer, None] = {self.delayed.peer: None}
        self._tags: dict[Peer, ConsumerTags] = {}

    def take_tags(self, subscription: Subscription) -> list[int]:
        """The tags of the deliveries that a subscription which ends has not settled, in order."""
        peer = subscription.peer
        tags = self._tags.get(peer)
        if tags is None:
            tags = self._tags[peer] = ConsumerTags(peer)
        return tags.take(subscription)

    def forget(self, peer: Peer) -> None:
        """Forget a peer that holds no deliveries and has no subscriptions any more."""
        self.peers.pop(peer, None)
        self._tags.pop(peer, None)

    def of(self, queue: Queue) -> Iterator[Holding]:
        """The unsettled deliveries of a queue. Walks those of all queues."""
        for peer in self.peers if queue.unsettled else ():
            for tag, (subscription, message) in peer.unsettled.items():
                if subscription.queue is queue:
                    yield Holding(peer, tag, subscription, message)

    def take(self, queue: Queue) -> list[Message]:
        """Take all unsettled deliveries of a queue from their consumers; returns the recorded messages."""
        messages: list[Message] = []
        for peer, tag, subscription, message in list(self.of(queue)):
            del peer.unsettled[tag]
            subscription.unsettled -= 1
            subscription.returned += 1
            self.leases.end(peer, tag)
            if peer is self.delayed.peer:
                self.delayed.release_body(message)
            else:
                message.attempts += 1
                if queue.account is not None:
                    queue.account.keep(-message.size)
            if message.recorded:
                messages.append(message)
        queue.counters.removed += queue.unsettled
        queue.unsettled = 0
        return messages
