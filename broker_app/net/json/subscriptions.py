"""Subscriptions of a JSON session: deliveries with credit, and notifications."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from broker_app.base.process.in_thread import LARGE_BYTES, in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.core.destination import Destination
from broker_app.core.message import Message
from broker_app.core.position import Position
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import ArrivalFeed
from broker_app.net.json import events
from broker_app.net.json.outbox import EventText, Outbox, whole_if_short
from broker_app.net.live_subscribers import LiveSubscriber
from broker_app.net.rest.messages import message_json

#: messages that are rendered before other subscriptions have their turn; less when they are large
RUN = 32


class JsonDeliveries:
    """Messages that are delivered, each with a receipt. `changed` is called with the bytes that wait more or
    less, `ended` when the broker has ended the subscription."""

    def __init__(
        self,
        id: str,
        destination: Destination,
        engine_client: EngineClient,
        outbox: Outbox,
        blocks: message_json.Blocks,
        changed: Callable[[int], None],
        ended: Callable[[JsonDeliveries, Refused], None],
        live: LiveSubscriber,
    ) -> None:
        self.id = id
        self.destination = destination
        self.live = live
        self._ended = ended
        self._engine_client = engine_client
        self._outbox = outbox
        self._blocks = blocks
        self._changed = changed
        self._waiting: deque[tuple[int, Message]] = deque()
        self._ids = engine_client.engine.broker.turn.ids
        #: the id of the subscription in the core, once it is open
        self.key = ""

    def open(self, user: str) -> str:
        """Take deliveries for a user from now on; returns the id of the subscription in the core."""
        self.key = self._engine_client.open_collection(self, user)
        return self.key

    def collect(self, tag: int, message: Message) -> None:
        """Take a delivery of the engine."""
        self._waiting.append((tag, message))
        self._changed(message.size)
        self._outbox.ask(self)

    def end(self, refusal: Refused) -> None:
        """The broker has ended the subscription."""
        self._ended(self, refusal)

    async def events(self) -> list[EventText]:
        """The next messages."""
        found: list[EventText] = []
        size = 0
        while self._waiting and len(found) < RUN and size < LARGE_BYTES:
            tag, message = self._waiting.popleft()
            self._changed(-message.size)
            size += message.size
            render = partial(self._event, tag, message, self._engine_client.leases.until_ms(tag))
            found.append(await in_thread_if_large(message.size, render))
            self._engine_client.leases.release_body(tag, message)
        if self._waiting:
            self._outbox.ask(self)
        if found:
            self.live.count(len(found))
        return found

    def _event(self, tag: int, message: Message, until_ms: int) -> EventText:
        receipt = self._engine_client.leases.receipt(tag)
        id = self._ids.of(message)
        item, *rest = message_json.received_pieces(message, id, receipt, until_ms, self._blocks)
        assert isinstance(item, bytes), "the members before the body"
        head = events.encode(events.Message(sub=self.id, destination=message.envelope.address))
        return whole_if_short([head[:-1], b",", item[1:], *rest])

    def close(self) -> None:
        """Send nothing more, and take no deliveries."""
        self._engine_client.close_collection(self.key)
        for _, message in self._waiting:
            self._changed(-message.size)
        self._waiting.clear()
        self._outbox.forget(self)


class Notifications:
    """Notifications of what arrives in a queue, of which nothing is taken."""

    def __init__(
        self,
        id: str,
        destination: Destination,
        outbox: Outbox,
        feed: Callable[[Callable[[], None]], ArrivalFeed],
        live: LiveSubscriber,
    ) -> None:
        self.id = id
        self.destination = destination
        self.live = live
        self._outbox = outbox
        self._feed = feed(self._wake)
        self._queue = destination.name
        outbox.ask(self)

    def _wake(self) -> None:
        self._outbox.ask(self)

    async def events(self) -> list[EventText]:
        """The notification of what arrived since the last one."""
        if not self._feed.is_due:
            return []
        found = await self._feed.take()
        if found.is_empty:
            return []
        self.live.count(1)
        event_id = str(self._feed.position(found.seq))
        arrived = events.Arrived(sub=self.id, queue=self._queue, event_id=event_id, **found._asdict())
        return [events.encode(arrived)]

    async def pending(self, after: Position, ref: str | None) -> bytes:
        """The messages that wait in the queue behind `after`, as an answer."""
        found = await self._feed.pending(after)
        return events.encode(events.Pending(ref=ref, queue=self._queue, **found._asdict()))

    def close(self) -> None:
        """Watch the queue no longer."""
        self._feed.close()
        self._outbox.forget(self)
