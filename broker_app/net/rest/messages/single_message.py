"""One message: its facts, its bytes, why it is where it is, and its end."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from broker_app.base.audit_actions import MESSAGE_DELETED, QUEUE_READ
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.inspection import views
from broker_app.core.inspection.why import Reason, why
from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Queue
from broker_app.core.storage.transfers import GONE, TransferResult
from broker_app.engine.client import EngineClient
from broker_app.features.bridge.pipe_reports import (
    Forwarding,
)
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.masks.user_masks import Replacements
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import JSON, NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.destinations.propagation import LOCAL, propagation_of
from broker_app.net.rest.features.bridge_reason import with_bridge
from broker_app.net.rest.features.cluster_reason import with_cluster
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import READY, UNSETTLED, Shown, load, queue_of
from broker_app.net.rest.messages.browse_query import may_read
from broker_app.net.rest.node.cluster import ReadCluster
from broker_app.rules.event import BROWSE, MANAGE, READ

_Value = TypeVar("_Value")

DELAYED = "delayed"
_RANGE = re.compile(rb"bytes=([0-9]{0,12})-([0-9]{0,12})")
#: messages that are scanned to find one whose id does not contain its position
_MAX_SCANNED = 100_000
_QUEUES = "/queue/"


class MessageEndpoints:
    """Endpoints below `/messages/{id}`."""

    def __init__(
        self,
        engine_client: EngineClient,
        journal_read: JournalRead,
        blocks: message_json.Blocks,
        limits: RestLimits,
        forwarding: Forwarding,
        cluster: ReadCluster,
    ) -> None:
        self._engine_client = engine_client
        self._read = journal_read
        self._blocks = blocks
        self._limits = limits
        self._forwarding = forwarding
        self._cluster = cluster
        self._ids = engine_client.engine.broker.turn.ids

    @property
    def _broker(self) -> Broker:
        return self._engine_client.engine.broker

    async def one(self, request: Request) -> Reply:
        """GET messages/{id}"""
        address, row = await self._find(request, BROWSE, _pair)
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

    async def queue(self, request: Request) -> Reply:
        """GET messages/{id}/queue: where it is, of the queues that the client may browse"""
        request.query()
        message_id = request.name
        position = MessageIds.position(message_id)
        found = None if position is None else await self._queue_of(request, message_id, position)
        if found is None:
            raise Refused(
                "not-found",
                f"no queue that you may browse has a message {message_id[:80]!r}: it was consumed, deleted "
                "or moved",
            )
        return json_reply({"queue": found.removeprefix(_QUEUES)})

    async def _queue_of(self, request: Request, message_id: str, position: int) -> str | None:
        """The address of the queue of a message. Other tasks run in between."""
        queues = [address for address in self._broker.destinations.queues if address.startswith(_QUEUES)]
        visible = await request.access.visible(request.client, queues)
        left = deque(address for address in queues if address in visible)
        while left:
            look = partial(self._among, left, message_id, position)
            found = await self._in_turn(position, look)
            if found is not None:
                return found
        return None

    def _among(self, left: deque[str], message_id: str, position: int) -> str | None:
        """Look in queues for one slice of time, and take those that do not have the message from `left`. It
        is called again when a record had to be fetched."""
        until = time.perf_counter() + message_reader.SLICE_S
        while left and time.perf_counter() < until:
            address = left[0]
            is_there = address in self._broker.destinations.queues
            if is_there and self._look(address, message_id, position, _pair) is not None:
                return address
            left.popleft()
        return None

    async def why(self, request: Request) -> Reply:
        """GET messages/{id}/why"""
        address, row, reasons = await self._find(request, BROWSE, self._reasons)
        without = Replacements.of(row.message, _as_seen(request, address, row.message))
        shown = [
            {
                "code": reason.code,
                "sentence": without.text(reason.sentence),
                "facts": without.value(_with_times(reason.facts)),
            }
            for reason in reasons
        ]
        return json_reply({"id": request.name, "state": row.state, "reasons": shown})

    def _reasons(self, address: str, row: Shown) -> tuple[str, Shown, list[Reason]]:
        reasons = why(self._broker, address, row.message, time.time_ns() // 1_000_000)
        reasons = with_bridge(reasons, address, self._forwarding)
        queue = self._broker.destinations.queues.get(address)
        is_local = queue is not None and propagation_of(self._broker, queue) == LOCAL
        return address, row, with_cluster(reasons, address, self._cluster(), is_local=is_local)

    async def body(self, request: Request) -> Reply:
        """GET messages/{id}/body: the exact bytes."""
        address, row = await self._find(request, READ, _pair)
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
        address, row = await self._find(request, MANAGE, _pair)
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

    # ------------------------------------------------------------------ finding it (between two batches)

    async def _find(self, request: Request, right: str, then: Callable[[str, Shown], _Value]) -> _Value:
        """Return `then(address, message)` for the message of the request and its queue. Raises Refused
        without the right to that queue."""
        query = request.query(("queue",))
        if "queue" not in query:
            raise invalid("query/queue", "is missing: a message is looked for in one queue")
        address = request.permitted(right, "/queue/" + query["queue"]).address
        message_id = request.name
        position, found = MessageIds.position(message_id), None
        if position is not None:
            found = await self._in_turn(position, partial(self._look, address, message_id, position, then))
            if found is None:
                position = await self._scan(address, message_id.encode())
        if position is not None and found is None:
            found = await self._in_turn(position, partial(self._look, address, message_id, position, then))
        if found is None:
            name = address.removeprefix("/queue/")
            raise Refused("not-found", f"there is no message {message_id[:80]!r} in queue {name!r}")
        return found

    async def _in_turn(self, position: int, look: Callable[[], _Value]) -> _Value:
        """The result of `look`, which may read the message at a position."""
        there = (position,)
        async with self._engine_client.read_in_turn(lambda: there, list, lambda *_: look()) as found:
            return found

    async def _scan(self, address: str, message_id: bytes) -> int | None:
        """The position of a message whose id does not contain it, such as a dead letter. Other tasks run in
        between."""
        snapshot = await self._engine_client.inspect(
            lambda: message_reader.snapshot_queue(self._broker, queue_of(self._broker, address))
        )
        scanned, found = 0, None

        def see(message: Message) -> bool:
            nonlocal scanned, found
            scanned += 1
            if message.explicit_id == message_id:
                found = message.position
            return found is None and scanned < _MAX_SCANNED

        await message_reader.read_each(self._read, address, snapshot, see)
        return found

    def _look(
        self, address: str, message_id: str, position: int, then: Callable[[str, Shown], _Value]
    ) -> _Value | None:
        row = self._delayed(address, message_id, position)
        if row is None:
            queue = queue_of(self._broker, address)
            row = self._in_memory(queue, message_id.encode(), position)
            row = row or self._paged(queue, message_id, position)
        return None if row is None else then(address, row)

    def _delayed(self, address: str, message_id: str, position: int) -> Shown | None:
        schedule = self._broker.scheduler.schedules.get(address)
        if schedule is None or not schedule.due_of(position):
            return None
        message = schedule.reader.message(self._read([position])[0], position)
        return Shown(DELAYED, 0, message) if self._ids.of(message).decode() == message_id else None

    def _in_memory(self, queue: Queue, message_id: bytes, position: int) -> Shown | None:
        of = self._ids.of
        for state, messages in (
            (UNSETTLED, views.unsettled(self._broker, queue)),
            (READY, views.in_memory(queue)),
        ):
            for message in messages:
                if _is(message, position) and of(message) == message_id:
                    attempts = message.attempts
                    if not message.has_body:
                        (message,) = load(self._read, queue, [position])
                    return Shown(state, attempts, message)
        return None

    def _paged(self, queue: Queue, message_id: str, position: int) -> Shown | None:
        attempts = views.attempts_outside(queue, position)
        if attempts is None:
            return None
        message = load(self._read, queue, [position])[0]
        return Shown(READY, attempts, message) if self._ids.of(message).decode() == message_id else None


def _as_seen(request: Request, address: str, message: Message) -> Message:
    """A message without what masks hide from the client."""
    return request.access.masks_of(request.client).shown(address, message)


def _pair(address: str, row: Shown) -> tuple[str, Shown]:
    return address, row


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


def _is(message: Message, position: int) -> bool:
    """True if a message may have an id with this position; one with an id of its own may have any."""
    return message.position == position or message.explicit_id is not None


def _with_times(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts with their times as RFC 3339."""
    return {
        name.removesuffix("_ms"): message_json.rfc3339(value).decode() if name.endswith("_ms") else value
        for name, value in facts.items()
    }
