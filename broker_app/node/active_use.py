"""Permissions that connected clients use, for the preview of a change of rules."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from broker_app.core.destination import parse
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.rules.event import RECEIVE, Event

#: connections that are read before other tasks run
_RUN = 100


class ActiveUse(NamedTuple):
    """A connection: its identity as an event without an action, when it was opened (seconds since the epoch),
    and the events of its subscriptions that rules decide."""

    connection: str
    who: Event
    since_s: float
    receives: tuple[Event, ...]


async def in_use(registry: SessionRegistry) -> list[ActiveUse]:
    """Return all open connections; other tasks run in between."""
    found = []
    for at, session in enumerate(list(registry.sessions), 1):
        client = session.client
        if client is not None and session.peer.connection:
            events = (
                registry.access.event_of(client, RECEIVE, parse(subscription.address))
                for subscription in session.peer.subscriptions.values()
            )
            identity, info = client
            who = Event(
                identity.user,
                address=info.address,
                protocol=info.protocol,
                tls=info.tls,
                client=info.client,
            )
            receives = tuple(event for event in events if event is not None)
            found.append(ActiveUse(session.peer.connection, who, session.since_s, receives))
        if at % _RUN == 0:
            await asyncio.sleep(0)
    return found
