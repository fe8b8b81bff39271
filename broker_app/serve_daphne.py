"""Daphne, in a loop that runs already.

Daphne's `Server.run` wants a loop of its own; this does the same in steps. Twisted's reactor is
bound to one loop for the life of a process, so this can be done once.
"""

import asyncio
import socket
import sys
from typing import Any

from broker_app.config import Config


async def serve(app: Any, config: Config, listener: socket.socket, stop: asyncio.Event) -> None:
    """See `broker_app.serve.serve`."""
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a Twisted reactor is installed already; one process runs Daphne once")
    from twisted.internet import asyncioreactor

    asyncioreactor.install(asyncio.get_running_loop())  # type: ignore[no-untyped-call]
    server, reactor = _server(app, config)
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


def _server(app: Any, config: Config) -> tuple[Any, Any]:
    """Daphne's server with its two factories, and the reactor it runs on."""
    from daphne.http_protocol import HTTPFactory
    from daphne.server import Server
    from daphne.ws_protocol import WebSocketFactory
    from twisted.internet import reactor
    from twisted.logger import globalLogBeginner

    nowhere: list[Any] = [lambda event: None]
    globalLogBeginner.beginLoggingTo(nowhere, redirectStandardIO=False, discardBuffer=True)
    server = Server(
        app,
        endpoints=["the listener"],
        signal_handlers=False,
        ping_interval=config.ping,
        ping_timeout=config.ping,
        websocket_timeout=-1,
        application_close_timeout=int(config.drain),
    )
    server.connections = {}
    server.http_factory = HTTPFactory(server)
    server.ws_factory = WebSocketFactory(server, server=server.server_name)
    server.ws_factory.setProtocolOptions(
        autoPingTimeout=config.ping,
        allowNullOrigin=True,
        openHandshakeTimeout=config.connect_timeout,
        maxMessagePayloadSize=config.max_websocket_bytes,
        maxFramePayloadSize=config.max_websocket_bytes,
    )
    return server, reactor


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
