"""Facts: what happened to destinations, consumers and dead letters, for those who want to hear of it.

They are rare, never one a message, and, but for `Arrived`, noted only while somebody listens to a `$mom.`
topic.
"""

from __future__ import annotations

from typing import NamedTuple

from broker_app.core.subscription import Subscription


class DestinationCreated(NamedTuple):
    address: str


class DestinationDeleted(NamedTuple):
    address: str


class DestinationFull(NamedTuple):
    """A destination came to its limit; told once, until it has been below it again."""

    address: str
    detail: str


class ConsumerJoined(NamedTuple):
    subscription: Subscription


class ConsumerLeft(NamedTuple):
    subscription: Subscription


class ConsumerSlow(NamedTuple):
    """A consumer takes too little; `detail` says what follows from it."""

    subscription: Subscription
    detail: str


class SnapshotWanted(NamedTuple):
    """Somebody subscribed to what the broker tells, and wants to hear first how things stand."""

    subscription: Subscription


class Arrived(NamedTuple):
    """Messages for another broker wait in a store-and-forward queue that nobody consumes: some came, or came
    back, in this batch."""

    address: str


class DeadLetter(NamedTuple):
    """So many messages of a queue went to the dead letters in one batch; id and detail are the last one's."""

    address: str
    reason: str
    messages: int
    message_id: str
    detail: str


Fact = (
    Arrived
    | DestinationCreated
    | DestinationDeleted
    | DestinationFull
    | ConsumerJoined
    | ConsumerLeft
    | ConsumerSlow
    | SnapshotWanted
    | DeadLetter
)
