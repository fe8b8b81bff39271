"""Browsers of a session: a SUBSCRIBE with `browser:true` shows what waits in a queue, and takes nothing.

The messages come in pages, each read between two batches; the next one is read when the client has taken what
is written. In a cluster those of the other brokers follow. Then comes a MESSAGE with `browser:end`, as in
ActiveMQ. The id stays in use until UNSUBSCRIBE.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination
from broker_app.core.inspection import browse
from broker_app.core.message import Message
from broker_app.core.model import Queue, Subscription
from broker_app.core.selectors.selector import Selector
from broker_app.features.cluster.pages import PageQuestion
from broker_app.net.policy.access import Client
from broker_app.net.stomp import rendering
from broker_app.net.stomp.conversation import OPEN, Conversation
from broker_app.net.stomp.flow_control import FlowControl
from broker_app.rules.event import BROWSE, READ
from mom_client.stomp.encode import escape
from mom_client.stomp.frame import MESSAGE
from mom_client.stomp.writes import in_writes

#: messages that are looked at for a page, and bytes that it has, about
_PAGE, _PAGE_BYTES = 200, 256 * 1024
#: the message-id of the end, which is no message: that of ActiveMQ
END_ID: Final = "0"

#: the parts of one: a large body is not copied
Frame = list[bytes]
_Cursor = tuple[int, int]


class _Browser(NamedTuple):
    client: Client
    destination: Destination
    selector: Selector | None
    subscription: Subscription


class _Page(NamedTuple):
    frames: list[Frame]
    #: where the next one begins; None at the end
    after: _Cursor | None


class Browsers:
    """The browsers of one session. They run one after the other."""

    __slots__ = (*("_conversation", "_flow_control", "_open", "_task", "_waiting", "_writable"),)

    def __init__(self, conversation: Conversation, flow_control: FlowControl) -> None:
        self._conversation = conversation
        self._flow_control = flow_control
        #: by id, also those that have shown everything
        self._open: dict[str, _Browser] = {}
        self._waiting: list[_Browser] = []
        self._task: asyncio.Task[None] | None = None
        #: set when the client takes data again; None while nothing waits for that
        self._writable: asyncio.Event | None = None

    def __contains__(self, id: str) -> bool:
        return id in self._open

    def begin(
        self, client: Client, id: str, destination: Destination, selector: Selector | None, ack: str
    ) -> None:
        """Show what waits in a queue. Raises Refused."""
        sessions, peer = self._conversation.sessions, self._conversation.peer
        for right in (BROWSE, READ):
            sessions.access.check(client, right, destination)
        if id in peer.subscriptions or id in self._open:
            raise Refused("conflict", f"subscription id {id!r} is already in use on this connection")
        most = sessions.engine.broker.turn.limits.subscriptions_per_peer
        if len(peer.subscriptions) + len(self._open) >= most:
            raise Refused("too-many", f"a connection may have {most} subscriptions; end some first")
        subscription = Subscription(peer, id, destination.address, ack, 1, 0, None)
        subscription.queue = Queue(destination.address, durable=True)  # until this broker has one
        browser = self._open[id] = _Browser(client, destination, selector, subscription)
        self._waiting.append(browser)
        if self._task is None:
            self._task = sessions.run(self._run())

    def end(self, id: str) -> None:
        """End a browser, whether it has shown everything or not."""
        del self._open[id]

    def uncongested(self) -> None:
        """The client takes data again."""
        if self._writable is not None:
            self._writable.set()

    def close(self) -> None:
        """End all browsers."""
        self._open.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                browser = self._waiting.pop(0)
                try:
                    await self._show(browser)
                except Refused as refusal:
                    if self._open.get(browser.subscription.id) is browser:  # else it has ended
                        del self._open[browser.subscription.id]
                        self._conversation.session.refuse(refusal)
        except Exception as error:
            self._conversation.session.failed(error)
        finally:
            self._task = None

    async def _show(self, browser: _Browser) -> None:
        """Write the pages of a browser, and its end. Raises Refused."""
        conversation = self._conversation
        pages = conversation.sessions.pages
        missing = set(pages.others()).difference(pages.linked()) if pages is not None else set[str]()
        async with aclosing(self._pages(browser, missing)) as written:
            async for frames in written:
                if self._open.get(browser.subscription.id) is not browser or conversation.state != OPEN:
                    return
                conversation.frames_out += len(frames)
                for part in in_writes(chain.from_iterable(frames)):
                    conversation.write(part)

    async def _pages(self, browser: _Browser, missing: set[str]) -> AsyncGenerator[list[Frame], None]:
        """The frames of a browser, a page at a time: those of this broker, then those of the others of its
        cluster. `missing` are the brokers that do not answer. Raises Refused."""
        conversation, after = self._conversation, None
        while True:
            await self._check(browser)
            find, read = partial(self._following, browser, after), partial(self._page, browser)
            async with conversation.sessions.requests.read_in_turn(find, _stored, read) as page:
                frames, after = page
            yield frames
            if after is None:
                break
        pages = conversation.sessions.pages
        for broker in pages.linked() if pages is not None else ():
            async for frames in self._pages_of(browser, broker, missing):
                yield frames
        yield [[self._end_of(browser, sorted(missing))]]

    async def _pages_of(
        self, browser: _Browser, broker: str, missing: set[str]
    ) -> AsyncGenerator[list[Frame], None]:
        """The frames of another broker's messages; it is `missing` when it does not answer. Raises
        Refused."""
        conversation, subscription = self._conversation, browser.subscription
        pages = conversation.sessions.pages
        assert pages is not None
        where = json.dumps({"selector": browser.selector.text}) if browser.selector is not None else ""
        question = PageQuestion(address=subscription.address, limit=_PAGE, where=where)
        line = f"mom-broker:{escape(broker)}\n".encode()
        while True:
            await self._check(browser)
            try:
                page = await pages.ask(broker, question)
            except Refused as refusal:
                if refusal.code != "not-found":
                    missing.add(broker)
                return
            masks = conversation.sessions.access.masks_of(browser.client)
            messages = (row.message(line) for row in page.rows)
            found = ((message, masks.shown(browser.destination.address, message)) for message in messages)
            yield [
                conversation.renderer.browsed(subscription, seen)
                for message, seen in found
                # The other broker, which knows no client, has matched the selector with the whole message.
                if (self._wants(browser, seen) if seen is not message else self._is_alive(message))
            ]
            if page.next is None:
                return
            question = msgspec.structs.replace(question, after=page.next, tag=page.tag)

    async def _check(self, browser: _Browser) -> None:
        """Wait until the client takes data, and check its rights again. Raises Refused."""
        while self._flow_control.stuck_since:
            self._writable = asyncio.Event()
            await self._writable.wait()
        access = self._conversation.sessions.access
        for right in (BROWSE, READ):
            access.recheck(browser.client, right, browser.destination)

    def _following(self, browser: _Browser, after: _Cursor | None) -> Sequence[browse.Item]:
        """The messages of the next page, and the one behind it."""
        broker = self._conversation.sessions.engine.broker
        return browse.browse(broker, browser.subscription.address, after=after, limit=_PAGE + 1) or ()

    def _page(self, browser: _Browser, found: Sequence[browse.Item], most: int) -> _Page:
        """The next messages, of which `most` are read. Raises NotLoaded when these have to be fetched, and
        NoSuchPosition or LeftMemory if one was removed since it was found."""
        engine, renderer = self._conversation.sessions.engine, self._conversation.renderer
        subscription, frames, size = browser.subscription, list[Frame](), 0
        queue = engine.broker.destinations.queues.get(subscription.address)
        if not found or queue is None:
            return _Page(frames, None)
        masks = self._conversation.sessions.access.masks_of(browser.client)
        subscription.queue = queue
        stored = _stored(found)[:most]
        records = iter(engine.records(stored) if stored else ())
        for shown, item in enumerate(found[:_PAGE]):
            record = next(records, None) if item.message is None else b""
            if record is None:
                return _Page(frames, found[shown - 1].cursor)
            message = browse.message_of(item) or _message_of(queue, item, record)
            message = masks.shown(browser.destination.address, message)
            if self._wants(browser, message):
                frames.append(renderer.browsed(subscription, message))
                size += len(message.body) + message.envelope.overhead_bytes
            if size >= _PAGE_BYTES and item is not found[-1]:
                return _Page(frames, item.cursor)
        return _Page(frames, found[_PAGE - 1].cursor if len(found) > _PAGE else None)

    def _wants(self, browser: _Browser, message: Message) -> bool:
        """Return whether a message is shown: it has not expired, and the selector matches."""
        ids = self._conversation.sessions.engine.broker.turn.ids
        matches = browser.selector is None or browser.selector.matches(message, ids)
        return matches and self._is_alive(message)

    def _is_alive(self, message: Message) -> bool:
        return not 0 < message.expires_ms <= self._conversation.sessions.engine.broker.turn.now_ms

    def _end_of(self, browser: _Browser, missing: list[str]) -> bytes:
        conversation, id = self._conversation, browser.subscription.id
        named = [] if id in conversation.renderer.nameless else [("subscription", id)]
        address = browser.destination.address
        headers = [*named, ("message-id", END_ID), ("destination", address), ("browser", "end")]
        if missing:
            headers.append(("not-shown", ",".join(missing)))
        return rendering.answer(MESSAGE, headers, version=conversation.version)


def _stored(found: Sequence[browse.Item]) -> list[int]:
    """The positions of the messages of the next page that are not in memory."""
    return [item.position for item in found[:_PAGE] if item.message is None]


def _message_of(queue: Queue, item: browse.Item, record: bytes) -> Message:
    """A message whose body was read from the journal."""
    message = queue.reader.message(record, item.position)
    message.attempts = item.attempts
    return message
