"""One message: its facts, its bytes, and its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from broker_app.base.audit_actions import MESSAGE_DELETED, QUEUE_READ
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.core.storage.transfers import GONE, TransferResult
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import JSON, NO_CONTENT, Reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import UNSETTLED, Shown
from broker_app.net.rest.messages.browse_query import may_read
from broker_app.net.rest.messages.single.message_finder import DELAYED, MessageFinder, pair
from broker_app.rules.event import BROWSE, MANAGE, READ

_Value = TypeVar("_Value")

_RANGE = re.compile(rb"bytes=([0-9]{0,12})-([0-9]{0,12})")


class MessageEndpoints:
    """Endpoints below `/messages/{id}`."""

    def __init__(
        self,
        engine_client: EngineClient,
        journal_read: JournalRead,
        blocks: message_json.Blocks,
        limits: RestLimits,
        finder: MessageFinder,
    ) -> None:
        self._engine_client = engine_client
        self._read = journal_read
        self._blocks = blocks
        self._limits = limits
        self._finder = finder
        self._ids = engine_client.engine.broker.turn.ids

    async def one(self, request: Request) -> Reply:
        """GET messages/{id}"""
        address, row = await self._find(request, BROWSE, pair)
        message_id = self._ids.of(row.message)
        preview = self._limits.max_preview_bytes
        seen = _as_seen(request, address, row.message)
        size = len(row.message.body)
        shown = message_json.browsed(
            seen, message_id, row.state, preview, self._blocks, row.attempts, size=size
        )
        if may_read(request, address):
            request.audit_read(QUEUE_READ, address)
        else:
            shown = message_json.only(shown, message_json.BROWSED_FIELDS - message_json.BODY_FIELDS)
        return Reply(200, JSON, shown)

    async def body(self, request: Request) -> Reply:
        """GET messages/{id}/body: the exact bytes."""
        address, row = await self._find(request, READ, pair)
        request.audit_read(QUEUE_READ, address)
        seen = _as_seen(request, address, row.message)
        content_type = message_json.http_content_type(self._blocks.facts(seen.envelope.block))
        whole = seen.body
        part = _range(request.header(b"range"), len(whole))
        if part is None:
            return Reply(200, content_type, whole, (*message_json.UNTRUSTED, (b"accept-ranges", b"bytes")))
        place = b"bytes %d-%d/%d" % (part.start, part.stop - 1, len(whole))
        return Reply(
            206,
            content_type,
            whole[part.start : part.stop],
            (*message_json.UNTRUSTED, (b"content-range", place)),
        )

    async def delete(self, request: Request) -> Reply:
        """DELETE messages/{id}: a waiting message; an unsettled one must be settled by its consumer."""
        address, row = await self._find(request, MANAGE, pair)
        status = UNSETTLED
        if row.state != UNSETTLED:
            pending_reply = self._engine_client.pending_reply()
            position = row.message.position
            # The record has the time when a delayed message is due, and so where it is.
            record = None
            if row.state == DELAYED:
                async with self._read.turn((position,)):
                    record = await self._read.repeat(partial(message_reader.record_of, self._read, position))
            chosen = (c.Chosen(position, record),)
            self._engine_client.submit(
                c.Transfer(self._engine_client.peer, address, chosen, receipt=pending_reply)
            )
            (answer,) = await self._engine_client.answer(pending_reply)
            status = cast("list[TransferResult]", answer)[0].status
        if status == UNSETTLED:
            raise Refused("conflict", "the message is handed out; who holds it settles it")
        if status == GONE:
            raise Refused("not-found", "the message has just gone")
        request.audit(MESSAGE_DELETED, request.name, destination=address)
        return NO_CONTENT

    async def _find(self, request: Request, right: str, then: Callable[[str, Shown], _Value]) -> _Value:
        """Return `then(address, message)` for the message of the request and its queue. Raises Refused
        without the right to that queue."""
        address = permitted_queue(request, right, request.query(("queue",)))
        return await self._finder.find(address, request.name, then)


def permitted_queue(request: Request, right: str, query: dict[str, str]) -> str:
    """The address of the queue that a query names. Raises Refused without one, or without the right to it."""
    if "queue" not in query:
        raise invalid("query/queue", "is missing: a message is looked for in one queue")
    return request.permitted(right, "/queue/" + query["queue"]).address


def _as_seen(request: Request, address: str, message: Message) -> Message:
    """A message without what masks hide from the client."""
    return request.access.masks_of(request.client).shown(address, message)


def _range(range_header: bytes | None, size: int) -> range | None:
    """The one stretch of bytes that the header Range asks for; None where the whole is to be sent: it asks
    for nothing, for several, or for what is not there, which a server may overlook."""
    match = _RANGE.fullmatch(range_header or b"")
    if match is None:
        return None
    first, last = match.groups()
    if first:
        part = range(int(first), min(int(last) + 1, size) if last else size)
    else:
        part = range(max(0, size - int(last or b"0")), size)
    return part or None
