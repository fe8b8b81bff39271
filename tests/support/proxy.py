"""A network under the test's control: a proxy that cuts, swallows, holds, delays and throttles."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

_PIECE = 65_536


@dataclass
class Direction:
    """The treatment of bytes in one direction, from now on, in all connections."""

    #: seconds by which everything is late
    delay_s: float = 0.0
    #: bytes a second, and no more is taken than was carried; 0 is any number
    rate: int = 0
    #: whether what comes vanishes, while its sender believes that it went
    drops: bool = False
    #: bytes that came so far, and those that went through
    came: int = 0
    passed: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._open.set()

    def hold(self) -> None:
        """Let nothing through and keep what comes, as a network that is away for a while does."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the reader's side ends; then the writer's side ends too."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)

        async def take() -> None:
            while data := await reader.read(_PIECE):
                self.came += len(data)
                await pieces.put((loop.time() + self.delay_s, data))
                if self.rate:
                    await pieces.join()
            await pieces.put((loop.time() + self.delay_s, b""))

        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            while True:
                due, data = await pieces.get()
                await asyncio.sleep(due - loop.time())
                await self._open.wait()
                if not data:
                    break
                if not self.drops:
                    if self.rate:
                        await asyncio.sleep(len(data) / self.rate)
                    writer.write(data)
                    await writer.drain()
                    self.passed += len(data)
                pieces.task_done()
            writer.write_eof()


class Proxy:
    """A proxy from `port` to the target. `out` is the direction to the target, `back` the other; the
    kernel keeps `buffer_bytes` of what comes, 0 for as many as it likes."""

    def __init__(self, target_port: int, host: str = "127.0.0.1", buffer_bytes: int = 0) -> None:
        self._buffer_bytes = buffer_bytes
        self.target_port = target_port
        self.host = host
        self.port = 0
        self.out, self.back = Direction(), Direction()
        #: whether new connections go through; others are reset at once
        self.accepts = True
        #: connections that came so far
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}

    @property
    def connections(self) -> int:
        """Connections that there are now."""
        return len(self._open)

    async def start(self) -> None:
        listening = socket.create_server((self.host, self.port))
        if self._buffer_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        self._server = await asyncio.start_server(self._connect, sock=listening, limit=_PIECE)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset all connections at both ends, with what is on its way in them."""
        for writers in list(self._open.values()):
            for writer in writers:
                writer.transport.abort()

    def half_close(self) -> None:
        """End the connection to the target in this direction, while its output still arrives."""
        for writers in self._open.values():
            for writer in writers[1:]:  # none yet, where the target is still being connected to
                writer.write_eof()

    def heal(self) -> None:
        """Be a good network again."""
        self.accepts = True
        for way in (self.out, self.back):
            way.delay_s, way.rate, way.drops = 0.0, 0, False
            way.release()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = (writer,)
        try:
            if self.accepts:
                there, onward = await asyncio.open_connection(self.host, self.target_port, limit=_PIECE)
                self._open[task] = (writer, onward)
                async with asyncio.TaskGroup() as ways:
                    ways.create_task(self.out.carry(reader, onward))
                    ways.create_task(self.back.carry(there, writer))
        except* (OSError, RuntimeError):
            pass  # one of the ends is gone, or was cut
        finally:
            for end in self._open.pop(task):
                end.transport.abort()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.heal()
        self.cut()
        if self._open:
            await asyncio.wait(self._open)


@contextlib.asynccontextmanager
async def proxy(target_port: int, buffer_bytes: int = 0) -> AsyncIterator[Proxy]:
    """A proxy for the length of a `with` block."""
    made = Proxy(target_port, buffer_bytes=buffer_bytes)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
