"""The health of a destination, in one word: decided only here, so that page, API and CLI agree."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.base import states
from broker_app.core.broker import Broker
from broker_app.core.destination import is_forwarded
from broker_app.core.model import Queue
from broker_app.core.remote.sync_queue import SYNC_ADDRESS

AT_LIMIT, NO_CONSUMER, GROWING, PAUSED, FLOWING, IDLE = STATES = tuple(states.DESTINATION)
#: the worst first
RANK = {state: rank for rank, state in enumerate(STATES)}
#: an operator should look at these
NEEDS_ATTENTION = frozenset((AT_LIMIT, NO_CONSUMER, GROWING))


class Health(NamedTuple):
    """`fill` is how much of the narrowest limit is used, from 0 to 1, None where there is none;
    `full_in_s` is when a queue that grows is going to be full."""

    state: str
    fill: float | None = None
    full_in_s: float | None = None


def queue_health(broker: Broker, queue: Queue, *, moving: bool, growth: float | None) -> Health:
    """`moving` is whether messages came or went in the last second, `growth` by how many messages a second
    it has been growing, None when it has not."""
    fill = _fill(broker, queue)
    if queue.policy.paused != "none":
        return Health(PAUSED, fill)
    if fill is not None and fill >= 1.0:
        return Health(AT_LIMIT, fill)
    full_in_s = _full_in_s(queue, fill, growth)
    if not queue.consumers and (moving or queue.depth) and _wants_consumers(broker, queue.address):
        return Health(NO_CONSUMER, fill, full_in_s)
    if growth is not None:
        return Health(GROWING, fill, full_in_s)
    return Health(FLOWING if moving else IDLE, fill)


def topic_health(broker: Broker, address: str, *, moving: bool) -> Health:
    if broker.turn.policies.of(address).paused != "none":
        return Health(PAUSED)
    return Health(FLOWING if moving else IDLE)


def _wants_consumers(broker: Broker, address: str) -> bool:
    """True for queues without consumers of their own: dead letters, store-and-forward queues, and the
    internal queues of bridges."""
    if address == SYNC_ADDRESS or is_forwarded(address):
        return False
    return not broker.turn.policies.is_of_dead_letters(address)


def _fill(broker: Broker, queue: Queue) -> float | None:
    guard, policy = queue.limit_usage, queue.policy
    if guard is None or not (policy.max_messages or policy.max_bytes):
        return None
    messages, bytes_ = broker.destination_limits.used(queue, guard)
    by_messages = messages / policy.max_messages if policy.max_messages else 0.0
    by_bytes = bytes_ / policy.max_bytes if policy.max_bytes else 0.0
    return min(1.0, 1.0 if guard.blocked else max(by_messages, by_bytes))


def _full_in_s(queue: Queue, fill: float | None, growth: float | None) -> float | None:
    """The time until the limit is reached, if the queue continues to grow as it does."""
    if not fill or growth is None:
        return None
    return queue.depth * (1.0 - fill) / fill / growth
