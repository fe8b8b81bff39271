"""The part of a node that makes it a callback broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from broker_app.base.refused import Refused
from broker_app.engine import Engine
from broker_app.features.callback_broker.callback_messages import CallbackMessages
from broker_app.features.callback_broker.origin_connection import OriginConnection, OriginService
from broker_app.features.callback_broker.origin_link import longest_event
from broker_app.features.callback_broker.original_messages import OriginalMessages
from broker_app.features.callback_broker.pending_queue import PendingQueue
from broker_app.features.callback_broker.remote_broker import RemoteBroker
from broker_app.features.services.origin import Origin
from broker_app.reflex.registration import Registration


class CallbackBroker:
    """Connects services to their origins: one connection for each remote broker and login. Messages of
    origins have at most `max_message` bytes."""

    def __init__(self, engine: Engine, max_message: int) -> None:
        self._max_event = longest_event(max_message)
        self._callback_messages = CallbackMessages(engine)
        self._originals = OriginalMessages(engine, self._callback_messages)
        self._remotes: list[RemoteBroker] = []
        self._closing: set[asyncio.Task[None]] = set()
        engine.intercept(
            (self._originals, *engine.command_interceptors), (self._originals, *engine.delivery_interceptors)
        )

    async def register(
        self, registration: Registration, origin: Origin, lost: Callable[[Refused], None]
    ) -> OriginService:
        """Register a service at its origin. Raises Refused."""
        remote = next((one for one in self._remotes if one.has(origin)), None)
        self._check_name(registration.name, origin, remote)
        if remote is None:
            remote = RemoteBroker()
            self._remotes.append(remote)
        connection = remote.find(origin)
        if connection is None:
            connection = OriginConnection(origin, remote, self._make_queue, self._unused, self._max_event)
            remote.connections.append(connection)
        else:
            connection.extend(origin.urls)
        return await connection.add(registration, lost)

    def _check_name(self, name: str, origin: Origin, remote: RemoteBroker | None) -> None:
        """Raise Refused for a service that has another origin here: the messages of both would be in one
        queue, and programs would get those of the other."""
        for other in self._remotes:
            url = other.url_of(name) if other is not remote else ""
            if url:
                raise Refused(
                    "conflict",
                    f"service {name} has the origin {url} here, and {origin.urls[0]} is another one: their "
                    "messages would be mixed in one queue. Register it under another name, or receive from "
                    f"{origin.urls[0]} directly; if both are one broker, name it by the same address",
                )

    def status(self) -> list[dict[str, object]]:
        """The connections to origins, each with its login, its services and their queues."""
        return [
            {
                **connection.status(),
                "login": connection.origin.login,
                "services": connection.services,
                "queues": [queue.status() for queue in connection.queues.values()],
            }
            for connection in self._connections
        ]

    @property
    def _connections(self) -> list[OriginConnection]:
        return [connection for remote in self._remotes for connection in remote.connections]

    async def finish(self, within_s: float) -> None:
        """Wait until what was settled here is settled at the origins, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._originals.wait_idle()

    async def stop(self) -> None:
        """End all connections: what consumers hold is delivered again by the origins."""
        self._originals.close()
        for connection in self._connections:
            self._unused(connection)
        await asyncio.gather(*self._closing)

    def _make_queue(self, connection: OriginConnection, name: str) -> PendingQueue:
        queue = PendingQueue(
            name, connection, self._callback_messages, self._originals.fetched, self._originals.remove
        )
        self._originals.add(queue)
        return queue

    def _unused(self, connection: OriginConnection) -> None:
        remote = connection.remote
        if connection not in remote.connections:
            return
        remote.connections.remove(connection)
        if not remote.connections:
            self._remotes.remove(remote)
        closing = asyncio.create_task(connection.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
