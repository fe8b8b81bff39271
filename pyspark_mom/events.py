"""Events of messages, and the facts that follow from the address of a queue."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_app.core.destination import DURABLE_PREFIX, SHARED_PREFIX, TEMP_TOPIC, TOPIC, is_forwarded
from broker_app.core.durability import records
from broker_app.core.remote.offset import of_address
from mom_client import storeandforward

#: names of the events; records are decoded to indexes of this tuple
EVENT_NAMES: Final = (
    "ENQUEUE",
    "RECEIVE",
    "DELIVER",
    "FORWARD",
    "NACK",
    "ACK",
    "FORWARD_ACK",
    "EXPIRE",
    "DEADLETTER",
    "DISCARD",
    "PURGE",
    "MOVE",
)
ENQUEUE, RECEIVE, DELIVER, FORWARD, NACK, ACK = range(6)
FORWARD_ACK, EXPIRE, DEADLETTER, DISCARD, PURGE, MOVE = range(6, 12)

#: events of records with bodies
WITH_BODY: Final = (EVENT_NAMES[ENQUEUE], EVENT_NAMES[RECEIVE])

#: events of a store-and-forward queue, whose messages go to another broker, by those of other queues
OF_FORWARDED: Final = {DELIVER: FORWARD, ACK: FORWARD_ACK}
#: the event of an ACKED record by its cause; removals that the broker makes for itself are none
EVENT_OF_CAUSE: Final = {
    records.ACKNOWLEDGED: ACK,
    records.EXPIRED: EXPIRE,
    records.DEAD_LETTERED: DEADLETTER,
    records.DISCARDED: DISCARD,
    records.PURGED: PURGE,
    records.MOVED: MOVE,
}

_QUEUE: Final = "queue"
_SUBSCRIPTIONS: Final = (DURABLE_PREFIX, SHARED_PREFIX)
_TOPICS: Final = (f"/{TOPIC}/", f"/{TEMP_TOPIC}/")


class Destination(NamedTuple):
    """The facts of an address. `kind` is "queue" or "topic", `subscription` the named subscription whose
    queue it is, `peer` the broker to which the messages of a store-and-forward queue go."""

    address: str
    kind: str
    subscription: str | None = None
    peer: str | None = None


def is_topic(address: str) -> bool:
    """Return whether an address is that of a topic, temporary or not."""
    return address.startswith(_TOPICS)


def is_subscription(address: str) -> bool:
    """Return whether an address is that of the queue of a named subscription."""
    return address.startswith(_SUBSCRIPTIONS)


def destination(address: str) -> Destination:
    """The facts of an address."""
    for prefix in _SUBSCRIPTIONS:
        if address.startswith(prefix):
            return Destination(address, TOPIC, subscription=address.removeprefix(prefix))
    if is_forwarded(address):
        found = storeandforward.parse(address.removeprefix(f"/{_QUEUE}/"))
        return Destination(address, _QUEUE, peer=found.broker if found is not None else None)
    return Destination(address, TOPIC if is_topic(address) else _QUEUE)


def origin_broker(address: str) -> str:
    """The name of the broker whose replication offset has this address. A sender is the name of a broker, `~`
    and the tag of its journal."""
    sender = of_address(address, ("", 0, 0, 0)).sender
    return sender.rpartition("~")[0] or sender
