"""Slow consumers: who holds all its credit and settles nothing while messages wait for it, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker_app.core.model import Subscription


class _Standstill(NamedTuple):
    since_ms: int
    delivered_directly: int


class Slowness:
    """What the sweeps have seen. A consumer is slow from the first sweep that finds it standing still
    until one that finds it moving."""

    def __init__(self) -> None:
        self._standing: dict[Subscription, _Standstill] = {}
        #: topic subscriptions for which messages wait
        self.behind: dict[Subscription, None] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._standing)

    def since_ms(self, subscription: Subscription) -> int:
        """Since when a consumer has been slow, 0 when it is not."""
        standstill = self._standing.get(subscription)
        return standstill.since_ms if standstill else 0

    def shift(self, by_ms: int) -> None:
        """Have all of them slow since so much later."""
        self._standing = {
            subscription: known._replace(since_ms=known.since_ms + by_ms)
            for subscription, known in self._standing.items()
        }

    def check(self, candidates: Iterable[Subscription], now_ms: int) -> list[tuple[Subscription, int]]:
        """See who stands still; each of them with how long (ms) it has."""
        before, self._standing = self._standing, {}
        slow = []
        for subscription in candidates:
            if _could_move(subscription):
                continue
            known = before.get(subscription)
            if known is None or known.delivered_directly != subscription.delivered_directly:
                known = _Standstill(now_ms, subscription.delivered_directly)
            self._standing[subscription] = known
            slow.append((subscription, now_ms - known.since_ms))
        return slow


def _could_move(subscription: Subscription) -> bool:
    """Whether a consumer could be handed more. What is leased comes back by itself: that is not slow."""
    if subscription.lease_ms:
        return True
    return subscription.unsettled < subscription.credit and not subscription.peer.paused
