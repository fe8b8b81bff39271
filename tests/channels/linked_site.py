"""A linked site that sends what a test says, and sees the frames of a broker in their order."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.handshake import Handshake
from tests.cluster.conftest import SECRET
from tests.support.patience import patient


class Site:
    """One that has the secret of the cluster, and is named "hostile"."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = f.Reader(64 * f.MIB)
        self._received: list[Any] = []

    @classmethod
    async def link(cls, port: int) -> Site:
        """Connect, and prove to be of the cluster."""
        site = cls(*await asyncio.open_connection("127.0.0.1", port))
        handshake = Handshake(SECRET, dials=True, send=site.send)
        handshake.begin()
        while not handshake.is_proven:
            handshake.receive(await site.next(f.Challenge, f.Proof))
        identity = await site.next(f.Identity)
        own = identity.settings
        site.send(f.Identity("hostile", "1", identity.version, "127.0.0.1:1", [], "", own, []))
        await site.next(f.ChannelHandlers)
        return site

    def send(self, *frames: f.Frame) -> None:
        self.send_bytes(b"".join(map(f.encode, frames)))

    def send_bytes(self, data: bytes | bytearray) -> None:
        self._writer.write(data)

    async def next(self, *kinds: type) -> Any:
        """The next frame of one of these kinds, or that ends the link."""
        async with asyncio.timeout(patient(10)):
            while True:
                while not self._received:
                    data = await self._reader.read(65_536)
                    if not data:
                        raise EOFError
                    self._frames.add(data)
                    self._received += self._frames
                frame = self._received.pop(0)
                if isinstance(frame, (*kinds, f.Refuse)):
                    return frame

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
