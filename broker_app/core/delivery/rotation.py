"""Consumers with credit, which take turns: those of the highest priority first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.core.model import Subscription


def _rank(subscription: Subscription) -> int:
    return -subscription.priority


class Rotation:
    """`first` takes the next message, None if no consumer has credit; `lower` has those that are first when
    no consumer of a higher priority has credit, highest priority first. The consumers of one priority are a
    ring of `next` and `previous`, so that any of them can leave at the same cost however many there are.

    Dispatch sets `first` to the next one directly, so that turns and priorities cost it nothing."""

    __slots__ = ("first", "lower")

    def __init__(self) -> None:
        self.first: Subscription | None = None
        self.lower: list[Subscription] = []

    def __bool__(self) -> bool:
        return self.first is not None

    def __iter__(self) -> Iterator[Subscription]:
        """All consumers, in the order in which they are served."""
        for first in (self.first, *self.lower):
            if first is not None:
                yield first
                one = first.next
                while one is not first:
                    yield one
                    one = one.next

    def join(self, subscription: Subscription) -> None:
        """Add a consumer behind those of its priority."""
        first = self.first
        if first is None:
            self.first = subscription.next = subscription.previous = subscription
        elif subscription.priority == first.priority:
            _insert(subscription, first)
        elif subscription.priority > first.priority:
            self.lower.insert(0, first)
            self.first = subscription.next = subscription.previous = subscription
        else:
            at = self._place(subscription)
            if at < len(self.lower) and self.lower[at].priority == subscription.priority:
                _insert(subscription, self.lower[at])
            else:
                subscription.next = subscription.previous = subscription
                self.lower.insert(at, subscription)

    def leave(self, subscription: Subscription) -> None:
        """Remove a consumer."""
        following = subscription.next
        if following is subscription:
            if self.first is subscription:
                self.first = self.lower.pop(0) if self.lower else None
            else:
                del self.lower[self._place(subscription)]
        else:
            following.previous = subscription.previous
            subscription.previous.next = following
            if self.first is subscription:
                self.first = following
            elif subscription in self.lower[(at := self._place(subscription)) : at + 1]:
                self.lower[at] = following
        del subscription.next, subscription.previous

    def served(self, subscription: Subscription) -> None:
        """Have a consumer that got a message out of turn wait for the others of its priority."""
        self.leave(subscription)
        self.join(subscription)

    def take_over(self, other: Rotation) -> None:
        """Have the consumers of `other`, which is empty then. Assumes: there are none here."""
        self.first, self.lower = other.first, other.lower
        other.first, other.lower = None, []
        if self.first is None and self.lower:  # they waited there (`local_preference.LocalFirst`)
            self.first = self.lower.pop(0)

    def _place(self, subscription: Subscription) -> int:
        """The index of the first of this priority in `lower`, where it is or would be."""
        return bisect_left(self.lower, -subscription.priority, key=_rank)


def _insert(subscription: Subscription, first: Subscription) -> None:
    """Add a consumer behind all others of a ring, which begins with `first`."""
    last = first.previous
    subscription.next, subscription.previous = first, last
    last.next = first.previous = subscription
