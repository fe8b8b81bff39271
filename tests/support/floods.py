"""Clients that send as fast as they can."""

from __future__ import annotations

import asyncio
import contextlib
import time

_LOGIN = "CONNECT\naccept-version:1.2\nhost:/\nlogin:{}\npasscode:{}\n\n\0"
_FRAME = b"SEND\ndestination:/queue/a\nreceipt:%d\n\n\0"


def login(user: str, password: str) -> bytes:
    """The first frame of a client."""
    return _LOGIN.format(user, password).encode()


class Flood:
    """A client that sends to queue a until it is disconnected; the receipts that it got, and the last frame,
    with the time at which it came (monotonic)."""

    def __init__(self) -> None:
        self.receipts = 0
        self.last = b""
        self.ended_at = 0.0
        self.sending = asyncio.Event()

    async def run(self, login: bytes, port: int) -> None:
        """Send until the broker ends the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(login)
            sending = asyncio.create_task(self._send(writer))
            await self._read(reader)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
        finally:
            writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        for number in range(10**9):
            writer.write(_FRAME % number * 20)
            await writer.drain()
            # That returns at once while there is room, as a broker makes that takes and drops everything.
            await asyncio.sleep(0)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                *frames, rest = (rest + data).split(b"\0")
                if frames:
                    self.last, self.ended_at = frames[-1].lstrip(), time.monotonic()
                self.receipts += sum(frame.lstrip().startswith(b"RECEIPT") for frame in frames)
                self.sending.set()
