"""Unsettled deliveries: the peers that hold them, and when they are returned by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker_app.core.delivery.consumer_tags import ConsumerTags
from broker_app.core.delivery.delayed_redelivery import DelayedRedelivery
from broker_app.core.message import Message
from broker_app.core.model import Delivery, Peer, Queue, Subscription
from broker_app.core.storage.lane import is_pageable
from broker_app.core.timers import Leases
from broker_app.core.turn import Turn

#: bytes of a body from which on it is not kept for an unsettled delivery
LARGE_BODY: Final = 64 * 1024


class Holding(NamedTuple):
    """One unsettled delivery."""

    peer: Peer
    tag: int
    subscription: Subscription
    message: Message


class UnsettledDeliveries:
    """All deliveries that consumers hold, or that wait for another attempt (`delayed`)."""

    def __init__(self, turn: Turn) -> None:
        limits = turn.limits
        self.leases = Leases(turn.call_at)
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

    @staticmethod
    def release_bodies(written: Iterable[Delivery]) -> None:
        """Release the large bodies of deliveries that were written to their clients, where the journal has
        them. The body of one that returns is read again."""
        for subscription, tag, message in written:
            if len(message.body) > LARGE_BODY and tag in subscription.peer.unsettled:
                release_body(subscription.queue, message)

    def take(self, queue: Queue) -> list[Message]:
        """Take all unsettled deliveries of a queue from their consumers; returns the recorded messages."""
        messages: list[Message] = []
        for peer, tag, subscription, message in list(self.of(queue)):
            del peer.unsettled[tag]
            subscription.unsettled -= 1
            subscription.returned += 1
            self.leases.end(peer, tag)
            if peer is self.delayed.peer:
                self.delayed.forget(message)
            else:
                message.attempts += 1
                if queue.account is not None:
                    queue.account.keep(-message.size)
            if message.recorded:
                messages.append(message)
            elif message.origin is not None:
                message.origin.give_back(message)
        queue.counters.removed += queue.unsettled
        queue.unsettled = 0
        return messages


def release_body(queue: Queue, message: Message) -> None:
    """Release the body of an unsettled delivery, if the message can be paged when it returns."""
    lane = queue.lane(message.envelope.priority)
    if message.has_body and is_pageable(lane, message):
        message.release_body()
        queue.released = True
