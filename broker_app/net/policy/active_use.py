"""What connected clients use, for telling beforehand what a change of rules would take from them."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from broker_app.core.destination import parse
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.rules.event import RECEIVE, Event

#: connections that are looked at in one go
_RUN = 100


class Using(NamedTuple):
    """A connection: who it is, without any deed, since when (seconds since the epoch), and the events about
    which its subscriptions ask the rules."""

    connection: str
    who: Event
    since_s: float
    receives: tuple[Event, ...]


async def in_use(registry: SessionRegistry) -> list[Using]:
    """All connections that are open. Others have their turn meanwhile."""
    found = []
    for at, session in enumerate(list(registry.sessions), 1):
        client = session.client
        if client is not None and session.peer.connection:
            wanted = (
                registry.access.question(client, RECEIVE, parse(subscription.address))
                for subscription in session.peer.subscriptions.values()
            )
            identity, way = client
            who = Event(
                identity.user, address=way.address, protocol=way.protocol, tls=way.tls, client=way.client
            )
            receives = tuple(event for event in wanted if event is not None)
            found.append(Using(session.peer.connection, who, session.since_s, receives))
        if at % _RUN == 0:
            await asyncio.sleep(0)
    return found
