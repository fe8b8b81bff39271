"""Channels consumers: where a WebSocket that Channels has routed is handed to the node."""

from channels.consumer import AsyncConsumer

from broker_app.net.http.asgi import Receive, Scope, Send


class StompConsumer(AsyncConsumer):  # type: ignore[misc]
    """STOMP over WebSocket.

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


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Turns a WebSocket away before the handshake is done; the client sees HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": None})
