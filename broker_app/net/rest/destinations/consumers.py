"""Consumers over HTTP: who receives from a queue, or what is published to a topic, and how each keeps up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from broker_app.base.refused import Refused
from broker_app.core.model import Subscription
from broker_app.core.topics.topic import Match
from broker_app.engine.client import EngineClient
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.connections.endpoints import is_own
from broker_app.net.stomp.connections import MAX_CONSUMERS, Connections
from broker_app.rules.event import BROWSE
from broker_app.telemetry.statistics import consumer, hold_s

#: facts of its connection that a consumer shows
PROTOCOLS = ("client", "address", "protocol", "transport")


class ConsumerEndpoints:
    """Endpoints `queues/{name}/consumers` and `topics/{name}/consumers`: in the order in which they came."""

    def __init__(self, engine_client: EngineClient, connections: Connections) -> None:
        self._engine_client = engine_client
        self._connections = connections

    async def of_queue(self, request: Request) -> Reply:
        """GET queues/{name}/consumers"""
        request.query(("queue",))
        destination = request.permitted(BROWSE, "/queue/" + request.name)
        queue = self._engine_client.engine.broker.destinations.queues.get(destination.address)
        if queue is None:
            raise Refused("not-found", f"there is no queue {destination.name}")
        return self._page(request, list(islice(queue.consumers, MAX_CONSUMERS)), len(queue.consumers))

    async def of_topic(self, request: Request) -> Reply:
        """GET topics/{name}/consumers: all subscriptions that match the topic"""
        request.query(("topic",))
        destination = request.permitted(BROWSE, "/topic/" + request.name)
        match = self._engine_client.engine.broker.destinations.topics.match(destination.name)
        found = list(islice(receivers(match), MAX_CONSUMERS))
        total = len(found) if len(found) < MAX_CONSUMERS else sum(1 for _ in receivers(match))
        return self._page(request, found, total)

    def _page(self, request: Request, found: Iterable[Subscription], total: int) -> Reply:
        sessions = self._connections.by_id()
        sees_all = request.access.is_unruled(request.client.identity)

        def row(subscription: Subscription) -> dict[str, object]:
            session = sessions.get(subscription.peer.connection)
            if session is not None and not (sees_all or is_own(request, session)):
                session = None  # rules hide the connections of others
            facts = consumer(self._engine_client.engine.broker, subscription)
            came_by = {
                name: self._connections.members[name](session) if session else None for name in PROTOCOLS
            }
            return {**facts, **came_by, "hold_s": hold_s(subscription)}

        return json_reply({"items": [row(each) for each in found], "next": None, "approx_total": total})


def receivers(match: Match) -> Iterator[Subscription]:
    """The consumers that match the name of a topic; of durable subscriptions, the connected ones."""
    for group in match.fanout_groups:
        yield from group.members
    yield from match.singles
    for named in match.named:
        yield from named.queue.consumers
