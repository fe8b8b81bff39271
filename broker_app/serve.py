"""Serve: runs the ASGI application on uvicorn or Daphne, on a socket and a loop that are ours.

Both start inside a running loop, leave signals alone, and stop when told. Neither speaks TLS, trusts
a proxy's headers or logs requests.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

from broker_app.config import Config

# The longest STOMP frame is a body and its headers; a WebSocket message may hold one and pieces of the next.
_FRAME_ROOM = 1024 * 1024

# Seconds between WebSocket pings, and the time to answer one.
_PING_S = 20
_PING_ANSWER_S = 20


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


async def serve(app: Any, config: Config, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serves `app` on `listener` until `stop` is set, then ends open connections and returns.

    Requests still running after `config.drain` seconds are cancelled. The listener is closed.
    """
    with contextlib.closing(listener):
        if config.server == "daphne":
            await _serve_with_daphne(app, config, listener, stop)
        else:
            await _serve_with_uvicorn(app, config, listener, stop)


async def _serve_with_uvicorn(app: Any, config: Config, listener: socket.socket, stop: asyncio.Event) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Signals belong to the node, which stops the web server at its place in the order.
            yield

    server = Server(
        uvicorn.Config(
            app,
            loop="none",
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=config.max_body_bytes + _FRAME_ROOM,
            ws_ping_interval=_PING_S,
            ws_ping_timeout=_PING_ANSWER_S,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(config.drain),
            limit_concurrency=config.max_connections,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        server.should_exit = True
        await serving


async def _serve_with_daphne(app: Any, config: Config, listener: socket.socket, stop: asyncio.Event) -> None:
    """Daphne's `Server.run` wants a loop of its own; this does the same in steps inside the one that runs."""
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a Twisted reactor is installed already; one process runs Daphne once")
    from twisted.internet import asyncioreactor

    asyncioreactor.install(asyncio.get_running_loop())

    from daphne.http_protocol import HTTPFactory
    from daphne.server import Server
    from daphne.ws_protocol import WebSocketFactory
    from twisted.internet import reactor
    from twisted.logger import globalLogBeginner

    globalLogBeginner.beginLoggingTo([lambda _: None], redirectStandardIO=False, discardBuffer=True)
    longest = config.max_body_bytes + _FRAME_ROOM
    server = Server(
        app,
        endpoints=["the listener"],
        signal_handlers=False,
        ping_interval=_PING_S,
        ping_timeout=_PING_ANSWER_S,
        websocket_timeout=-1,
        application_close_timeout=int(config.drain),
    )
    server.connections = {}
    server.http_factory = HTTPFactory(server)
    server.ws_factory = WebSocketFactory(server, server=server.server_name)
    server.ws_factory.setProtocolOptions(
        autoPingTimeout=_PING_ANSWER_S,
        allowNullOrigin=True,
        openHandshakeTimeout=5,
        maxMessagePayloadSize=longest,
        maxFramePayloadSize=longest,
    )
    reactor.startRunning(installSignalHandlers=False)
    reactor.callLater(1, server.application_checker)
    reactor.callLater(2, server.timeout_checker)
    # The port duplicates the descriptor.
    port = reactor.adoptStreamPort(listener.fileno(), listener.family, server.http_factory)
    try:
        await stop.wait()
    finally:
        port.stopListening()
        await _end_connections(server, config.drain)


async def _end_connections(server: Any, drain_s: float) -> None:
    """Closes WebSockets as restarting (1012), lets requests finish for `drain_s`, and cancels the rest."""
    from daphne.ws_protocol import WebSocketProtocol

    running = set()
    for protocol, details in list(server.connections.items()):
        if isinstance(protocol, WebSocketProtocol) and "disconnected" not in details:
            protocol.sendCloseFrame(code=1012)
        if "application_instance" in details:
            running.add(details["application_instance"])
    if not running:
        return
    _, late = await asyncio.wait(running, timeout=drain_s)
    for application in late:
        application.cancel()
    await asyncio.gather(*late, return_exceptions=True)
