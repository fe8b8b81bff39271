"""STOMP over WebSocket, as an ASGI application.

ASGI servers buffer without limits in both directions, so the limits are enforced here: no message is read
while reading is paused, and unsent bytes are counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from broker_app.base.deadline import Deadline
from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import ConnectionInfo
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.rules.event import WEBSOCKET

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

NORMAL, GOING_AWAY, PROTOCOL_ERROR, TRY_LATER = 1000, 1001, 1002, 1013


class WebSocketConnection:
    """One WebSocket; the `Transport` of its session."""

    __slots__ = (
        "_authenticated",
        "_certified",
        "_closing",
        "_high_water",
        "_hung_up",
        "_is_authenticated",
        "_outbox",
        "_outbox_bytes",
        "_paused",
        "_resumed",
        "_send",
        "_session",
        "_text",
        "_wake",
        "connection_info",
        "peer_name",
    )

    def __init__(
        self,
        registry: SessionRegistry,
        scope: MutableMapping[str, Any],
        send: Send,
        identity: Identity | None,
    ) -> None:
        client = scope.get("client") or ("?", 0)
        self.peer_name = f"websocket {client[0]}:{client[1]}"
        self.connection_info = ConnectionInfo.of_scope(
            WEBSOCKET, scope, behind_tls=registry.config.behind_tls
        )
        self._certified: tuple[str, ...] = scope.get("mom.certified", ())
        self._send = send
        #: notifies the web server, if it supports that, that the client is authenticated
        self._authenticated: Callable[[], None] = scope.get("mom.authenticated", lambda: None)
        self._is_authenticated = False
        #: True if the client sends text messages; it is then answered in text where possible
        self._text = False
        #: asks the web server, if it supports that
        self._hung_up: Callable[[], bool] = scope.get("mom.hung_up", lambda: False)
        self._high_water = registry.config.outbox_bytes
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._wake: asyncio.Future[None] | None = None
        self._closing = False
        self._paused = False
        self._resumed: asyncio.Future[None] | None = None
        self._session = StompSession(registry, self, identity)

    async def run(self, receive: Receive) -> None:
        """Run the connection from the accepted handshake to its end."""
        writer = asyncio.create_task(self._write_all())
        self._session.admitted(self._certified)
        deadline = Deadline(time.monotonic)
        try:
            while True:
                event = await receive()
                if event["type"] != "websocket.receive":
                    return
                data, text = event.get("bytes"), event.get("mom.text", False)
                if data is None:
                    data, text = event["text"].encode(), True
                if not self._is_authenticated:
                    self._text = text
                self._session.receive(data)
                while self._paused:
                    self._resumed = asyncio.get_running_loop().create_future()
                    await self._resumed
                if deadline.passed:  # messages may be waiting, each of which takes less than a turn
                    await asyncio.sleep(0)
                    deadline.begin(time.monotonic())
        finally:
            self._session.lost()
            if not self._closing:
                writer.cancel()
            await asyncio.wait((writer,))

    async def _write_all(self) -> None:
        """Send everything that was written since the last message as one WebSocket message."""
        loop = asyncio.get_running_loop()
        while True:
            while self._outbox:
                make = partial(self._message, self._outbox)
                size, self._outbox, self._outbox_bytes = self._outbox_bytes, [], 0
                congested = size > self._high_water
                try:
                    await self._send(await in_thread_if_large(size, make))
                except OSError:
                    return  # the client has disconnected; the reader is notified as well
                if congested and self._outbox_bytes <= self._high_water:
                    self._session.uncongested()
            if self._closing:
                break
            self._wake = loop.create_future()
            await self._wake
        await self._send({"type": "websocket.close", "code": NORMAL})

    def _message(self, parts: list[bytes]) -> Event:
        """Return a message of the type (text or binary) in which the client sent CONNECT."""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if not self._text:
            return {"type": "websocket.send", "bytes": data}
        try:
            return {"type": "websocket.send", "text": data.decode()}
        except UnicodeDecodeError:  # this body is not valid text
            return {"type": "websocket.send", "bytes": data}

    # for the session

    def write(self, data: bytes) -> None:
        before = self._outbox_bytes
        self._outbox.append(data)
        self._outbox_bytes += len(data)
        if before <= self._high_water < self._outbox_bytes:
            self._session.congested()
        self._notify()

    def close(self) -> None:
        self._closing = True
        self._release()
        self._notify()

    def abort(self) -> None:
        self._outbox, self._outbox_bytes = [], 0
        self.close()

    def authenticated(self) -> None:
        self._is_authenticated = True
        self._authenticated()

    def hung_up(self) -> bool:
        return self._hung_up()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._release()

    def _release(self) -> None:
        self._paused = False
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
