"""Subscribers that are called over an open connection: JSON over WebSocket, and server-sent events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from broker_app.core.destination import Destination
from broker_app.net.auth.login import Identity

#: transports of subscribers
WEBSOCKET, SSE = "websocket", "sse"


@dataclass(slots=True, eq=False)
class LiveSubscriber:
    """One subscriber. `mode` is deliver or notify; `connection` is empty for event streams."""

    id: str
    identity: Identity
    #: of the client
    address: str
    transport: str
    mode: str
    destination: Destination
    connection: str
    #: seconds since 1970
    since_s: float
    #: sent so far: messages, or notifications
    events: int = 0
    #: when the last one was sent, seconds since 1970; 0.0 before the first
    last_s: float = 0.0

    def count(self, events: int) -> None:
        """Count events that are sent now."""
        self.events += events
        self.last_s = time.time()


class LiveSubscribers:
    """All such subscribers of the node."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._subscribers: dict[LiveSubscriber, None] = {}

    def all(self) -> Iterator[LiveSubscriber]:
        """All subscribers, the oldest first."""
        return iter(self._subscribers)

    def add(
        self,
        identity: Identity,
        address: str,
        transport: str,
        mode: str,
        destination: Destination,
        connection: str = "",
    ) -> LiveSubscriber:
        """Add a subscriber. Each needs a `remove`."""
        subscriber = LiveSubscriber(
            f"l{next(self._numbers)}",
            identity,
            address,
            transport,
            mode,
            destination,
            connection,
            time.time(),
        )
        self._subscribers[subscriber] = None
        return subscriber

    def remove(self, subscriber: LiveSubscriber) -> None:
        """Remove a subscriber. Twice is harmless."""
        self._subscribers.pop(subscriber, None)
