"""Durable and shared subscriptions: what there is, how far each lags behind, and deleting one."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.base.audit_actions import SUBSCRIPTION_DELETED
from broker_app.base.refused import Refused
from broker_app.base.states import SUBSCRIPTION
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import DURABLE_PREFIX, parse
from broker_app.core.inspection import views
from broker_app.core.model import NamedSubscription, Queue
from broker_app.core.topics.topic import matches
from broker_app.engine.client import EngineClient
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.rules.event import BROWSE, RECEIVE

OFFLINE, STALLED, ACTIVE = SUBSCRIPTION


class SubscriptionEndpoints:
    """Endpoints `subscriptions` and `topics/{name}/subscriptions`. Names are the broker's own, so that the
    address of one needs no topic."""

    def __init__(
        self,
        engine_client: EngineClient,
        journal_read: JournalRead,
        limits: RestLimits,
    ) -> None:
        self._engine_client = engine_client
        self._read = journal_read
        self._max_page = limits.max_page

    @property
    def _broker(self) -> Broker:
        return self._engine_client.engine.broker

    async def all(self, request: Request) -> Reply:
        """GET subscriptions: by name; with ?topic= those of one topic filter"""
        query = request.query(("limit", "after", "topic"))
        topic = query.get("topic")
        return await self._page(request, query, lambda filter: topic in (None, filter))

    async def of_topic(self, request: Request) -> Reply:
        """GET topics/{name}/subscriptions: those that keep what is published there, by whatever filter"""
        name = request.permitted(BROWSE, "/topic/" + request.name).name
        query = request.query(("limit", "after", "topic"))
        return await self._page(request, query, lambda filter: matches(filter, name))

    async def one(self, request: Request) -> Reply:
        """GET subscriptions/{name}"""
        request.query()
        terms = self._find(request.name).terms
        if not request.access.has_all_rights_of(request.client.identity, terms.owner):
            request.permitted(BROWSE, terms.filter)
        return json_reply(await self._engine_client.inspect(lambda: self._facts(self._find(request.name))))

    async def delete(self, request: Request) -> Reply:
        """DELETE subscriptions/{name}: its owner's right, as long as he may receive from its topic; an
        administrator's; and theirs whom a rule lets manage the topic."""
        request.query()
        terms = self._find(request.name).terms
        others_too = request.access.may_manage_of_others(request.client, parse(terms.filter))
        owner = "" if others_too else request.user
        if terms.owner == request.user:
            request.permitted(RECEIVE, terms.filter)
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(
            c.DeleteSubscription(self._engine_client.peer, request.name, owner, pending_reply)
        )
        await self._engine_client.answer(pending_reply)
        request.audit(SUBSCRIPTION_DELETED, request.name, destination=terms.filter)
        return NO_CONTENT

    async def _page(self, request: Request, query: dict[str, str], fits: Callable[[str], bool]) -> Reply:
        limit = whole_number(query, "limit", 100, 1, self._max_page)
        after = query.get("after", "")
        filters = {one.terms.filter for one in self._broker.destinations.named.values()}
        seen = await request.access.visible(request.client, filters)
        # A restricted token sees by its own grants only.
        owner = (
            request.user if request.access.has_all_rights_of(request.client.identity, request.user) else None
        )

        def look() -> dict[str, object]:
            named = self._broker.destinations.named
            fitting = sorted(
                address
                for address, one in named.items()
                if fits(one.terms.filter.removeprefix("/topic/"))
                and (one.terms.filter in seen or one.terms.owner == owner)
            )
            matching = [address for address in fitting if address > after][: limit + 1]
            rows = [self._facts(named[address]) for address in matching[:limit]]
            following = matching[limit - 1] if len(matching) > limit else None
            return {"items": rows, "next": following, "approx_total": len(fitting)}

        return json_reply(await self._engine_client.inspect(look))

    def _find(self, name: str) -> NamedSubscription:
        named = self._broker.destinations.named.get(DURABLE_PREFIX + name)
        if named is None:
            raise Refused("not-found", f"there is no durable subscription {name[:100]!r}")
        return named

    def _facts(self, named: NamedSubscription) -> dict[str, object]:
        queue, terms = named.queue, named.terms
        backlog = queue.depth
        state = OFFLINE if not queue.consumers else STALLED if backlog and not queue.available else ACTIVE
        return {
            "name": named.name,
            "topic": terms.filter.removeprefix("/topic/"),
            "durable": named.durable,
            "shared": terms.shared,
            "selector": terms.selector or None,
            "owner": terms.owner,
            "state": state,
            "consumers": len(queue.consumers),
            "backlog": backlog,
            "unsettled": queue.unsettled,
            "lag": backlog + queue.unsettled,
            "lag_s": self._lag_s(queue),
            "published": queue.counters.published,
            "delivered": queue.counters.delivered,
            "acknowledged": queue.counters.acked,
            "expired": queue.counters.expired,
            "dead": queue.counters.dead,
        }

    def _lag_s(self, queue: Queue) -> float:
        """The age of the oldest message that is not acknowledged."""
        times = [
            message.time_ms
            for peer in {consumer.peer for consumer in queue.consumers}
            for subscription, message in peer.unsettled.values()
            if subscription.queue is queue
        ]
        for oldest in views.first_of_each_priority(queue):
            if isinstance(oldest, int):
                oldest = queue.reader.message(self._read([oldest])[0], oldest)
            times.append(oldest.time_ms)
        return max(0.0, self._broker.turn.now_ms - min(times)) / 1000 if times else 0.0
