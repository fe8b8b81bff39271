"""Daphne, in a loop that runs already.

Daphne's `Server.run` wants a loop of its own; this does the same in steps. Twisted's reactor is
bound to one loop for the life of a process, so this can be done once.
"""

import asyncio
import socket
import sys
from typing import Any

from broker_app.config import Config
from broker_app.net.certificates import Certificates


async def serve(
    app: Any,
    config: Config,
    listener: socket.socket,
    stop: asyncio.Event,
    certificates: Certificates | None = None,
) -> None:
    """See `broker_app.serve.serve`."""
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a Twisted reactor is installed already; one process runs Daphne once")
    from twisted.internet import asyncioreactor

    asyncioreactor.install(asyncio.get_running_loop())  # type: ignore[no-untyped-call]
    server, factory, reactor = _server(app, config, certificates)
    reactor.startRunning(installSignalHandlers=False)
    reactor.callLater(1, server.application_checker)
    reactor.callLater(2, server.timeout_checker)
    # The port duplicates the descriptor.
    port = reactor.adoptStreamPort(listener.fileno(), listener.family, factory)
    try:
        await stop.wait()
    finally:
        port.stopListening()
        await _end_connections(server, config.drain)


def _server(app: Any, config: Config, certificates: Certificates | None) -> tuple[Any, Any, Any]:
    """Daphne's server with its two factories, the factory to listen with, and the reactor it runs on."""
    from daphne.http_protocol import HTTPFactory
    from daphne.server import Server
    from daphne.ws_protocol import WebSocketFactory
    from twisted.internet import reactor
    from twisted.logger import globalLogBeginner

    from broker_app import serve_daphne_tls

    class TellingServer(Server):  # type: ignore[misc]
        """Daphne's server, which tells the application of TLS, too."""

        def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
            if certificates is not None:
                scope["mom.certified"] = serve_daphne_tls.names(protocol.transport, certificates)
                scope["scheme"] = "wss" if scope["type"] == "websocket" else "https"
            return super().create_application(protocol, scope)

    nowhere: list[Any] = [lambda event: None]
    globalLogBeginner.beginLoggingTo(nowhere, redirectStandardIO=False, discardBuffer=True)
    server = TellingServer(
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
    if certificates is None:
        return server, server.http_factory, reactor
    return server, serve_daphne_tls.factory(certificates, server.http_factory), reactor


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
