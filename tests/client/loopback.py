"""A broker on loopback that lets everybody in and confirms everything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Self

from mom_client.stomp import Frame, Parser, encode
from mom_client.stomp import frame as wire

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def close(writer: asyncio.StreamWriter) -> None:
    """End a connection, and wait until its socket is closed."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(answer: Handler) -> AsyncIterator[int]:
    """The port of a server that gives each connection to `answer`, and in the end waits for their close."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError):
            await answer(reader, writer)
        await close(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*tasks)


class LoopbackBroker:
    """Serves between `start` and `stop`, always on the same port; enter it to have it started and stopped."""

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.frames: list[Frame] = []
        self.connections = 0  # that were accepted
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # by the task that serves

    @property
    def address(self) -> str:
        return f"stomp://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[bytes]:
        return [frame.body for frame in self.frames if frame.command == wire.SEND]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End at once, as a process does that is killed."""
        if self._server is not None:
            self._server.close()
            for writer in self._writers.values():
                writer.transport.abort()
            await asyncio.gather(*self._writers)
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._writers[task] = writer
        parser = Parser()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for item in parser.receive(data):
                    assert isinstance(item, Frame), item
                    self.frames.append(item)
                    self._answer(item, writer)
        await close(writer)
        del self._writers[task]

    def _answer(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        def say(command: bytes, headers: Mapping[str, str]) -> None:
            writer.write(encode(command, headers))

        if frame.command == wire.CONNECT:
            say(wire.CONNECTED, {"version": "1.2", "heart-beat": "0,0", "session": "s", **self.headers})
        elif frame.receipt is not None:
            say(wire.RECEIPT, {"receipt-id": frame.receipt.decode()})
