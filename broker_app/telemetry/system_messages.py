"""Messages of system topics: each subscription is sent what its client may see of them.

While all may see all of a message it is published once for all; else it is delivered to each by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from broker_app.core.broker import Broker
from broker_app.core.message import Envelope
from broker_app.core.model import NamedSubscription, Subscription

_JSON = b"content-type:application/json\n"
_CLOUDEVENT = b"content-type:application/cloudevents+json\n"

Entry = tuple[Envelope, bytes]
Facts = dict[str, Any]
Receiving = Subscription | NamedSubscription


@dataclass(slots=True, eq=False)
class SystemMessage:
    """Facts for the subscribers of a topic. They are the body, or the `data` of an `event`."""

    topic: str
    facts: Facts
    event: Facts | None = None

    def entry(self, facts: Facts) -> Entry:
        """The message with the facts that a client may see."""
        body = facts if self.event is None else {**self.event, "data": facts}
        block = _JSON if self.event is None else _CLOUDEVENT
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        return Envelope(f"/topic/{self.topic}", block, persistent=False), text.encode()


class SystemPublisher(Protocol):
    """Publishes messages, or delivers them to one subscription."""

    def publish(self, entries: list[Entry]) -> None: ...
    def deliver(self, subscription: Receiving, entries: list[Entry]) -> None: ...


class Rights(Protocol):
    """Decides what clients are shown. A principal is that of a subscription."""

    def shown(self, principal: Any, topic: str, facts: Facts) -> Facts | None:
        """The facts of a message, or a part of them, that a client may see; None for nothing."""

    def may_subscribe(self, principal: Any, topic: str) -> bool:
        """Return whether a client may have a subscription to a topic."""

    def owner(self, user: str) -> object:
        """The principal of a durable subscription, by the name of its user."""


class SystemMessages:
    """Publishes and delivers messages of system topics."""

    def __init__(self, broker: Broker, publisher: SystemPublisher, rights: Rights) -> None:
        self._broker = broker
        self._publisher = publisher
        self._rights = rights

    def publish(self, messages: Iterable[SystemMessage]) -> None:
        """Send messages to all that are subscribed and may see them, or a part of them."""
        for_all: list[Entry] = []
        for_each: dict[Receiving, list[Entry]] = {}
        for message in messages:
            shown = {one: self._shown(one, message) for one in self._subscriptions(message.topic)}
            if all(facts is message.facts for facts in shown.values()):
                for_all.append(message.entry(message.facts))
                continue
            for subscription, facts in shown.items():
                if facts is not None:
                    for_each.setdefault(subscription, []).append(message.entry(facts))
        if for_all:
            self._publisher.publish(for_all)
        for subscription, entries in for_each.items():
            self._publisher.deliver(subscription, entries)

    def deliver(self, subscription: Subscription, messages: Iterable[SystemMessage]) -> None:
        """Send messages to one subscription, as far as its client may see them."""
        shown = ((message, self._shown(subscription, message)) for message in messages)
        entries = [message.entry(facts) for message, facts in shown if facts is not None]
        if entries:
            self._publisher.deliver(subscription, entries)

    def _shown(self, subscription: Receiving, message: SystemMessage) -> Facts | None:
        if isinstance(subscription, NamedSubscription):
            principal = self._rights.owner(subscription.terms.owner)
        else:
            principal = subscription.principal
        facts = message.facts
        if message.event is None or "snapshot" not in message.event:
            return self._rights.shown(principal, message.topic, facts)
        if not self._rights.may_subscribe(principal, message.topic):
            return None
        items = [self._rights.shown(principal, message.topic, one) for one in facts["items"]]
        return {**facts, "items": [one for one in items if one is not None]}

    def _subscriptions(self, topic: str) -> Iterator[Receiving]:
        match = self._broker.destinations.topics.match(topic)
        for group in match.fanout_groups:
            yield from group.members
        yield from match.singles
        yield from match.named
