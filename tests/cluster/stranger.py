"""A connection to a cluster port that says whatever a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Sequence

from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.handshake import Handshake
from tests.cluster.conftest import SECRET
from tests.support.patience import patient

NONCE = b"n" * 32


class Stranger:
    """One connection. `received` is all that came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received = bytearray()
        self._frames = f.Reader(64 * f.MIB)

    def say(self, *what: f.Frame | bytes) -> None:
        """Send frames, or bytes."""
        self.writer.write(b"".join(one if isinstance(one, bytes) else f.encode(one) for one in what))

    async def hear(self) -> list[f.Frame]:
        """What comes next; nothing at the end."""
        async with asyncio.timeout(patient(20)):
            while data := await self.reader.read(1 << 16):
                self.received += data
                self._frames.add(data)
                if found := list(self._frames):
                    return found
        return []

    async def end(self) -> f.Refuse | None:
        """Wait for the end of the connection; returns why."""
        reason = None
        with contextlib.suppress(ConnectionError):
            while found := await self.hear():
                reason = next((one for one in found if isinstance(one, f.Refuse)), reason)
        return reason

    async def log_in(
        self,
        settings: dict[str, str],
        name: str = "b9",
        secret: str = SECRET,
        brokers: Sequence[str] = (),
        address: str = "",
    ) -> None:
        """Be a member of the cluster."""
        handshake = Handshake(secret, dials=True, send=self.say)
        handshake.begin()
        identity = None
        while identity is None:
            for frame in await self.hear():
                if isinstance(frame, f.Identity):
                    identity = frame
                    break
                if isinstance(frame, f.Refuse):
                    raise Refused(frame.code, frame.detail)
                if handshake.receive(frame):
                    address = address or f"{name}.example:1"
                    self.say(f.Identity(name, name, "0", address, [], "", settings, list(brokers)))


def proof(secret: str, acceptor_nonce: bytes) -> f.Proof:
    """The proof of one that has connected, and sent NONCE."""
    return f.Proof(hmac.digest(secret.encode(), b"dialler" + NONCE + acceptor_nonce, "sha256"))


@contextlib.asynccontextmanager
async def stranger(port: int) -> AsyncIterator[Stranger]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()
