"""The ASGI application: the node's data plane, Channels' WebSocket router, and Django for the rest.

The scope has the node as "mom.node" and its files as "mom.files"; there are no globals. Without a node
(`application`, for an ASGI server that serves only the pages) the data plane replies that it is not active.
"""

import os
from typing import Protocol

from channels.routing import ChannelNameRouter, ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

from broker_app.base.asgi import Receive, Scope, Send
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.http.base_path import BasePath
from broker_app.net.http.body_limit import BoundedBody
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.proxy_headers import apply_proxy_headers
from broker_app.net.http.routing import unprefixed
from broker_app.net.http.tracing import TracingMiddleware, trace_member
from broker_app.net.problems import send_problem, set_base_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
_django = get_asgi_application()

from django.conf import settings  # noqa: E402

from broker_app.features.callbacks.webhooks.worker_poster import CHANNEL  # noqa: E402
from broker_app.web import definitions  # noqa: E402
from broker_app.web.consumers import WebhookWorker, WebSocketConsumer, refuse  # noqa: E402
from broker_app.web.files import FileWatcher  # noqa: E402

# Pages and the control plane take forms and settings; messages go the other way.
_pages = BoundedBody(_django, 1024 * 1024)
_definitions = BoundedBody(_django, definitions.MAX_BYTES)
_DEFINITIONS = ("/api/v1/definitions", "/api/v1/definitions/plan")


class DataPlane(Protocol):
    """The REST side of a node: a bare ASGI callable that knows what it answers."""

    def owns(self, scope: Scope) -> bool: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Node(Protocol):
    """The interface of the node for the site."""

    @property
    def logins(self) -> Logins: ...

    @property
    def rest(self) -> DataPlane: ...

    @property
    def stomp_port(self) -> int | None: ...

    async def serve_websocket(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity | None
    ) -> None: ...


class Site:
    """The ASGI application around one node; `files` are those of its configuration, where it follows any."""

    def __init__(self, node: Node | None = None, files: FileWatcher | None = None) -> None:
        self._node = node
        self._files = files
        self._rest = node.rest if node is not None else None
        set_base_path(settings.MOM.base_path)
        self._base_path = BasePath(settings.MOM.base_path)
        self._origins = Origins(settings.MOM.known_hosts, settings.MOM.allowed_origins)
        self._websockets = URLRouter(
            [path("ws", WebSocketConsumer.as_asgi()), re_path(r"", refuse)]  # type: ignore[arg-type]
        )
        self._router = ProtocolTypeRouter(
            {
                "http": TracingMiddleware(self._checked_http),
                "websocket": self._checked_websocket,
                "channel": ChannelNameRouter({CHANNEL: WebhookWorker.as_asgi()}),
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = self._base_path.strip(scope, send)
        scope["mom.node"] = self._node
        if settings.MOM.behind_tls and scope["type"] != "channel":
            apply_proxy_headers(scope)
        scope["mom.files"] = self._files
        if scope["type"] == "http":
            unprefixed(scope)
        if self._rest is not None and scope["type"] == "http" and self._rest.owns(scope):
            await self._rest(scope, receive, send)
        else:
            await self._router(scope, receive, send)

    async def _checked_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)
        if host is None or self._origins.knows(host):
            site = _definitions if scope["path"] in _DEFINITIONS else _pages
            self._base_path.restore(scope)
            await site(scope, receive, send)
        else:
            detail = f"This node is not known as {host[:80]}; the setting allowed-hosts makes it so."
            await send_problem(send, "wrong-host", detail, **trace_member(scope))

    async def _checked_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Channels' AllowedHostsOriginValidator refuses clients without Origin and takes any port of
        # a known host; programs have no Origin, and another port is another site.
        accepted = self._origins.accepts(scope["headers"])
        await (self._websockets if accepted else refuse)(scope, receive, send)


application = Site()
