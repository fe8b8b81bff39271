"""Publishing one message: the body is the message, headers say the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.message import Duplicate, Message
from broker_app.engine.client import EngineClient
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import JSON, Reply
from broker_app.net.http.requests import Request, boolean
from broker_app.net.rest.messages import cloudevents
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.rules.event import SEND

# The memory of a waiting command in addition to the body.
COMMAND_BYTES = 500


@dataclass(frozen=True, slots=True, eq=False)
class PublishTarget:
    """The target; `location` is the address of a message there, with a placeholder for its id, or empty."""

    destination: Destination
    location: bytes


class RestPublisher:
    """Endpoints `…/messages`."""

    MAX_CACHED = 1_024

    def __init__(self, engine_client: EngineClient, envelopes: Envelopes, limits: RestLimits) -> None:
        self._engine_client = engine_client
        self._envelopes = envelopes
        self._limits = limits
        self._ids = engine_client.engine.broker.turn.ids
        self._targets: dict[str, PublishTarget] = {}
        #: publishes a batch of CloudEvents
        self.publish_batch: Callable[[Request, Destination], Awaitable[Reply]]

    async def to_queue(self, request: Request) -> Reply:
        """POST queues/{name}/messages"""
        request.query(("queue",))
        target = self.permitted(request, "/queue/" + request.name)
        if request.media_type == cloudevents.BATCH:
            return await self.publish_batch(request, target.destination)
        return self.created(await self._publish(request, target), target)

    async def to_topic(self, request: Request) -> Reply:
        """POST topics/{name}/messages"""
        query = request.query(("topic", "mandatory"))
        target = self.permitted(request, "/topic/" + request.name)
        destination = target.destination
        copies = self._engine_client.engine.broker.destinations.topics.count(destination.name)
        if boolean(query, "mandatory") and not copies:
            raise Refused("no-route", f"{destination.address} has no subscription")
        if request.media_type == cloudevents.BATCH:
            return await self.publish_batch(request, destination)
        return self.created(await self._publish(request, target), target, copies)

    def permitted(self, request: Request, address: str) -> PublishTarget:
        """The destination of a request, if sending is permitted. Raises Refused."""
        target = self.target(address)
        request.access.check(request.client, SEND, target.destination)
        return target

    def target(self, address: str) -> PublishTarget:
        """The destination of a request. Raises Refused for an invalid name."""
        target = self._targets.get(address)
        if target is None:
            destination = parse(address)
            location = b""
            if destination.is_queue:
                where = f"?queue={quote(destination.name, safe='')}".replace("%", "%%")
                location = b"/api/v1/messages/%b" + where.encode()
            target = PublishTarget(destination, location)
            if len(self._targets) >= self.MAX_CACHED:
                self._targets.clear()
            self._targets[address] = target
        return target

    def created(self, message: Message, target: PublishTarget, copies: int = 1) -> Reply:
        """The reply to a message that was accepted."""
        message_id = self._ids.of(message)
        # After the commit, what is recorded is on the disk.
        stored = b"synced" if message.recorded else b"memory"
        body = b'{"id":"%b","seq":%d,"stored":"%b","copies":%d%b}' % (
            message_id,
            message.position,
            stored,
            copies,
            b',"duplicate":true' if isinstance(message, Duplicate) else b"",
        )
        headers = ((b"location", target.location % message_id),) if target.location else ()
        return Reply(201, JSON, body, headers)

    async def _publish(self, request: Request, target: PublishTarget) -> Message:
        engine_client = self._engine_client
        headers, address = request.headers, target.destination.address
        is_event = request.media_type == cloudevents.STRUCTURED
        if not is_event:
            envelope = self._envelopes.of_request(address, headers)
        if engine_client.engine.full:
            await engine_client.backpressure.wait()
        body = await request.body(self._limits.max_body_bytes)
        if request.idempotency is not None:
            headers = request.idempotency.with_dedup_id(headers)
        if is_event:
            read = partial(cloudevents.headers_and_body, headers, body)
            headers, body = await in_thread_if_large(len(body), read)
        if is_event or request.idempotency is not None:
            envelope = self._envelopes.of_request(address, headers)
        request.access.recheck(request.client, SEND, target.destination)
        pending_reply = engine_client.pending_reply()
        entries = [(envelope, body, pending_reply)]
        engine_client.submit(
            c.Publish(engine_client.peer, entries, request.user, request.client.record_address),
            len(body) + COMMAND_BYTES,
        )
        message = (await engine_client.answer(pending_reply))[0]
        assert message is not None, "a detailed peer gets the message"
        return message
