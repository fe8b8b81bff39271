"""Slow consumers: those that use all their credit and settle nothing while messages wait, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker_app.core.model import Subscription


class _IdleSince(NamedTuple):
    """Since when a consumer has received nothing, and its deliveries then."""

    since_ms: int
    delivered_directly: int


class SlowConsumers:
    """The slow consumers of the last sweep. A consumer is slow from the first sweep in which it has received
    nothing until one in which it has."""

    def __init__(self) -> None:
        self._slow: dict[Subscription, _IdleSince] = {}
        #: topic subscriptions for which messages wait
        self.behind: dict[Subscription, None] = {}

    def __len__(self) -> int:
        return len(self._slow)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._slow)

    def since_ms(self, subscription: Subscription) -> int:
        """Since when a consumer has been slow, 0 when it is not."""
        idle = self._slow.get(subscription)
        return idle.since_ms if idle else 0

    def shift(self, by_ms: int) -> None:
        """Shift since when consumers are slow, because the clock was set."""
        self._slow = {
            subscription: entry._replace(since_ms=entry.since_ms + by_ms)
            for subscription, entry in self._slow.items()
        }

    def check(self, candidates: Iterable[Subscription], now_ms: int) -> list[tuple[Subscription, int]]:
        """The slow consumers among `candidates`, and for how long (ms) they are."""
        before, self._slow = self._slow, {}
        slow = []
        for subscription in candidates:
            if _can_receive(subscription):
                continue
            entry = before.get(subscription)
            if entry is None or entry.delivered_directly != subscription.delivered_directly:
                entry = _IdleSince(now_ms, subscription.delivered_directly)
            self._slow[subscription] = entry
            slow.append((subscription, now_ms - entry.since_ms))
        return slow


def _can_receive(subscription: Subscription) -> bool:
    """Return whether a consumer can receive more, or could if the broker were not paused. With leases,
    deliveries are returned by themselves: not slow."""
    if subscription.lease_ms or subscription.peer.suspended:
        return True
    return subscription.unsettled < subscription.credit and not subscription.peer.paused
