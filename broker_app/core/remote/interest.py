"""Interest: what the consumers of this broker want, for the other brokers of a cluster."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.core.commands import AUTO
from broker_app.core.destination import is_reserved, parse
from broker_app.core.durability.records import Terms
from broker_app.core.model import Subscription
from broker_app.core.outcome import InterestChanged
from broker_app.core.turn import Turn

#: messages that a consumer which acknowledges nothing takes at a time
AUTO_CREDIT = 1_000


class Want(NamedTuple):
    """The same for several consumers: messages of `address`, a queue, a topic filter or the queue of a named
    subscription (with its `terms`). An exclusive consumer, who has asked to be the only one at
    `exclusive_since_us`, is by itself."""

    address: str
    selector: str = ""
    exclusive_since_us: int = 0
    priority: int = 0
    terms: Terms | None = None


class _Consumers:
    """The consumers that want the same."""

    __slots__ = ("credit", "number")

    def __init__(self) -> None:
        self.number = self.credit = 0


class Interest:
    """The local consumers by what they want. Each change is an event while it is `watched`.

    Sums are kept, not made: each change is reported to every other broker of the cluster."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.watched = False
        self._consumers: dict[Want, _Consumers] = {}
        #: what each consumer wants, and the credit that counts for it
        self._counted: dict[Subscription, tuple[Want, int]] = {}

    def begin(self, subscription: Subscription) -> None:
        """Count a consumer that has come."""
        want = _want_of(subscription)
        if want is not None:
            consumers = self._consumers.get(want)
            if consumers is None:
                consumers = self._consumers[want] = _Consumers()
            consumers.number += 1
            self._count(subscription, want, consumers, 0)

    def end(self, subscription: Subscription) -> None:
        """Count a consumer that has left no longer."""
        counted = self._counted.pop(subscription, None)
        if counted is None:
            return
        want, credit = counted
        consumers = self._consumers[want]
        consumers.number -= 1
        consumers.credit -= credit
        if not consumers.number:
            del self._consumers[want]
        self._emit(want)

    def credit_changed(self, subscription: Subscription) -> None:
        """Note that a consumer has other credit."""
        counted = self._counted.get(subscription)
        if counted is not None:
            want, credit = counted
            self._count(subscription, want, self._consumers[want], credit)

    def _count(self, subscription: Subscription, want: Want, consumers: _Consumers, before: int) -> None:
        """Count the credit of a consumer, in place of that of before."""
        credit = subscription.credit
        if subscription.ack == AUTO or subscription.inner_ack:
            credit = max(credit, AUTO_CREDIT)
        self._counted[subscription] = want, credit
        consumers.credit += credit - before
        self._emit(want)

    def _emit(self, want: Want) -> None:
        if self.watched:
            self._turn.out.events.append(InterestChanged(want))

    def all(self) -> list[Want]:
        """Everything that is wanted."""
        return list(self._consumers)

    def consumers(self, want: Want) -> int:
        """The number of consumers that want it."""
        consumers = self._consumers.get(want)
        return consumers.number if consumers is not None else 0

    def credit(self, want: Want) -> int:
        """The messages that they take together before any is settled."""
        consumers = self._consumers.get(want)
        return consumers.credit if consumers is not None else 0


def _want_of(subscription: Subscription) -> Want | None:
    """The want of a consumer; None for one that is served from this broker alone."""
    queue = subscription.queue
    if subscription.remote or queue.forwarded:
        return None
    since_us = subscription.exclusive_since_us if subscription.exclusive else 0
    selector = subscription.selector.text if subscription.selector is not None else ""
    if queue.named is not None:
        return Want(queue.address, "", since_us, terms=queue.named.terms)
    destination = parse(subscription.address)
    if is_reserved(destination.name):
        return None
    return Want(destination.address, selector, since_us, subscription.priority)
