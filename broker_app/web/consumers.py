"""Channels consumers: a WebSocket that Channels has routed is handed to the node; a worker gets its tasks."""

import asyncio
from functools import partial
from typing import Any

from channels.consumer import AsyncConsumer
from django.conf import settings

from broker_app.base.asgi import Receive, Scope, Send
from broker_app.base.internal_errors import internal_errors
from broker_app.features.callbacks.webhooks.worker_poster import carry_out
from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.exchange import Poster
from broker_app.web.channel_layer import ConfiguredLayer


class WebSocketConsumer(AsyncConsumer):  # type: ignore[misc]
    """STOMP over WebSocket, and callback subscriptions as JSON.

    Channels' own loop costs a thread hop and a task for each message, so `__call__` is overridden:
    the conversation belongs to the node from the first event to the last.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        node = scope["mom.node"]
        if node is None:
            await refuse(scope, receive, send)
            return
        cookie = next((value for name, value in scope["headers"] if name == b"cookie"), b"")
        identity = await node.logins.authenticate_cookie(cookie.decode("latin-1")) if cookie else None
        if identity is None:
            identity = node.logins.certified(scope.get("mom.certified", ()))
        await node.serve_websocket(scope, receive, send, identity)


class WebhookWorker(AsyncConsumer):  # type: ignore[misc]
    """Sends the requests of webhooks in a worker (`mom callback worker`), all at the same time:
    the broker limits their number."""

    def __init__(self) -> None:
        super().__init__()
        self._layer = ConfiguredLayer()
        self._poster = _make_http_client()
        self._tasks: set[asyncio.Task[None]] = set()

    async def webhook_send(self, task: dict[str, Any]) -> None:
        """Begin to send a request."""
        sending = asyncio.create_task(carry_out(task, self._poster, self._layer.send))
        self._tasks.add(sending)
        sending.add_done_callback(partial(self._ended, task["url"]))

    def _ended(self, url: str, sending: "asyncio.Task[None]") -> None:
        self._tasks.discard(sending)
        error = None if sending.cancelled() else sending.exception()
        if error is not None:  # the broker gets no answer, and pushes again
            internal_errors.note("a worker of webhooks", error, url)


def _make_http_client() -> Poster:
    # Here: brokers, which load this module too, need it only with callbacks.
    from broker_app.peers.http_client.client import HttpClient

    return HttpClient(AddressFilter(settings.MOM.webhook_allow))


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Turns a WebSocket away before the handshake is done; the client sees HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": None})
