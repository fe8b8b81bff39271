"""Queues of bridges under addresses that need no name built for them: `bridges/{bridge}/queues/{name}`."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec

from broker_app.core.commands import CreateQueue
from broker_app.core.destination import parse
from broker_app.engine.client import EngineClient
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.destinations.status import QueueEndpoints
from broker_app.net.rest.features.bridges import no_such
from broker_app.net.rest.messages.browse import Browser
from broker_app.net.rest.messages.publish import RestPublisher
from broker_app.rules.event import BROWSE, SEND
from mom_client.storeandforward import Forwarded, forwarded


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty body."""


class BridgeQueues:
    """The same as below `queues`, for the queue here that waits for one of a remote broker."""

    def __init__(
        self,
        engine_client: EngineClient,
        policy: Callable[[], Policy],
        publisher: RestPublisher,
        browser: Browser,
        facts: QueueEndpoints,
    ) -> None:
        self._engine_client = engine_client
        self._policy = policy
        self._publisher = publisher
        self._browser = browser
        self._facts = facts

    async def one(self, request: Request) -> Reply:
        """GET bridges/{bridge}/queues/{name}"""
        self._enter(request, BROWSE)
        return await self._facts.one(request)

    async def make(self, request: Request) -> Reply:
        """POST bridges/{bridge}/queues/{name}: as its first use would"""
        request.query(("queue",))
        await request.json(Nothing, required=False)
        found = self._enter(request, SEND)
        request.permitted(SEND, found.address)
        there = found.address in self._engine_client.engine.broker.destinations.queues
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(CreateQueue(self._engine_client.peer, found.address, pending_reply))
        await self._engine_client.answer(pending_reply)
        reply = await self._facts.of(request, found.address)
        place = f"/api/v1/bridges/{quote(found.broker, safe='')}/queues/{quote(found.queue)}"
        return reply._replace(
            status=200 if there else 201, headers=(*reply.headers, (b"location", place.encode()))
        )

    async def publish(self, request: Request) -> Reply:
        """POST bridges/{bridge}/queues/{name}/messages"""
        self._enter(request, SEND)
        return await self._publisher.to_queue(request)

    async def browse(self, request: Request) -> Reply:
        """GET bridges/{bridge}/queues/{name}/messages"""
        self._enter(request, BROWSE)
        return await self._browser.messages(request)

    def _enter(self, request: Request, right: str) -> Forwarded:
        """The queue that a request is about, which is one of a bridge; the client has the right to it."""
        try:
            found = forwarded(request.owner, request.name)
        except ValueError as error:
            raise invalid("path", str(error)) from None
        request.access.recheck(request.client, right, parse(found.address))
        if found.broker not in self._policy().bridges:
            raise no_such("bridge", found.broker, self._policy().bridges)
        request.name = found.name
        return found
