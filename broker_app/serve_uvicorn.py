"""uvicorn, with the bounds on a request's head that it lacks."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from broker_app.config import Config
from broker_app.serve_websocket import StreamedWebSocket

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_NEVER = float("inf")


async def serve(app: Any, config: Config, listener: socket.socket, stop: asyncio.Event) -> None:
    """See `broker_app.serve.serve`."""
    server = Server(
        uvicorn.Config(
            app,
            loop="none",
            http=_connection_type(config.max_header_bytes),
            ws=StreamedWebSocket,
            ws_max_size=config.max_websocket_bytes,
            ws_ping_interval=config.ping,
            ws_ping_timeout=config.ping,
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
    )
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

    def __init__(self, config: uvicorn.Config, patience_s: float) -> None:
        super().__init__(config)
        self._patience_s = patience_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # uvicorn ticks ten times a second
            latest = time.monotonic() - self._patience_s
            for connection in list(self.server_state.connections):
                if isinstance(connection, HttpConnection) and connection.asking_since < latest:
                    connection.refuse(_TOO_SLOW)
        return await super().on_tick(counter)


class HttpConnection(HttpToolsProtocol):
    """uvicorn's connection, bounded while it waits for the end of a request's head."""

    longest_head = 64 * 1024

    #: when the client began to ask; never, while it does not
    asking_since = _NEVER
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.asking_since = time.monotonic()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.asking_since = time.monotonic()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self.asking_since = _NEVER
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.asking_since is not _NEVER:
            self._head_bytes += len(data)
            if self._head_bytes > self.longest_head:
                self.refuse(_TOO_LONG)

    def refuse(self, reply: bytes) -> None:
        """Answers without the application and closes."""
        self.asking_since = _NEVER
        if not self.transport.is_closing():
            self.transport.write(reply)
            self.transport.close()


def _connection_type(longest_head: int) -> type[HttpConnection]:
    """uvicorn makes connections by their class, so what they need to know is in the class."""
    return type("HttpConnection", (HttpConnection,), {"longest_head": longest_head})
