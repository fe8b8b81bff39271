"""Messages of system topics: each subscription is sent what its client may see of them.

While all may see all of a message it is published once for all; else it is delivered to each by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
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
#: (topic, facts) → the facts that are shown, or None
Viewer = Callable[[str, Facts], Facts | None]


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

    def kind(self, topic: str) -> str:
        """The topics that have the same viewers as a topic, by a name for all of them."""

    def viewer(self, principal: Any, topic: str) -> Viewer | None:
        """Return what makes of the facts of messages what a client may see of them, for all topics of the
        kind of `topic`; None if that is nothing."""

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
        viewers: dict[tuple[Receiving, str], Viewer | None] = {}
        for message in messages:
            topic, facts, kind = message.topic, message.facts, self._rights.kind(message.topic)
            shown: dict[Receiving, Facts | None] = {}
            for one in self._subscriptions(topic):
                if (one, kind) not in viewers:
                    viewers[one, kind] = self._viewer(one, topic)
                viewer = viewers[one, kind]
                shown[one] = viewer(topic, facts) if viewer is not None else None
            if all(seen is facts for seen in shown.values()):
                for_all.append(message.entry(facts))
                continue
            for subscription, seen in shown.items():
                if seen is not None:
                    for_each.setdefault(subscription, []).append(message.entry(seen))
        if for_all:
            self._publisher.publish(for_all)
        for subscription, entries in for_each.items():
            self._publisher.deliver(subscription, entries)

    def deliver(self, subscription: Subscription, messages: Iterable[SystemMessage]) -> None:
        """Send messages of a snapshot to one subscription, as far as its client may see them."""
        entries = []
        for message in messages:
            viewer = self._viewer(subscription, message.topic)
            seen = None if viewer is None else _seen(viewer, message)
            if seen is not None:
                entries.append(message.entry(seen))
        if entries:
            self._publisher.deliver(subscription, entries)

    def _viewer(self, subscription: Receiving, topic: str) -> Viewer | None:
        if isinstance(subscription, NamedSubscription):
            return self._rights.viewer(self._rights.owner(subscription.terms.owner), topic)
        return self._rights.viewer(subscription.principal, topic)

    def _subscriptions(self, topic: str) -> Iterator[Receiving]:
        match = self._broker.destinations.topics.match(topic)
        for group in match.fanout_groups:
            yield from group.members
        yield from match.singles
        yield from match.named


def _seen(viewer: Viewer, message: SystemMessage) -> Facts | None:
    """The facts of a message of a snapshot that are shown: of its items, if it has any, those that are."""
    if message.event is None:
        return viewer(message.topic, message.facts)
    items = [viewer(message.topic, one) for one in message.facts["items"]]
    return {**message.facts, "items": [one for one in items if one is not None]}
