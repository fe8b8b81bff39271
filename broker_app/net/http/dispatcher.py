"""The dispatcher: finds the endpoint of a request, identifies its client, and sends the reply."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from broker_app.base.json_text import PIECE
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.credentials import Credentials
from broker_app.net.http.idempotency import IdempotencyStore
from broker_app.net.http.large_body import as_it_is, parts_in_turns
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import NO_CONTENT, Header, Reply, problem_reply
from broker_app.net.http.requests import Departed, Receive, Request, Scope, Send
from broker_app.net.http.routing import Router, raw_path_of
from broker_app.net.http.tracing import trace_of
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.rules.event import REST

_log = logging.getLogger(__name__)
_NO_STORE: Header = (b"cache-control", b"no-store")
#: codes of refusals by a broker whose engine has ended: another one may serve
_ENDED: Final = ("not-active", "store-unavailable")


class Dispatcher:
    """Answers HTTP requests by endpoints, which the first of `routers` finds that covers the path, or the
    first of all. `request_id` returns the header of the next reply, `idempotency` keeps replies, and
    `successor` returns which broker serves instead of this one; None if that is not known.
    """

    def __init__(
        self,
        routers: Sequence[Router],
        credentials: Credentials,
        access: Access,
        limits: RestLimits,
        actions: OperatorActions,
        request_id: Callable[[], Header],
        *,
        behind_tls: bool,
        idempotency: IdempotencyStore | None = None,
        state: BrokerState | None = None,
        successor: Callable[[], Awaitable[Refused | None]] | None = None,
    ) -> None:
        self._state = state
        self._successor = successor
        self._routers = routers
        self._credentials = credentials
        self._access = access
        self._limits = limits
        self._actions = actions
        self._request_id = request_id
        self._behind_tls = behind_tls
        self._idempotency = idempotency
        #: bytes of bodies that are being received
        self.uploads = Shares(lambda: limits.max_uploading_bytes, "bytes of bodies that are being received")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send, self._access, self._limits, self.uploads, self._actions)
        own = [self._request_id()]
        trace_id = None
        if trace := trace_of(request.headers):
            own.append((b"traceparent", trace[0]))
            trace_id = trace[1]
        request.reply_headers = own
        try:
            reply = await self._answer(request, scope)
        except Departed:
            return
        except Refused as refused:
            reply = problem_reply(await self._with_successor(refused), trace_id)
        except Exception:
            _log.exception("request %s failed", own[0][1].decode())
            reply = problem_reply(Refused("internal", "the node failed; its log has the details"), trace_id)
        if reply is not None:
            await send_reply(request, reply)

    async def _with_successor(self, refused: Refused) -> Refused:
        """A refusal with the addresses of the broker that serves instead of this one, if there is one."""
        if self._successor is None or refused.code not in _ENDED or "active" in refused.facts:
            return refused
        found = await self._successor()
        if found is None:
            return refused
        return Refused(refused.code, f"{refused.detail}; {found.detail}", **{**found.facts, **refused.facts})

    async def _answer(self, request: Request, scope: Scope) -> Reply | None:
        raw_path = raw_path_of(scope)
        router = next((router for router in self._routers if router.covers(raw_path)), self._routers[0])
        if request.method == "OPTIONS":
            allowed = ", ".join(router.methods(raw_path))
            return Reply(204, headers=((b"allow", allowed.encode()),))
        match = router.find(request.method, raw_path)
        if not match.operation.open:
            connection_info = ConnectionInfo.of_scope(REST, scope, behind_tls=self._behind_tls)
            certified = scope.get("mom.certified", ())
            identity = await self._credentials.identify(request, connection_info.address or "", certified)
            request.client, request.changes = Client(identity, connection_info), match.operation.changes
            if match.operation.changes:
                self._access.check_may_change(request.client)
            if self._state is not None and match.operation.refused_while and not identity.is_of_console:
                self._state.check(match.operation.refused_while)
        request.name, request.owner = request.choose_name(match.name, match.route.parameter), match.owner
        endpoint, key = match.operation.endpoint, request.idempotency_key
        if key is None or self._idempotency is None or not match.operation.idempotent:
            return await endpoint(request)
        return await self._idempotency.answer(request, key, match.route.words, endpoint)

    def owns(self, scope: Scope) -> bool:
        """True if an HTTP request is answered here."""
        raw_path = raw_path_of(scope)
        return any(router.owns(scope["method"], raw_path) for router in self._routers)


async def send_reply(request: Request, reply: Reply) -> None:
    """Send a whole reply with the headers of the request's own."""
    headers: list[Header] = [*request.reply_headers, *_extra(request, reply.headers)]
    if reply.content_type:
        headers.append((b"content-type", reply.content_type))
    if reply.status != NO_CONTENT.status:
        headers.append((b"content-length", b"%d" % reply.length))
    await request.send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body, pieces = reply.body, reply.pieces
    if request.method == "HEAD":
        body, pieces = b"", None
    elif len(body) > PIECE:
        body, pieces = b"", [as_it_is(body)]
    if pieces is not None:
        async for part in parts_in_turns(pieces):
            await request.send({"type": "http.response.body", "body": part, "more_body": True})
    await request.send({"type": "http.response.body", "body": body})


def _extra(request: Request, headers: Iterable[Header]) -> list[Header]:
    # Replies to POST are not cached anyway.
    return [*headers, _NO_STORE] if request.method != "POST" else list(headers)
