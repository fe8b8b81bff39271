"""Connections over HTTP: lists, events, draining and closing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from broker_app.base.audit_actions import CONNECTION_CLOSED, CONNECTION_DRAINED
from broker_app.base.refused import Refused
from broker_app.engine.client import EngineClient
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.stomp.connections import MAX_DRAIN_S, MAX_REASON, Connections
from broker_app.net.stomp.session import StompSession
from broker_app.telemetry.client_events import MAX_EACH


class CloseRequest(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = "an operator ended the connection"


class DrainRequest(CloseRequest, forbid_unknown_fields=True):
    #: seconds that the client has to settle what it holds
    within_s: float = 30.0


#: the connections of a list: open ones, or those that ended within the day
OPEN, CLOSED = STATES = ("open", "closed")
_SORTABLE = (
    "number", "user", "client", "transport", "protocol", "since", "bytes_in", "bytes_out", "frames_in",
    "frames_out", "in_rate", "out_rate", "subscriptions", "unsettled", "idle_s", "slow",
)  # fmt: skip
MAX_FLAPPING = 100


class ConnectionEndpoints:
    """Endpoints `connections…`. Where there are rules, those who are no
    administrators see only their own connections."""

    def __init__(self, engine_client: EngineClient, connections: Connections, limits: RestLimits) -> None:
        self._engine_client = engine_client
        self._connections = connections
        self._max_page = limits.max_page
        self._open: Listing[StompSession] = Listing(
            connections.members, {}, limits.max_page, matches=_matches(_texts_of_open),
            sortable=_SORTABLE, sort="number", last="number",
        )  # fmt: skip
        self._closed: Listing[dict[str, object]] = Listing(
            {name: _member(name) for name in connections.members}, {}, limits.max_page,
            matches=_matches(_texts_of_closed), sortable=("number", "user", "since", "closed_at"),
            sort="-closed_at", last="number",
        )  # fmt: skip

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_connections": self.page,
            "get_connection": self.one,
            "close_connection": self.close,
            "list_connection_events": self.events,
            "drain_connection": self.drain,
        }

    async def page(self, request: Request) -> Reply:
        """GET connections: oldest first, or by `sort`; closed ones with `state=closed`."""
        query = request.query(
            ("limit", "after", "sort", "fields", "state", "filter", "user", "client", "address")
        )
        state = query.get("state", OPEN)
        if state not in STATES:
            raise unknown("query/state", state, STATES, "state")
        sees_all = request.access.is_unruled(request.client.identity)
        if not sees_all and query.get("user", request.user) != request.user:
            raise _not_yours()
        seen = self._seen(request, state, all_of_them=sees_all)
        listing: Listing[Any] = self._open if state == OPEN else self._closed
        items, following, total = await listing.page_of_many(seen, query)
        totals = {
            "all": len(seen),
            "flapping": self._connections.flapping()[:MAX_FLAPPING] if sees_all else [],
            "complete": sees_all,
        }
        return json_reply({"items": items, "next": following, "approx_total": total, **totals})

    def _seen(self, request: Request, state: str, *, all_of_them: bool) -> list[Any]:
        """The sessions, or the last facts of ended ones, that the client may see."""
        if state == OPEN:
            return [one for one in self._connections.sessions() if all_of_them or is_own(request, one)]
        access, identity = request.access, request.client.identity
        return [
            facts
            for facts in self._connections.gone()
            if all_of_them or access.has_all_rights_of(identity, facts["user"])
        ]

    async def one(self, request: Request) -> Reply:
        """GET connections/{id}; also of one that has ended within the day"""
        request.query()
        session = self._connections.find(request.name)
        if session is None:
            return json_reply(self._connections.details_of_gone(self._gone(request)))
        self._check_seen(request, session)
        return json_reply(self._connections.details(session))

    async def events(self, request: Request) -> Reply:
        """GET connections/{id}/events: what happened to a client, the newest first"""
        limit = whole_number(request.query(("limit",)), "limit", MAX_EACH, 1, self._max_page)
        session = self._connections.find(request.name)
        if session is not None:
            self._check_seen(request, session)
        else:
            self._gone(request)
        visit = self._connections.client_events.find(request.name)
        items = self._connections.events(visit) if visit is not None else []
        total = len(items) + (visit.dropped if visit is not None else 0)
        return json_reply({"items": items[:limit], "next": None, "approx_total": total})

    async def close(self, request: Request) -> Reply:
        """DELETE connections/{id}: for its user and administrators; the client gets the reason."""
        request.query()
        body = await request.json(CloseRequest, required=False)
        session = self._to_end(request, body)
        self._connections.close(session, body.reason, request.user)
        request.audit(CONNECTION_CLOSED, request.name, user=session.user, reason=body.reason)
        return NO_CONTENT

    async def drain(self, request: Request) -> Reply:
        """POST connections/{id}/drain: it gets nothing new, and ends when it has settled what it holds."""
        request.query()
        body = await request.json(DrainRequest, required=False)
        session = self._to_end(request, body)
        if not 0 <= body.within_s <= MAX_DRAIN_S:
            raise invalid("/within_s", f"must be from 0 to {MAX_DRAIN_S:g} seconds", body.within_s)
        self._connections.drain(session, body.reason, body.within_s, request.user)
        request.audit(
            CONNECTION_DRAINED, request.name, user=session.user, reason=body.reason, within_s=body.within_s
        )
        return json_reply(self._connections.facts(session), status=202)

    def _to_end(self, request: Request, body: CloseRequest) -> StompSession:
        """The connection that is to end for a reason. Raises Refused."""
        session = self._connections.find(request.name)
        if session is None:
            raise self._unknown(request.name)
        if not is_own(request, session) and not request.is_admin:
            raise Refused(
                "not-allowed", "only administrators can end connections of other users", right="close"
            )
        if not 0 < len(body.reason) <= MAX_REASON or not body.reason.isprintable():
            raise invalid("/reason", f"must be a line of 1 to {MAX_REASON} printable characters")
        return session

    def _check_seen(self, request: Request, session: StompSession) -> None:
        if not is_own(request, session) and not request.access.is_unruled(request.client.identity):
            raise _not_yours()

    def _gone(self, request: Request) -> dict[str, object]:
        """The last facts of a connection that has ended. Raises Refused."""
        visit = self._connections.client_events.find(request.name)
        if visit is None or visit.facts is None:
            raise self._unknown(request.name)
        own = request.access.has_all_rights_of(request.client.identity, visit.caller.user)
        if not own and not request.access.is_unruled(request.client.identity):
            raise _not_yours()
        return dict(visit.facts)

    def _unknown(self, id: str) -> Refused:
        visit = self._connections.client_events.find(id)
        if visit is not None and visit.facts is not None:
            return Refused("not-found", f"connection {id[:40]!r} ended at {visit.facts['closed_at']}")
        return Refused("not-found", f"there is no connection {id[:40]!r}, and none has ended within a day")


class Texts(NamedTuple):
    """The texts that a search compares."""

    user: str
    client: str
    address: str
    all: str


def _texts_of_open(session: StompSession) -> Texts:
    transport, _, address = session.peer_name.partition(" ")
    client = session.client.connection_info.client or "" if session.client is not None else ""
    protocol = f"STOMP {session.conversation.version} {transport}"
    others = session.peer.connection, protocol, session.service or ""
    return _texts(session.user, client, address, *others)


def _texts_of_closed(facts: Mapping[str, Any]) -> Texts:
    protocol = f"{facts['protocol']} {facts['transport']}"
    others = facts["id"], protocol, facts["service"] or ""
    return _texts(facts["user"], facts["client"], facts["address"] or "", *others)


def _texts(user: str, client: str, address: str, *others: str) -> Texts:
    return Texts(user, client, address, " ".join((user, client, address, *others)).casefold())


def _matches(texts: Callable[[Any], Texts]) -> dict[str, Callable[[Any, str], bool]]:
    """Questions about a text: each word of `filter` is somewhere in what a connection is called, `user` and
    `client` are those, and its `address` begins so."""

    def has_words(one: Any, sought: str) -> bool:
        text = texts(one).all
        return all(word in text for word in sought.casefold().split())

    return {
        "filter": has_words,
        "user": lambda one, user: texts(one).user == user,
        "client": lambda one, client: texts(one).client == client,
        "address": lambda one, address: texts(one).address.startswith(address),
    }


def _member(name: str) -> Callable[[dict[str, object]], Any]:
    return lambda facts: facts[name]


def is_own(request: Request, session: StompSession) -> bool:
    """True if a connection belongs to the user of the request. A token with limited rights owns only
    connections that it authenticated itself."""
    identity = request.client.identity
    return session.identity == identity or request.access.has_all_rights_of(identity, session.user)


def _not_yours() -> Refused:
    detail = "only administrators can see connections of other users"
    return Refused("not-allowed", detail, right="administer")
