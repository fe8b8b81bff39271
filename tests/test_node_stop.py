"""A node that stops while clients go on sending."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.support.patience import patient
from tests.support.small_node import policy_of, small_node

LOGIN = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:ann\n\n\0"
FRAME = b"SEND\ndestination:/queue/a\nreceipt:%d\n\n\0"


class Flood:
    """A client that sends as fast as it can; the receipts that it got, and the last frame."""

    def __init__(self) -> None:
        self.receipts = 0
        self.last = b""
        self.sending = asyncio.Event()

    async def run(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(LOGIN)
            sending = asyncio.create_task(self._send(writer))
            await self._read(reader)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
        finally:
            writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        for number in range(10**9):
            writer.write(FRAME % number * 20)
            await writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                *frames, rest = (rest + data).split(b"\0")
                self.last = frames[-1] if frames else self.last
                self.receipts += sum(frame.lstrip().startswith(b"RECEIPT") for frame in frames)
                self.sending.set()


async def test_it_ends_input_before_it_finishes_what_it_has_accepted(tmp_path: Path) -> None:
    floods, policy = [Flood() for _ in range(4)], policy_of(users={"ann": ()}, admins=("ann",))
    async with (
        small_node(tmp_path, policy) as small,
        asyncio.TaskGroup() as group,
    ):
        for flood in floods:
            group.create_task(flood.run(small.node.stomp_port or 0))
        for flood in floods:
            await flood.sending.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", small.node.stomp_port)
        writer.write(LOGIN)
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
        async with asyncio.timeout(patient(2)):
            await small.node.stop()
            assert b"ERROR\n" in await reader.read(), "one that only waits learns why"
        writer.close()
    assert [flood.last.lstrip()[:6] for flood in floods] == [b"ERROR\n"] * 4, "also those that go on sending"
    async with small_node(tmp_path, policy) as again:
        assert again.depth("a") >= sum(flood.receipts for flood in floods) > 0
