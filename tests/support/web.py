"""The web listener of a node inside the test: REST and WebSockets over real HTTP, without Django."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from broker_app.config import Config
from broker_app.net.server.serve import serve
from broker_app.net.tls.certificates import Certificates
from broker_app.node.node import Node


@contextlib.asynccontextmanager
async def serving(node: Node, config: Config, *, port: int = 0) -> AsyncIterator[int]:
    """Serve HTTP, or HTTPS if the settings name a certificate, for the length of a `with` block; gives the
    port."""
    listener = socket.create_server(("127.0.0.1", port))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await node.serve_websocket(scope, receive, send, None)
        else:
            await node.rest(scope, receive, send)

    stop = asyncio.Event()
    certificates = Certificates(config) if config.tls_cert is not None else None
    running = asyncio.create_task(serve(app, config, listener, stop, None, certificates))
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await running
