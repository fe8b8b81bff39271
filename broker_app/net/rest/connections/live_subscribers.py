"""Live subscribers over HTTP: who is called over an open connection."""

from __future__ import annotations

from typing import Any

from broker_app.base.times import rfc3339
from broker_app.core.destination import QUEUE
from broker_app.engine import Engine
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.live_subscribers import LiveSubscriber, LiveSubscribers


class LiveSubscriberEndpoint:
    """Endpoint `subscribers`."""

    def __init__(self, live: LiveSubscribers, engine: Engine, limits: RestLimits) -> None:
        self._live = live
        self._engine = engine
        self._listing = Listing[LiveSubscriber](
            {
                "id": lambda one: one.id,
                "name": lambda one: one.destination.name,
                "user": lambda one: one.identity.user,
                "address": lambda one: one.address,
                "transport": lambda one: one.transport,
                "mode": lambda one: one.mode,
                "source": lambda one: one.destination.address,
                "connection": lambda one: one.connection or None,
                "since": lambda one: rfc3339(one.since_s),
                "events": lambda one: one.events,
                "last_at": lambda one: rfc3339(one.last_s) if one.last_s else None,
                "pending": self._pending,
            },
            {"notify": lambda one: one.mode == "notify"},
            limits.max_page,
            sortable=("id", "name", "user", "transport", "mode", "since", "events", "pending"),
            last="id",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_subscribers": self.all,
        }

    async def all(self, request: Request) -> Reply:
        """GET subscribers: all for administrators, their own for other users."""
        query = request.query(self._listing.parameters)
        sees_all = request.access.sees_everything(request.client.identity)
        access, identity = request.access, request.client.identity
        visible = (
            one
            for one in self._live.all()
            if sees_all or access.is_own(identity, one.identity.user, one.identity.token)
        )
        page: Any = await self._listing.page_of_many(visible, query)
        return json_reply(page._asdict())

    def _pending(self, one: LiveSubscriber) -> int | None:
        """The messages that wait in its queue; None for topics."""
        if one.destination.kind != QUEUE:
            return None
        queue = self._engine.broker.destinations.queues.get(one.destination.address)
        return 0 if queue is None else queue.depth
