"""Publishing one message: the body is the message, headers say the rest."""

from __future__ import annotations

from urllib.parse import quote

from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.message import Message
from broker_app.net import access
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.envelopes import Envelopes
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.refusals import Refusal
from broker_app.net.rest.replies import JSON, Header, Reply
from broker_app.net.rest.requests import Request, truth

# What a waiting command costs in memory beside the body.
COMMAND_BYTES = 500


class Publisher:
    """Endpoints `…/messages`."""

    MAX_CACHED = 1_024

    def __init__(self, desk: Desk, envelopes: Envelopes, limits: RestLimits) -> None:
        self._desk = desk
        self._envelopes = envelopes
        self._limits = limits
        self._ids = desk.engine.broker.ids
        self._targets: dict[str, tuple[Destination, bytes]] = {}

    async def to_queue(self, request: Request) -> Reply:
        """POST queues/{name}/messages"""
        request.query(("queue",))
        destination, location = self.target(request, "/queue/" + request.name)
        message = await self._publish(request, destination)
        message_id = self._ids.of(message)
        return _created(message, message_id, 1, ((b"location", location % message_id),))

    async def to_topic(self, request: Request) -> Reply:
        """POST topics/{name}/messages"""
        query = request.query(("topic", "mandatory"))
        destination, _ = self.target(request, "/topic/" + request.name)
        looks, singles = self._desk.engine.broker.topics.match(destination.name)
        copies = sum(len(look.members) for look in looks) + len(singles)
        if truth(query, "mandatory") and not copies:
            raise Refusal("no-route", f"nobody is subscribed to {destination.address}")
        message = await self._publish(request, destination)
        return _created(message, self._ids.of(message), copies, ())

    def target(self, request: Request, address: str) -> tuple[Destination, bytes]:
        """Where a request wants to send to, and the address of a message there (with a place for its id).
        Raises Refused for a bad name or a missing right."""
        target = self._targets.get(address)
        if target is None:
            destination = parse(address)
            where = f"?queue={quote(destination.name, safe='')}".replace("%", "%%")
            target = destination, b"/api/v1/messages/%b" + where.encode()
            if len(self._targets) >= self.MAX_CACHED:
                self._targets.clear()
            self._targets[address] = target
        access.check(request.identity, access.SEND, target[0])
        return target

    async def _publish(self, request: Request, destination: Destination) -> Message:
        desk = self._desk
        envelope = self._envelopes.of_request(destination.address, request.headers)
        if desk.engine.full:
            await desk.wait_relieved()
        body = await request.body(self._limits.max_body_bytes)
        ticket = desk.ticket()
        desk.submit(c.Publish(desk.peer, [(envelope, body, ticket)]), len(body) + COMMAND_BYTES)
        message = (await desk.answer(ticket))[0]
        assert message is not None, "a detailed peer gets the message"
        return message


def _created(message: Message, message_id: bytes, copies: int, headers: tuple[Header, ...]) -> Reply:
    # After the commit, what is recorded is on the disk.
    stored = b"synced" if message.recorded else b"memory"
    body = b'{"id":"%b","seq":%d,"stored":"%b","copies":%d}' % (message_id, message.position, stored, copies)
    return Reply(201, JSON, body, headers)
