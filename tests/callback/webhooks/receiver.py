"""A receiver of webhooks in the test: a real HTTP server that can fail in all the ways that real ones do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A request; the names of `headers` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Behavior = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, body: bytes = b"", **headers: str) -> Behavior:
    """Answer with this status."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        fields = {"content-length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status} Because\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    return behave


async def hang(_: Received, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
    """End the connection with a RST."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer one byte at a time, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.02)


async def flood(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer 500 with a body without an end."""
    writer.write(b"HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def babble(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer something that is no HTTP."""
    writer.write(b"220 mail.example.org ESMTP\r\n")
    await writer.drain()
    writer.close()


class Receiver:
    """`received` are the pushes in their order, without handshakes and challenges, which it passes."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.all: list[Received] = []
        #: what it does with pushes; and with those whose body is in `special`
        self.behavior: Behavior = answer(204)
        self.special: dict[bytes, Behavior] = {}
        self.on_options: Behavior = answer(200, webhook_allowed_origin="*")
        self.on_challenge: Behavior | None = None
        self.port = 0
        self.scheme = "http"
        self.connections = 0
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.received]

    async def count(self, number: int, deadline_s: float = 20.0) -> list[Received]:
        """Wait until so many pushes came; all of them."""
        async with asyncio.timeout(deadline_s):
            while len(self.received) < number:
                self._news.clear()
                await self._news.wait()
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = await _request(reader)
                    if request is None:
                        break
                    await self._behave(request, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _behave(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.all.append(request)
        kind = request.headers.get("ce-type", "")
        if request.method == "OPTIONS":
            await self.on_options(request, writer)
        elif kind == "mom.callback.challenge":
            echo = answer(200, json.dumps(request.json()).encode(), content_type="application/json")
            await (self.on_challenge or echo)(request, writer)
        else:
            self.received.append(request)
            self._news.set()
            await self.special.get(request.body, self.behavior)(request, writer)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _request(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


@contextlib.asynccontextmanager
async def receiver(port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver for the length of a `with` block."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", port, ssl=tls, limit=64 * 1024 * 1024)
    made.port = server.sockets[0].getsockname()[1]
    made.scheme = "https" if tls is not None else "http"
    try:
        yield made
    finally:
        server.close()
        await made.close()
