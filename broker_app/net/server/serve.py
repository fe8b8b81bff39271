"""Serve: runs the ASGI application on uvicorn, on a socket and a loop that are ours.

It starts inside a running loop, leaves signals alone, and stops when asked to. It speaks TLS when there are
certificates, and neither trusts a proxy's headers nor logs requests.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from broker_app.base.internal_errors import internal_errors
from broker_app.config import MAX_HEADER_BYTES, Config
from broker_app.net.rest.messages.fast_publish import FastPublish
from broker_app.net.server.serve_http import HttpConnection, connection_type
from broker_app.net.server.serve_websocket import websocket_type
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import PLAIN_HTTP_ANSWER, TlsListener


async def serve(
    app: Any,
    config: Config,
    listener: socket.socket,
    stop: asyncio.Event,
    direct: FastPublish | None = None,
    certificates: Certificates | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve `app` on `listener` until `stop` is set, then end open connections and return.

    `started` is called when it accepts connections. Connections hand single messages to `direct`. A scope has
    the names in a client certificate as "mom.certified". Requests still running after `config.drain` seconds
    are cancelled, and the listener is closed.
    """
    server = Server(
        uvicorn.Config(
            app,
            loop="none",
            http=connection_type(MAX_HEADER_BYTES, config.connect_timeout, direct, certificates),
            ws=websocket_type(certificates),
            ws_max_size=config.max_websocket_bytes,
            ws_ping_interval=config.ping_s,
            ws_ping_timeout=config.ping_s,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(config.drain),
            limit_concurrency=config.max_connections,
        ),
        config.connect_timeout,
        certificates,
        started,
    )
    with contextlib.closing(listener):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            server.should_exit = True
            await serving


class Server(uvicorn.Server):
    """A server that leaves signals to the node, and sends away who takes too long to ask."""

    def __init__(
        self,
        config: uvicorn.Config,
        header_timeout_s: float,
        certificates: Certificates | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._header_timeout_s = header_timeout_s
        self._certificates = certificates
        self._on_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._certificates is None:
            await super().startup(sockets)
        else:
            self._start_tls(sockets, self._certificates)
        self._on_started()

    def _start_tls(self, sockets: list[socket.socket] | None, certificates: Certificates) -> None:
        # uvicorn can neither bound a handshake nor exchange a certificate.
        assert sockets
        door = TlsListener(
            sockets[0],
            certificates,
            self._connection,
            plain_answer=PLAIN_HTTP_ANSWER,
            handshake_timeout_s=self._header_timeout_s,
        )
        self.servers = [door]  # type: ignore[list-item]  # uvicorn closes it and waits for it
        self.started = True

    def _connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state={}
        )  # type: ignore[call-arg]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # uvicorn ticks ten times a second
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, HttpConnection):
                    self._look(connection, now)
        return await super().on_tick(counter)

    def _look(self, connection: HttpConnection, now: float) -> None:
        try:
            connection.look(now)
        except Exception as error:  # it ends this connection, and not the server
            internal_errors.note("a connection over HTTP", error)
            connection.transport.abort()
