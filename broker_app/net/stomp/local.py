"""STOMP within the process: a pipe under a session, for clients that live beside the broker.

`mom_client` talks through it as through a socket: `connect("stomp://local", opener=local.opener(lobby))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import Way
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.rules.event import LOCAL
from mom_client.transport import PipeTransport, Transport


class LocalConnection:
    """The broker's end of a pipe; the `Transport` of its session."""

    peer_name = "local"
    way = Way(LOCAL)

    def __init__(self, registry: SessionRegistry, identity: Identity | None) -> None:
        self._high_water = registry.config.outbox_bytes
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._arrived = asyncio.Event()
        #: cleared while the broker takes no more
        self.readable = asyncio.Event()
        self.readable.set()
        self.ended = False
        self.session = StompSession(registry, self, identity)
        self.session.admitted()

    async def take(self) -> bytes:
        """What was written since the last time; waits for some, empty at the end."""
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
        """What is written can still be taken."""
        if not self.ended:
            self.ended = True
            self._arrived.set()
            self.readable.set()
            self.session.lost()

    def abort(self) -> None:
        self.close()

    def authenticated(self) -> None:
        """A client in this process needs no bound before its login."""

    def hung_up(self) -> bool:
        """It tells at once when it leaves."""
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
        """Hand bytes to the broker; waits while it takes none. Raises ConnectionResetError after the end."""
        await self._connection.readable.wait()
        if self._connection.ended:
            raise ConnectionResetError("the broker has ended the connection")
        self._connection.session.receive(data)

    async def receive(self) -> bytes:
        """The next bytes of the broker, empty at the end."""
        return await self._connection.take()

    async def close(self) -> None:
        """Leave; what is held returns to its queues."""
        self._connection.close()


def opener(
    registry: SessionRegistry, identity: Identity | None = None
) -> Callable[[str], Awaitable[Transport]]:
    """For `mom_client.connect`: opens a pipe to this broker whatever the address says."""

    async def open_pipe(_address: str) -> Transport:
        return PipeTransport(LocalPipe(registry, identity))

    return open_pipe
