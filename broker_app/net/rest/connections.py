"""Connections and consumers over HTTP: who is there, and ending a connection."""

from __future__ import annotations

import msgspec

from broker_app.net import acts
from broker_app.net.connections import MAX_CONSUMERS, MAX_REASON, Connections
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.refusals import Refusal, invalid
from broker_app.net.rest.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.rest.requests import Request, whole_number
from broker_app.net.stomp import StompSession
from broker_app.rules.event import BROWSE
from broker_app.telemetry.statistics import consumer


class CloseRequest(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = "an operator ended the connection"


class ConnectionDesk:
    """Endpoints `connections…` and `queues/{name}/consumers`. Where there are rules, those who are no
    administrators see their own connections alone."""

    def __init__(self, desk: Desk, connections: Connections, limits: RestLimits) -> None:
        self._desk = desk
        self._connections = connections
        self._max_page = limits.max_page

    async def page(self, request: Request) -> Reply:
        """GET connections: oldest first"""
        query = request.query(("limit", "after", "user"))
        limit = whole_number(query, "limit", 100, 1, self._max_page)
        after = whole_number(query, "after", 0, 0, 10**15 - 1)
        sees_all = request.access.is_unruled(request.client.identity)
        user = query.get("user", None if sees_all else request.user)
        if user != request.user and not sees_all:
            raise _not_yours()

        def fits(session: StompSession) -> bool:
            return user in (None, session.user) and (sees_all or _is_own(request, session))

        found = self._connections.page(after, limit + 1, fits)
        following = str(found[limit - 1].number) if len(found) > limit else None
        items = [self._connections.facts(session) for session in found[:limit]]
        total = len(self._connections) if sees_all else len(items)
        return json_reply({"items": items, "next": following, "approx_total": total})

    async def one(self, request: Request) -> Reply:
        """GET connections/{id}"""
        request.query()
        session = self._find(request.name)
        if not _is_own(request, session) and not request.access.is_unruled(request.client.identity):
            raise _not_yours()
        return json_reply(self._connections.details(session))

    async def close(self, request: Request) -> Reply:
        """DELETE connections/{id}: its user's right, and an administrator's; the client is told why."""
        request.query()
        wanted = await request.json(CloseRequest, required=False)
        session = self._find(request.name)
        if not _is_own(request, session) and not request.access.is_admin(request.client.identity):
            raise Refusal(
                "not-allowed", "connections of others are ended by administrators alone", right="close"
            )
        if not 0 < len(wanted.reason) <= MAX_REASON or not wanted.reason.isprintable():
            raise invalid("/reason", f"must be a line of 1 to {MAX_REASON} printable characters")
        self._connections.close(session, wanted.reason)
        request.tell(acts.CLOSED, "connections", request.name, user=session.user, told=wanted.reason)
        return NO_CONTENT

    async def consumers(self, request: Request) -> Reply:
        """GET queues/{name}/consumers: in the order in which they came"""
        request.query(("queue",))
        destination = request.permitted(BROWSE, "/queue/" + request.name)
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


def _is_own(request: Request, session: StompSession) -> bool:
    """Whether a connection is that of who asks: a token that lends a part of its owner's rights has none but
    those that came by itself."""
    identity = request.client.identity
    return session.identity == identity or request.access.is_wholly(identity, session.user)


def _not_yours() -> Refusal:
    detail = "connections of others are shown to administrators alone"
    return Refusal("not-allowed", detail, right="administer")
