"""Channels consumers: where a WebSocket that Channels has routed is handed to the node."""

import logging
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable
from channels.consumer import AsyncConsumer

log = logging.getLogger(__name__)


class StompConsumer(AsyncConsumer):  # type: ignore[misc]
    """STOMP over WebSocket.

    Channels' own loop costs a thread hop and a task for each message, so `__call__` is overridden:
    the conversation belongs to the node from the first event to the last.
    """

    async def __call__(
        self, scope: dict[str, Any], receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        node = scope["mom.node"]
        if node is None:
            await refuse(scope, receive, send)
            return
        cookie = next((value for name, value in scope["headers"] if name == b"cookie"), b"")
        identity = await node.logins.authenticate_cookie(cookie.decode("latin-1")) if cookie else None
        await node.serve_websocket(scope, receive, send, identity)


async def refuse(scope: dict[str, Any], receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Turns a WebSocket away before the handshake is done; the client sees HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": None})
