"""Messages of system topics: each subscription is sent what its client may see of them.

They are delivered to each subscription by itself. Published once for all, they would also reach one that
begins before they are carried out, and whose client may not see them.
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
    """Delivers messages to one subscription."""

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
        found: dict[Receiving, list[Entry]] = {}
        viewers: dict[tuple[Receiving, str], Viewer | None] = {}
        for message in messages:
            topic, facts, kind = message.topic, message.facts, self._rights.kind(message.topic)
            whole: Entry | None = None
            for one in self._subscriptions(topic):
                if (one, kind) not in viewers:
                    viewers[one, kind] = self._viewer(one, topic)
                viewer = viewers[one, kind]
                seen = viewer(topic, facts) if viewer is not None else None
                if seen is facts:
                    whole = whole or message.entry(facts)
                    found.setdefault(one, []).append(whole)
                elif seen is not None:
                    found.setdefault(one, []).append(message.entry(seen))
        for subscription, entries in found.items():
            self._publisher.deliver(subscription, entries)

    def deliver(self, subscription: Subscription, messages: Iterable[SystemMessage]) -> None:
        """Send messages of a snapshot to one subscription, as far as its client may see them."""
        entries = []
        for message in messages:
            viewer = self._viewer(subscription, message.topic)
            seen = None if viewer is None else self._seen(viewer, message)
            if seen is not None:
                entries.append(message.entry(seen))
        if entries:
            self._publisher.deliver(subscription, entries)

    def _seen(self, viewer: Viewer, message: SystemMessage) -> Facts | None:
        """The facts of a message of a snapshot that are shown: of its items, if it has any, those that are.
        Where none is, and the topic names what they are about, nothing is: the name shows that it exists."""
        if message.event is None:
            return viewer(message.topic, message.facts)
        items = message.facts["items"]
        shown = [seen for seen in (viewer(message.topic, one) for one in items) if seen is not None]
        if items and not shown and self._rights.kind(message.topic).endswith(">"):
            return None
        return {**message.facts, "items": shown}

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
