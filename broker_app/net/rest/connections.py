"""Connections and consumers over HTTP: who is there, and ending a connection."""

from __future__ import annotations

import msgspec

from broker_app.core.destination import parse
from broker_app.net import access
from broker_app.net.connections import MAX_CONSUMERS, MAX_REASON, Connections
from broker_app.net.login import Logins
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.refusals import Refusal, invalid
from broker_app.net.rest.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.rest.requests import Request, whole_number
from broker_app.net.stomp import StompSession
from broker_app.telemetry.statistics import consumer


class CloseRequest(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = "an operator ended the connection"


class ConnectionDesk:
    """Endpoints `connections…` and `queues/{name}/consumers`."""

    def __init__(self, desk: Desk, logins: Logins, connections: Connections, limits: RestLimits) -> None:
        self._desk = desk
        self._logins = logins
        self._connections = connections
        self._max_page = limits.max_page

    async def page(self, request: Request) -> Reply:
        """GET connections: oldest first"""
        query = request.query(("limit", "after", "user"))
        limit = whole_number(query, "limit", 100, 1, self._max_page)
        after = whole_number(query, "after", 0, 0, 10**15 - 1)
        found = self._connections.page(after, limit + 1, query.get("user"))
        following = str(found[limit - 1].number) if len(found) > limit else None
        items = [self._connections.facts(session) for session in found[:limit]]
        return json_reply({"items": items, "next": following, "approx_total": len(self._connections)})

    async def one(self, request: Request) -> Reply:
        """GET connections/{id}"""
        request.query()
        return json_reply(self._connections.details(self._find(request.name)))

    async def close(self, request: Request) -> Reply:
        """DELETE connections/{id}: its user's right, and an administrator's; the client is told why."""
        request.query()
        session = self._find(request.name)
        if session.user != request.identity.user and not self._logins.is_admin(request.identity):
            raise Refusal(
                "not-allowed", "connections of others are ended by administrators alone", right="close"
            )
        wanted = await request.json(CloseRequest, required=False)
        if not 0 < len(wanted.reason) <= MAX_REASON or not wanted.reason.isprintable():
            raise invalid("/reason", f"must be a line of 1 to {MAX_REASON} printable characters")
        self._connections.close(session, wanted.reason)
        return NO_CONTENT

    async def consumers(self, request: Request) -> Reply:
        """GET queues/{name}/consumers: in the order in which they came"""
        request.query(("queue",))
        destination = parse("/queue/" + request.name)
        access.check(request.identity, access.RECEIVE, destination)
        broker = self._desk.engine.broker
        queue = broker.queues.get(destination.address)
        if queue is None:
            raise Refusal("not-found", f"there is no queue {destination.name}")
        items = [consumer(broker, subscription) for subscription in queue.consumers[:MAX_CONSUMERS]]
        return json_reply({"items": items, "next": None, "approx_total": len(queue.consumers)})

    def _find(self, id: str) -> StompSession:
        session = self._connections.find(id)
        if session is None:
            raise Refusal("not-found", f"there is no connection {id[:40]!r}; it may have ended")
        return session
