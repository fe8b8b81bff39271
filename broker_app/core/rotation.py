"""Consumers with credit, which take turns: those of the highest priority first."""

from __future__ import annotations

from bisect import insort
from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.core.model import Subscription


def _rank(subscription: Subscription) -> int:
    return -subscription.priority


class Rotation(deque["Subscription"]):
    """The consumers that take a message now, the next one in turn first. All have the same priority; `lower`
    has those that are served when none of these has credit, highest priority first.

    Dispatch pops from it directly and calls `refill` when it is empty, so that priorities cost it nothing."""

    __slots__ = ("lower",)

    def __init__(self) -> None:
        super().__init__()
        self.lower: list[Subscription] = []

    def join(self, subscription: Subscription) -> None:
        """Add a consumer behind those of its priority."""
        self.refill()
        if not self or subscription.priority == self[0].priority:
            self.append(subscription)
        elif subscription.priority < self[0].priority:
            insort(self.lower, subscription, key=_rank)
        else:
            self.lower[:0] = self
            self.clear()
            self.append(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Remove a consumer."""
        if self and self[-1] is subscription:  # many often end in the reverse of their order
            self.pop()
        else:
            (self.lower if subscription in self.lower else self).remove(subscription)
        self.refill()

    def served(self, subscription: Subscription) -> None:
        """Have a consumer that got a message out of turn wait for the others of its priority."""
        if subscription not in self.lower:
            self.remove(subscription)
            self.append(subscription)

    def refill(self) -> None:
        """Serve the next lower priority if none of this one has credit."""
        if self.lower and not self:
            priority = self.lower[0].priority
            self.extend(takewhile(lambda one: one.priority == priority, self.lower))
            del self.lower[: len(self)]

    def take_over(self, other: Rotation) -> None:
        """Add the consumers of `other`, which is empty then."""
        self.extend(other)
        self.lower += other.lower
        other.clear()
        other.lower.clear()
