"""STOMP within the process, for clients in the broker's own process.

`mom_client` uses it like a socket: `connect("stomp://local", opener=local.opener(registry))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import ConnectionInfo
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.rules.event import LOCAL
from mom_client.connection.transport import PipeTransport, Transport


class LocalConnection:
    """The broker's end of a pipe; the `Transport` of its session."""

    peer_name = "local"
    connection_info = ConnectionInfo(LOCAL)

    def __init__(self, registry: SessionRegistry, identity: Identity | None) -> None:
        self._high_water = registry.config.outbox_bytes
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._arrived = asyncio.Event()
        #: cleared while the broker does not read
        self.readable = asyncio.Event()
        self.readable.set()
        self.ended = False
        self.session = StompSession(registry, self, identity)
        self.session.admitted()

    async def take(self) -> bytes:
        """Return what was written since the last call; waits for bytes, and returns none at the end."""
        while not self._outbox and not self.ended:
            self._arrived.clear()
            await self._arrived.wait()
        data, full = b"".join(self._outbox), self._outbox_bytes > self._high_water
        self._outbox, self._outbox_bytes = [], 0
        if full and not self.ended:
            self.session.uncongested()
        return data

    # for the session

    def write(self, data: bytes) -> None:
        before = self._outbox_bytes
        self._outbox.append(data)
        self._outbox_bytes += len(data)
        self._arrived.set()
        if before <= self._high_water < self._outbox_bytes:
            self.session.congested()

    def close(self) -> None:
        """End the connection; written bytes can still be taken."""
        if not self.ended:
            self.ended = True
            self._arrived.set()
            self.readable.set()
            self.session.lost()

    def abort(self) -> None:
        self.close()

    def authenticated(self) -> None:
        """Nothing to do: a client in this process has no limit before its login."""

    def hung_up(self) -> bool:
        """Always False: the end of a local client is reported at once."""
        return False

    def pause_reading(self) -> None:
        self.readable.clear()

    def resume_reading(self) -> None:
        self.readable.set()


class LocalPipe:
    """The client's end."""

    def __init__(self, registry: SessionRegistry, identity: Identity | None = None) -> None:
        self._connection = LocalConnection(registry, identity)

    async def send(self, data: bytes) -> None:
        """Send bytes to the broker; waits while it does not read. Raises ConnectionResetError after the
        end."""
        await self._connection.readable.wait()
        if self._connection.ended:
            raise ConnectionResetError("the broker has ended the connection")
        self._connection.session.receive(data)

    async def receive(self) -> bytes:
        """Return the next bytes of the broker; none at the end."""
        return await self._connection.take()

    async def close(self) -> None:
        """Disconnect; unsettled messages return to their queues."""
        self._connection.close()


def opener(
    registry: SessionRegistry, identity: Identity | None = None
) -> Callable[[str], Awaitable[Transport]]:
    """Return an opener for `mom_client.connect` that ignores the address and connects to this broker."""

    async def open_pipe(_address: str) -> Transport:
        return PipeTransport(LocalPipe(registry, identity))

    return open_pipe
