"""Messages of system topics: each subscription is sent what its client may see of them.

They are delivered to each subscription by itself. Published once for all, they would also reach one that
begins before they are carried out, and whose client may not see them.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.base.reply_types import Facts
from broker_app.core.broker import Broker
from broker_app.core.message import Envelope
from broker_app.core.model import NamedSubscription, Subscription

_JSON = b"content-type:application/json\n"
_CLOUDEVENT = b"content-type:application/cloudevents+json\n"

Entry = tuple[Envelope, bytes]
Receiving = Subscription | NamedSubscription
Delivery = tuple[Receiving, "SystemMessage"]
#: (topic, facts) → the facts that are shown, or None
Viewer = Callable[[str, Facts], Facts | None]


@dataclass(slots=True, eq=False)
class SystemMessage:
    """Facts for the subscribers of a topic. They are the body, or the `data` of an `event`. Those of a state,
    which is part of a snapshot, are a list of `items`."""

    topic: str
    facts: Facts
    event: Facts | None = None
    is_state: bool = False
    _whole: Entry | None = None

    def entry(self, facts: Facts) -> Entry:
        """The message with the facts that a client may see."""
        if facts is not self.facts:
            return self._made(facts)
        if self._whole is None:
            self._whole = self._made(facts)
        return self._whole

    def _made(self, facts: Facts) -> Entry:
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
    """Publishes and delivers messages of system topics, in order and in turns of the loop, since each
    subscription costs a look at its rights. `call_soon` calls a function in a later turn."""

    def __init__(
        self,
        broker: Broker,
        publisher: SystemPublisher,
        rights: Rights,
        call_soon: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._publisher = publisher
        self._rights = rights
        self._call_soon = call_soon
        self._deadline = Deadline(clock)
        #: what is left to be sent, by the call that asked for it
        self._waiting: deque[Iterator[Delivery]] = deque()
        #: calls of `publish` among them
        self._publishing = 0

    @property
    def is_publishing(self) -> bool:
        """True while subscribers wait for what was published."""
        return self._publishing > 0

    def publish(self, messages: Iterable[SystemMessage]) -> None:
        """Send messages to all that are subscribed and may see them, or a part of them."""
        self._publishing += 1
        self._add(self._published(messages))

    def deliver(self, subscription: Subscription, messages: Iterable[SystemMessage]) -> None:
        """Send messages of a snapshot to one subscription, as far as its client may see them."""
        self._add((subscription, message) for message in messages)

    def _published(self, messages: Iterable[SystemMessage]) -> Iterator[Delivery]:
        try:
            for message in messages:
                for subscription in list(self._subscriptions(message.topic)):
                    yield subscription, message
        finally:
            self._publishing -= 1

    def _add(self, deliveries: Iterator[Delivery]) -> None:
        self._waiting.append(deliveries)
        if len(self._waiting) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Send what a turn of the loop has time for."""
        self._deadline.begin()
        found: dict[Receiving, list[Entry]] = {}
        viewers: dict[tuple[Receiving, str], Viewer | None] = {}
        while self._waiting and not self._deadline.passed:
            try:
                delivery = next(self._waiting[0], None)
                if delivery is None:
                    self._waiting.popleft()
                else:
                    self._find(delivery, found, viewers)
            except Exception as error:
                internal_errors.note("the messages of system topics", error)
        for subscription, entries in found.items():
            self._publisher.deliver(subscription, entries)
        if self._waiting:
            self._call_soon(self._turn)

    def _find(
        self,
        delivery: Delivery,
        found: dict[Receiving, list[Entry]],
        viewers: dict[tuple[Receiving, str], Viewer | None],
    ) -> None:
        """Add the message that a subscription is sent to those that were `found`, unless it may see nothing
        of it. `viewers` are those of this turn: rights may change before the next."""
        subscription, message = delivery
        of = subscription, self._rights.kind(message.topic)
        if of not in viewers:
            viewers[of] = self._viewer(subscription, message.topic)
        viewer = viewers[of]
        seen = self._seen(viewer, message) if viewer is not None else None
        if seen is not None:
            found.setdefault(subscription, []).append(message.entry(seen))

    def _seen(self, viewer: Viewer, message: SystemMessage) -> Facts | None:
        """The facts of a message that are shown. Of a state those of its items; where none is, and the topic
        names what they are about, nothing is: the name shows that it exists."""
        if not message.is_state:
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
