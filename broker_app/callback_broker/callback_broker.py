"""The part of a node that makes it a callback broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from broker_app.callback_broker.callback_messages import CallbackMessages
from broker_app.callback_broker.origin_connection import OriginConnection, OriginService
from broker_app.callback_broker.original_messages import OriginalMessages
from broker_app.callback_broker.pending_queue import PendingQueue
from broker_app.core.errors import Refused
from broker_app.engine import Engine
from broker_app.net.origin import Origin
from broker_app.reflex.registration import Registration


class CallbackBroker:
    """Connects services to their origins: one connection for each origin and login."""

    def __init__(self, engine: Engine) -> None:
        self._callback_messages = CallbackMessages(engine)
        self._originals = OriginalMessages(engine, self._callback_messages)
        self._connections: dict[Origin, OriginConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        engine.intercept(
            (self._originals, *engine.command_interceptors), (self._originals, *engine.delivery_interceptors)
        )

    async def register(
        self, registration: Registration, origin: Origin, lost: Callable[[Refused], None]
    ) -> OriginService:
        """Register a service at its origin. Raises Refused."""
        connection = self._connections.get(origin)
        if connection is None:
            connection = OriginConnection(origin, self._make_queue, lambda: self._unused(origin))
            self._connections[origin] = connection
        return await connection.add(registration, lost)

    def status(self) -> list[dict[str, Any]]:
        """The connections to origins, each with its login, its services and their queues."""
        return [
            {
                **connection.status(),
                "login": origin.login,
                "services": connection.services,
                "queues": [queue.status() for queue in connection.queues.values()],
            }
            for origin, connection in self._connections.items()
        ]

    async def finish(self, within_s: float) -> None:
        """Wait until what was settled here is settled at the origins, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._originals.wait_idle()

    async def stop(self) -> None:
        """End all connections: what consumers hold is delivered again by the origins."""
        self._originals.close()
        for origin in list(self._connections):
            self._unused(origin)
        await asyncio.gather(*self._closing)

    def _make_queue(self, connection: OriginConnection, name: str) -> PendingQueue:
        queue = PendingQueue(
            name, connection, self._callback_messages, self._originals.fetched, self._originals.remove
        )
        self._originals.add(queue)
        return queue

    def _unused(self, origin: Origin) -> None:
        connection = self._connections.pop(origin, None)
        if connection is not None:
            closing = asyncio.create_task(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
