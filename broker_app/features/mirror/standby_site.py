"""The web site of a standby: health, the list of brokers and the status of mirrors; all else is refused."""

from __future__ import annotations

import itertools
import secrets

from broker_app.base.asgi import Receive, Scope, Send
from broker_app.config import Config
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.refusals import page, refusal
from broker_app.net.auth.login import Logins
from broker_app.net.http.base_path import BasePath
from broker_app.net.http.credentials import Credentials
from broker_app.net.http.dispatcher import Dispatcher
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.proxy_headers import apply_proxy_headers
from broker_app.net.http.refusals import body_of, status_of
from broker_app.net.http.replies import Header, Reply, encode, json_reply, problem_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Router, raw_path_of, unprefixed
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.rest import openapi
from broker_app.net.rest.node.metrics import MetricsEndpoints
from broker_app.net.rest.node.mirror_status import STANDBY
from broker_app.net.rest.node.mirrors import MirrorEndpoints
from broker_app.net.stomp.session import VERSION
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_build, of_mirrors

#: of the page: no script, no frame, nothing from elsewhere
_CSP = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class StandbySite:
    """An ASGI application. `actions` records what operators do."""

    def __init__(self, mirror: Mirror, config: Config, logins: Logins, actions: OperatorActions) -> None:
        self._mirror = mirror
        self._name = config.name
        self._behind_tls = config.behind_tls
        self._base_path = BasePath(config.base_path)
        self._router = Router(
            openapi.PATHS,
            {
                "health_live": self._live,
                "health_ready": self._ready,
                "get_metrics": MetricsEndpoints(self._metrics).of_node,
                **MirrorEndpoints(mirror, mirror.failover_list()).handlers(),
            },
        )
        boot, numbers = secrets.token_hex(4), itertools.count(1)
        self._dispatcher = Dispatcher(
            (self._router,),
            Credentials(logins, Origins(config.known_hosts, config.allowed_origins)),
            Access(logins),
            RestLimits.of(config),
            actions,
            lambda: (b"request-id", b"%b-s%x" % (boot.encode(), next(numbers))),
            behind_tls=config.behind_tls,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._refuse_websocket(receive, send)
            return
        send = self._base_path.strip(scope, send)
        unprefixed(scope)
        if self._behind_tls:
            apply_proxy_headers(scope)
        if self._router.owns(scope["method"], raw_path_of(scope)):
            await self._dispatcher(scope, receive, send)
        else:
            await _send(send, self._refusal(scope), head=scope["method"] == "HEAD")

    def _metrics(self) -> Collected:
        """The metrics that a standby has."""
        yield from of_build(VERSION, self._name, STANDBY)
        yield from of_mirrors(self._mirror.status())

    async def _live(self, request: Request) -> Reply:
        """GET health/live: the process answers."""
        request.query()
        return json_reply({"status": "live"})

    async def _ready(self, request: Request) -> Reply:
        """GET health/ready: a standby is not."""
        request.query()
        raise refusal(self._mirror)

    def _refusal(self, scope: Scope) -> Reply:
        refused = refusal(self._mirror)
        accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        if b"text/html" not in accepts:
            return problem_reply(refused, None)
        # A browser would go to another host without the user's knowledge: the page has a link instead.
        headers = ((b"retry-after", b"1"), (b"content-security-policy", _CSP))
        return Reply(status_of(refused), b"text/html; charset=utf-8", page(self._mirror), headers)

    async def _refuse_websocket(self, receive: Receive, send: Send) -> None:
        await receive()
        refused = refusal(self._mirror)
        body = encode(body_of(refused))
        headers: list[Header] = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send(
            {"type": "websocket.http.response.start", "status": status_of(refused), "headers": headers}
        )
        await send({"type": "websocket.http.response.body", "body": body})


async def _send(send: Send, reply: Reply, *, head: bool) -> None:
    headers: list[Header] = [
        *reply.headers,
        (b"content-type", reply.content_type),
        (b"content-length", b"%d" % len(reply.body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else reply.body})
