"""The outbox of a session: what is to be sent, and the subscriptions that have something to send."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import Final, Protocol

from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.net.http.large_body import Piece

#: subscriptions that are asked together
AT_ONCE: Final = 64


#: the text of an event, in pieces if it is large
EventText = bytes | list[Piece]


class EventSource(Protocol):
    """A subscription with something to send."""

    async def events(self) -> list[EventText]:
        """The events to send now; it asks again when there is more."""


class Outbox:
    """Replies are sent before what subscriptions have. Nothing of a subscription is made before it can be
    sent."""

    def __init__(self) -> None:
        self._replies: deque[EventText] = deque()
        self._due: dict[EventSource, None] = {}
        self._woken = asyncio.Event()
        self._closed = False

    def put(self, event: EventText) -> None:
        """Send an event."""
        self._replies.append(event)
        self._woken.set()

    def ask(self, source: EventSource) -> None:
        """Send what a subscription has, when all before it was sent."""
        self._due[source] = None
        self._woken.set()

    def forget(self, source: EventSource) -> None:
        """A subscription has ended."""
        self._due.pop(source, None)

    def close(self) -> None:
        """Send what is there, and nothing later."""
        self._closed = True
        self._due.clear()
        self._woken.set()

    async def take(self) -> list[EventText]:
        """The events to be sent next; empty when the outbox was closed."""
        while True:
            if self._replies:
                replies = list(self._replies)
                self._replies.clear()
                return replies
            if self._closed:
                return []
            if self._due:
                events = await self._events_of_due()
                if events:
                    return events
                continue
            self._woken.clear()
            await self._woken.wait()

    async def _events_of_due(self) -> list[EventText]:
        """The events of some subscriptions that are due; the engine is asked for all of them at once."""
        due = list(islice(self._due, AT_ONCE))
        for source in due:
            del self._due[source]
        found = await asyncio.gather(*(source.events() for source in due))
        return [event for events in found for event in events]

    @property
    def replies(self) -> int:
        """Replies that wait."""
        return len(self._replies)


def whole_if_short(pieces: list[Piece]) -> EventText:
    """The pieces of an event as one, unless they are large."""
    if sum(map(len, pieces)) > LARGE_BYTES:
        return pieces
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))
