"""Interest: what the consumers of this broker want, for the other brokers of a cluster."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.core.commands import AUTO
from broker_app.core.destination import is_reserved, parse
from broker_app.core.model import Subscription
from broker_app.core.outcome import InterestChanged
from broker_app.core.records import Terms
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


class Interest:
    """The local consumers by what they want. Each change is an event while it is `watched`."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.watched = False
        self._consumers: dict[Want, dict[Subscription, None]] = {}
        self._wants: dict[Subscription, Want] = {}

    def begin(self, subscription: Subscription) -> None:
        """Count a consumer that has come."""
        want = _want_of(subscription)
        if want is not None:
            self._wants[subscription] = want
            self._consumers.setdefault(want, {})[subscription] = None
            self._emit(want)

    def end(self, subscription: Subscription) -> None:
        """Count a consumer that has left no longer."""
        want = self._wants.pop(subscription, None)
        if want is None:
            return
        consumers = self._consumers[want]
        del consumers[subscription]
        if not consumers:
            del self._consumers[want]
        self._emit(want)

    def credit_changed(self, subscription: Subscription) -> None:
        """Note that a consumer has other credit."""
        want = self._wants.get(subscription)
        if want is not None:
            self._emit(want)

    def _emit(self, want: Want) -> None:
        if self.watched:
            self._turn.out.events.append(InterestChanged(want))

    def all(self) -> list[Want]:
        """Everything that is wanted."""
        return list(self._consumers)

    def consumers(self, want: Want) -> int:
        """The number of consumers that want it."""
        return len(self._consumers.get(want, ()))

    def credit(self, want: Want) -> int:
        """The messages that they take together before any is settled."""
        return sum(
            max(one.credit, AUTO_CREDIT) if one.ack == AUTO else one.credit
            for one in self._consumers.get(want, ())
        )


def _want_of(subscription: Subscription) -> Want | None:
    """What a consumer wants of other brokers; None for one that is served from this one alone."""
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
