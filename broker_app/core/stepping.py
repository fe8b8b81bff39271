"""What a step of the clock means: time limits that live in memory go on as if the clock had not been set.

Waits, leases, sweeps and idle times last as long as they were to last. What is stored, and what people say in
the words of the clock (expiry, delays, retention), follows the clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_app.core.guard import Parked
from broker_app.core.state import State


def shift_time_limits(broker: State, by_ms: int) -> None:
    """Move all that is due at some time, or is counted since some time, by a step of the clock."""
    broker.sweep_ms += by_ms
    broker.leases.shift(by_ms)
    broker.slowness.shift(by_ms)
    for parked in _parked(broker):
        parked.until_ms += by_ms
    broker._full = {queue: seen_ms + by_ms for queue, seen_ms in broker._full.items()}
    for guard in broker._topic_guards.values():
        guard.shift(by_ms)
    for queue in broker.queues.values():
        if queue.idle_since_ms:
            queue.idle_since_ms += by_ms
        if queue.guarded is not None:
            queue.guarded.shift(by_ms)
        if queue.picking is not None:
            queue.picking.shift(by_ms)
    for peer in broker.peers:
        for subscription in peer.subscriptions.values():
            subscription.probe_ms += by_ms


def _parked(broker: State) -> Iterator[Parked]:
    """All messages that wait for room; each stands in one line."""
    yield from broker._line
    for queue in broker._crowded:
        if queue.guarded is not None:
            yield from queue.guarded.line
