"""Browsing a queue, one message of it, and purging. Looking changes nothing and makes nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from broker_app.core import browse as look
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import parse
from broker_app.core.message import Message, MessageIds
from broker_app.core.moving import GONE, Moved
from broker_app.core.queue import Queue
from broker_app.net import access
from broker_app.net.rest import items
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.refusals import Refusal, invalid, unknown
from broker_app.net.rest.replies import JSON, NO_CONTENT, Reply, encode
from broker_app.net.rest.requests import Request, truth, whole_number

READY, UNSETTLED = look.READY, look.UNSETTLED
#: what `state` may say; `leased` is the word of those who receive by REST
_STATES = {"ready": READY, "unsettled": UNSETTLED, "leased": UNSETTLED}
#: how many messages a filter passes over before a page ends without being full
_MAX_SCANNED = 10_000
#: bodies read from the journal in one go, at first; then as many as the size of the last allows
_FIRST_RUN = 16
_MAX_RUN = 256

_Cursor = tuple[int, int]


class Shown(NamedTuple):
    """One message with its body, as far as a page wants it."""

    state: str
    attempts: int
    message: Message


class Page(NamedTuple):
    rows: list[Shown]
    next: _Cursor | None
    approx_total: int


class Browser:
    """Endpoints that look at messages."""

    def __init__(
        self,
        desk: Desk,
        journal_read: Callable[[Sequence[int]], list[bytes]],
        blocks: items.Blocks,
        limits: RestLimits,
    ) -> None:
        self._desk = desk
        self._read = journal_read
        self._blocks = blocks
        self._limits = limits
        self._ids = desk.engine.broker.ids

    @property
    def _broker(self) -> Broker:
        return self._desk.engine.broker

    # ------------------------------------------------------------------ endpoints

    async def messages(self, request: Request) -> Reply:
        """GET queues/{name}/messages"""
        query = request.query(("queue", "limit", "after", "state", "fields"))
        address = self._address(request, request.name)
        limit = whole_number(query, "limit", 50, 1, self._limits.max_page)
        after = _cursor(query["after"]) if "after" in query else None
        state = _state(query)
        fields = _fields(query)
        page = await self._desk.glance(lambda: self._page(address, after, limit, state))
        rows = [
            items.browsed(
                row.message,
                self._ids.of(row.message),
                row.state,
                self._limits.max_preview_bytes,
                self._blocks,
                row.attempts,
            )
            for row in page.rows
        ]
        if fields:
            rows = [items.only(row, fields) for row in rows]
        following = encode(_cursor_text(page.next) if page.next else None)
        tail = b'],"next":%b,"approx_total":%d}' % (following, page.approx_total)
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + tail)

    async def one(self, request: Request) -> Reply:
        """GET messages/{id}"""
        row = await self._find(request)
        message_id = self._ids.of(row.message)
        preview = self._limits.max_preview_bytes
        return Reply(
            200, JSON, items.browsed(row.message, message_id, row.state, preview, self._blocks, row.attempts)
        )

    async def body(self, request: Request) -> Reply:
        """GET messages/{id}/body: the exact bytes."""
        row = await self._find(request)
        facts = self._blocks.facts(row.message.envelope.block)
        return Reply(200, items.http_content_type(facts), row.message.body, items.UNTRUSTED)

    async def delete(self, request: Request) -> Reply:
        """DELETE messages/{id}: one that waits; what is handed out is its consumer's to settle."""
        row = await self._find(request)
        status = UNSETTLED
        if row.state == READY:
            ticket = self._desk.ticket()
            chosen = (c.Chosen(row.message.position),)
            address = self._address(request, request.query(("queue",))["queue"])
            self._desk.submit(c.Transfer(self._desk.peer, address, chosen, receipt=ticket))
            (answer,) = await self._desk.answer(ticket)
            status = cast("list[Moved]", answer)[0].status
        if status == UNSETTLED:
            raise Refusal("conflict", "the message is handed out; who holds it settles it")
        if status == GONE:
            raise Refusal("not-found", "the message has just gone")
        return NO_CONTENT

    async def purge(self, request: Request) -> Reply:
        """DELETE queues/{name}/messages?all=true"""
        query = request.query(("queue", "all"))
        address = self._address(request, request.name)
        if not truth(query, "all"):
            raise invalid("query/all", "must be true: everything that waits in the queue is removed")
        ticket = self._desk.ticket()
        self._desk.submit(c.Purge(self._desk.peer, address, ticket))
        await self._desk.answer(ticket)
        return NO_CONTENT

    def _address(self, request: Request, name: str) -> str:
        destination = parse("/queue/" + name)
        access.check(request.identity, access.RECEIVE, destination)
        return destination.address

    # ------------------------------------------------------------------ looking (between two batches)

    def _queue(self, address: str) -> Queue:
        queue = self._broker.queues.get(address)
        if queue is None:
            raise Refusal("not-found", f"there is no queue {address.removeprefix('/queue/')!r}")
        return queue

    def _page(self, address: str, after: _Cursor | None, limit: int, state: str | None) -> Page:
        queue = self._queue(address)
        # One more than wanted tells whether there is another page.
        scan = limit if state is None else _MAX_SCANNED
        found = look.browse(self._broker, address, after=after, limit=scan + 1) or []
        wanted: list[look.Item] = []
        last: look.Item | None = None
        for last in found[:scan]:
            if state is None or last.state == state:
                wanted.append(last)
                if len(wanted) == limit:
                    break
        rows = self._with_bodies(queue, wanted)
        if len(rows) < len(wanted):
            last = wanted[len(rows) - 1]
        more = last is not None and last is not found[-1]
        following = (last.priority, last.position) if last is not None and more else None
        return Page(rows, following, queue.depth + queue.unsettled)

    def _with_bodies(self, queue: Queue, wanted: Sequence[look.Item]) -> list[Shown]:
        """The messages with their bodies, paged ones read from the journal; fewer where a page is full
        of bytes."""
        rows: list[Shown] = []
        size = start = 0
        run = _FIRST_RUN
        while start < len(wanted):
            part = wanted[start : start + run]
            bodies = iter(self._load(queue, [item.position for item in part if item.message is None]))
            for item in part:
                message = item.message or next(bodies)
                size += len(message.body)
                rows.append(Shown(item.state, item.attempts, message))
            start += len(part)
            if size >= self._limits.max_page_bytes and start < len(wanted):
                break
            average = size // len(rows) + 1
            run = max(1, min(_MAX_RUN, (self._limits.max_page_bytes - size) // average))
        return rows

    def _load(self, queue: Queue, positions: Sequence[int]) -> Iterable[Message]:
        if not positions:
            return ()
        records = self._read(positions)
        return [
            queue.reader.message(record, position)
            for record, position in zip(records, positions, strict=True)
        ]

    async def _find(self, request: Request) -> Shown:
        """The message of an id in the queue that the query names."""
        query = request.query(("queue",))
        if "queue" not in query:
            raise invalid("query/queue", "is missing: a message is looked for in one queue")
        address = self._address(request, query["queue"])
        message_id = request.name
        return await self._desk.glance(lambda: self._search(address, message_id))

    def _search(self, address: str, message_id: str) -> Shown:
        queue = self._queue(address)
        position = MessageIds.position(message_id)
        if position is not None:
            row = self._in_memory(queue, message_id.encode(), position) or self._paged(
                queue, message_id, position
            )
            if row is not None:
                return row
        raise Refusal(
            "not-found",
            f"there is no message {message_id[:80]!r} in queue {address.removeprefix('/queue/')!r}",
        )

    def _in_memory(self, queue: Queue, message_id: bytes, position: int) -> Shown | None:
        of = self._ids.of
        for peer in self._broker.peers:
            for subscription, message in peer.unsettled.values():
                if subscription.queue is queue and _is(message, position) and of(message) == message_id:
                    return Shown(UNSETTLED, message.attempts, message)
        for lane in queue.lanes:
            for message in lane.in_memory():
                if _is(message, position) and of(message) == message_id:
                    return Shown(READY, message.attempts, message)
        return None

    def _paged(self, queue: Queue, message_id: str, position: int) -> Shown | None:
        for lane in queue.lanes:
            if position in lane.loading or next(lane.paged.after(position - 1), None) == position:
                message = next(iter(self._load(queue, [position])))
                if self._ids.of(message).decode() == message_id:
                    attempts = lane.attempts.get(position, 1) if position <= lane.mark else 0
                    return Shown(READY, attempts, message)
        return None


def _is(message: Message, position: int) -> bool:
    """Whether a message may have an id with this position; one with an id of its own may have any."""
    return message.position == position or message.explicit_id is not None


# ---------------------------------------------------------------------- the query


def _state(query: dict[str, str]) -> str | None:
    value = query.get("state")
    if value is not None and value not in _STATES:
        raise unknown("query/state", value, _STATES, "state")
    return _STATES[value] if value is not None else None


def _fields(query: dict[str, str]) -> tuple[str, ...]:
    if "fields" not in query:
        return ()
    fields = tuple(query["fields"].split(","))
    for field in fields:
        if field not in items.BROWSED_FIELDS:
            raise unknown("query/fields", field, items.BROWSED_FIELDS, "field")
    return fields


def _cursor_text(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(f"{cursor[0]}.{cursor[1]}".encode()).decode().rstrip("=")


def _cursor(text: str) -> _Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        priority, position = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(".")
        if not (priority.isascii() and priority.isdigit() and position.isascii() and position.isdigit()):
            raise ValueError(text)
        if len(priority) > 1 or len(position) > 18:
            raise ValueError(text)
        return int(priority), int(position)
    except (ValueError, binascii.Error):
        raise invalid("query/after", "is no cursor of an earlier page", text) from None
