"""Receivers of webhooks for `benchmarks.callbacks`, in a process of their own.

`python -m benchmarks.hooks COUNT` serves one receiver that answers at once, and COUNT hostile ones. It prints
the ports, the fast one first, and answers each line on standard input with the number of pushes that the fast
one has accepted. All agree to be called.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop

_AGREES = b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\ncontent-length: 0\r\n\r\n"
_ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"

Behavior = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def hang(_: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.sleep(86_400)  # without a timer, nothing would keep the task


async def drip(writer: asyncio.StreamWriter) -> None:
    """Answer one byte at a time, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not writer.is_closing():
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.05)


async def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with a RST."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def flood(writer: asyncio.StreamWriter) -> None:
    """Refuse, with a body without an end."""
    writer.write(b"HTTP/1.1 400 No\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def dawdle(writer: asyncio.StreamWriter) -> None:
    """Accept, after two seconds."""
    await asyncio.sleep(2)
    writer.write(_ACCEPTED)


HOSTILE: tuple[Behavior, ...] = (hang, drip, reset, flood, dawdle)


class Fast(asyncio.Protocol):
    """The receiver that answers at once. `accepted` counts the pushes of all connections."""

    accepted = 0

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (request := self._request()) is not None:
            agrees = request.startswith(b"OPTIONS")
            Fast.accepted += not agrees
            self._transport.write(_AGREES if agrees else _ACCEPTED)

    def _request(self) -> bytes | None:
        """The head of the next complete request, which is taken off."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        _, found, length = head.lower().partition(b"\r\ncontent-length:")
        size = int(length.partition(b"\r\n")[0]) if found else 0
        if not end or len(rest) < size:
            return None
        self._received = rest[size:]
        return head


async def _serve_hostile(
    behavior: Behavior, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            _, found, length = head.lower().partition(b"\r\ncontent-length:")
            await reader.readexactly(int(length.partition(b"\r\n")[0]) if found else 0)
            if head.startswith(b"OPTIONS"):
                writer.write(_AGREES)
            else:
                await behavior(writer)


async def _main(count: int) -> None:
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = [await loop.create_server(Fast, "127.0.0.1", 0)]
    for number in range(count):
        behavior = HOSTILE[number % len(HOSTILE)]

        def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behavior: Behavior = behavior
        ) -> Awaitable[None]:
            return _serve_hostile(behavior, reader, writer)

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(Fast.accepted, flush=True)


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
