"""WebSockets: which protocol a client speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.net.auth.login import Identity
from broker_app.net.json import JsonServer
from broker_app.net.stomp.rendering import Renderer
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.stomp.transports.websocket import PROTOCOL_ERROR, WebSocketConnection

#: bytes of a first message that decide; no more white space can be in front of an operation
_FIRST_BYTES: Final = 4096

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

JSON: Final = "mom.v1.json"
STOMP: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
#: the first of these that a client offers is used; without an offer its first bytes decide
SUBPROTOCOLS: Final = (*STOMP, JSON)


async def serve(
    registry: SessionRegistry,
    json: JsonServer,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
    identity: Identity | None,
) -> None:
    """Accept a WebSocket and serve it. `identity` is that of a session cookie or a client certificate."""
    await receive()  # websocket.connect
    offered = scope.get("subprotocols") or []
    chosen = next((name for name in SUBPROTOCOLS if name in offered), None)
    await send({"type": "websocket.accept", "subprotocol": chosen})
    if offered and chosen is None:
        theirs, ours = ", ".join(offered)[:120], ", ".join(SUBPROTOCOLS)
        detail = f"the subprotocols {theirs} are not supported; offer {ours}"
        await _refuse(registry, send, Refused("unsupported-protocol", detail))
        return
    if not offered:
        timeout_s = registry.config.connect_timeout
        try:
            async with asyncio.timeout(timeout_s):
                first = await receive()
        except TimeoutError:
            await _refuse(registry, send, Refused("login-timeout", f"no CONNECT within {timeout_s:g} s"))
            return
        chosen = JSON if _is_json(first) else None
        receive = _again(first, receive)
    if chosen == JSON:
        await json.serve(scope, receive, send, identity)
    else:
        await WebSocketConnection(registry, scope, send, identity).run(receive)


async def _refuse(registry: SessionRegistry, send: Send, refusal: Refused) -> None:
    """Send the reason as an ERROR frame, and end the connection."""
    await send({"type": "websocket.send", "bytes": Renderer("1.2", registry.ids).error(refusal, None)})
    await send({"type": "websocket.close", "code": PROTOCOL_ERROR})


def _is_json(event: Event) -> bool:
    data = event.get("bytes") or (event.get("text") or "").encode()
    return data[:_FIRST_BYTES].lstrip()[:1] == b"{"


def _again(first: Event, receive: Receive) -> Receive:
    """Receive `first`, then everything else."""
    waiting = [first]

    async def receive_again() -> Event:
        return waiting.pop() if waiting else await receive()

    return receive_again
