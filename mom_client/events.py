"""Events of a connection, for the application."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from .errors import ClientError

__all__ = [
    "CLIENT_CLOSED",
    "LOST",
    "MOVED",
    "ConnectionEvent",
    "EventKind",
    "EventStream",
    "ExceptionListener",
    "Listener",
]

#: closing: the client is about to end a connection itself, when it is closed or goes to another broker
#: closed: the connection has ended
#: reconnect failed: one attempt has failed; with `final` there will be no other
#: reconnected: there is a connection again, to `address`
EventKind = Literal["closing", "closed", "reconnect failed", "reconnected"]

#: codes of closed connections that the broker has not ended with an ERROR
LOST = "connection-lost"
MOVED = "moved"
CLIENT_CLOSED = "client-closed"
#: events that wait for the application, at most
MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A change of the connection to the broker at `address`, and the reason for it."""

    kind: EventKind
    address: str
    reason: str
    final: bool = False  #: the client has given up; `address` then names all addresses
    #: of closed: the code of the broker's ERROR, or `LOST`, `MOVED` or `CLIENT_CLOSED`
    code: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.address}: {self.reason}"


Listener = Callable[[ConnectionEvent], None]
ExceptionListener = Callable[[ClientError], None]


class EventStream:
    """The events from now on: ``async for event in mom.events()``. It ends when there will be no connection
    again. Of more than `MOST_WAITING` that are not taken the oldest are left out, which `missed` counts.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._waiting: deque[ConnectionEvent] = deque()
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, event: ConnectionEvent) -> None:
        """Add an event."""
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.missed += 1
        self._waiting.append(event)
        self._changed.set()

    def end(self) -> None:
        """Let it end after the events that wait."""
        self._ended = True
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConnectionEvent:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()
