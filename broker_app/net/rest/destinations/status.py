"""The status of queues and topics: lists, and the details of one. Reading creates nothing.

The control plane writes their settings at the same URLs (`web.api.destinations`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, TOPIC, is_reserved, parse
from broker_app.core.model import Queue, Subscription
from broker_app.core.policy import CLUSTER, SCOPED_LIMITS
from broker_app.engine.client import EngineClient
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, several
from broker_app.net.policy.destination_settings import Destinations, is_pattern
from broker_app.net.policy.policy import ADMINISTER
from broker_app.net.rest.destinations.consumers import receivers
from broker_app.net.rest.destinations.propagation import propagation_of
from broker_app.rules.event import BROWSE, METHODS
from broker_app.telemetry import Statistics, health
from broker_app.telemetry.figures import ConsumerFigures
from broker_app.telemetry.health import Health
from broker_app.telemetry.statistics import consumer

#: subscriptions that the facts of one destination list
MAX_SUBSCRIPTIONS = 100


class QueueEndpoints:
    """Endpoints below `queues`. `settings` returns the present settings of destinations, `polls` the number
    of receive requests for an address."""

    def __init__(
        self,
        engine_client: EngineClient,
        settings: Callable[[], Destinations],
        statistics: Statistics,
        limits: RestLimits,
        polls: Callable[[str], int],
    ) -> None:
        self._engine_client = engine_client
        self._settings = settings
        of = _States(statistics)
        delayed = engine_client.engine.broker.scheduler.delayed
        facts: Mapping[str, Callable[[Queue], Any]] = {
            "name": lambda queue: queue.address.removeprefix("/queue/"),
            "depth": lambda queue: queue.depth,
            "delayed": lambda queue: delayed(queue.address),
            "unsettled": lambda queue: queue.unsettled,
            "consumers": lambda queue: len(queue.consumers),
            "oldest_s": _oldest_s,
            "published": lambda queue: queue.counters.published,
            "delivered": lambda queue: queue.counters.delivered,
            "fetched": lambda queue: queue.counters.fetched,
            "polls": lambda queue: polls(queue.address),
            "acknowledged": lambda queue: queue.counters.acked,
            "expired": lambda queue: queue.counters.expired,
            "dead": lambda queue: queue.counters.dead,
            "removed": lambda queue: queue.counters.removed,
            "discarded": lambda queue: queue.counters.discarded,
            "paused": lambda queue: queue.policy.paused,
            "declared": lambda queue: queue.address in self._settings().rows,
            "propagation": lambda queue: propagation_of(engine_client.engine.broker, queue),
            **{name: _of_queue(figure) for name, figure in of.figures.items()},
        }
        filters: Mapping[str, Callable[[Queue], bool]] = {
            "empty": lambda queue: not (queue.depth or queue.unsettled or delayed(queue.address)),
            "consumed": lambda queue: bool(queue.consumers),
            "declared": facts["declared"],
        }
        self._listing = Listing(
            facts,
            filters,
            limits.max_page,
            matches={"state": lambda queue, text: of.is_in_state(queue.address, text)},
            ranks={name: _of_queue(rank) for name, rank in of.ranks.items()},
            sortable=facts.keys() - {"trend"},
            on_request=("trend",),
        )

    async def all(self, request: Request) -> Reply:
        """GET queues, or one of them with `?queue=`. Temporary queues are their owners' affair."""
        query = request.query((*self._listing.parameters, "queue"))
        if "queue" in query:
            request.name = query.pop("queue")
            return await self.one(request)
        _check_states(query)
        queues = await self._engine_client.inspect(lambda: list(self._queues()))
        seen = await request.access.visible(request.client, [queue.address for queue in queues])
        page = await self._listing.page_of_many((queue for queue in queues if queue.address in seen), query)
        return json_reply(page._asdict())

    async def one(self, request: Request) -> Reply:
        """GET queues/{name}"""
        request.query(("queue",))
        return await self.of(request, request.permitted(BROWSE, f"/{QUEUE}/{request.name}").address)

    async def of(self, request: Request, address: str) -> Reply:
        """The facts of a queue. Raises Refused when there is none."""
        settings = self._settings()
        facts = await self._engine_client.inspect(
            lambda: self._facts(address, declared=address in settings.rows)
        )
        return _with_settings(facts | {"permissions": _rights(request, address)}, settings, address)

    def names(self) -> list[str]:
        """Of all queues but temporary ones."""
        return [queue.address.removeprefix("/queue/") for queue in self._queues()]

    def _queues(self) -> Iterator[Queue]:
        for address, queue in self._engine_client.engine.broker.destinations.queues.items():
            if address.startswith("/queue/"):
                yield queue

    def _facts(self, address: str, *, declared: bool) -> dict[str, object]:
        queue = self._engine_client.engine.broker.destinations.queues.get(address)
        if queue is None and not declared:
            raise Refused("not-found", f"there is no queue {address}; queues are made by their first use")
        # What was declared a moment ago, or removed without taking back its settings, is empty.
        queue = queue or Queue(address, durable=True)
        broker = self._engine_client.engine.broker
        return self._listing.row(queue) | {
            "dedup": _dedup(broker, address),
            "subscriptions": _subscriptions(broker, queue.consumers),
            "limits": _limits(broker, address),
            "usage": _usage(queue),
        }


class TopicEndpoints:
    """Endpoints below `topics`. A topic exists when it was published or subscribed to, or when it
    has settings."""

    def __init__(
        self,
        engine_client: EngineClient,
        settings: Callable[[], Destinations],
        statistics: Statistics,
        limits: RestLimits,
    ) -> None:
        self._engine_client = engine_client
        self._settings = settings
        of = _States(statistics)
        broker = engine_client.engine.broker
        facts: Mapping[str, Callable[[str], Any]] = {
            "name": lambda name: name,
            "published": lambda name: broker.publisher.topic_published.get(name, 0),
            "consumers": lambda name: sum(1 for _ in self._matching(name)),
            "named": lambda name: len(broker.destinations.topics.match(name).named),
            "paused": lambda name: broker.turn.policies.of(f"/topic/{name}").paused,
            "declared": lambda name: f"/topic/{name}" in self._settings().rows,
            "depth": lambda name: statistics.brief(f"/topic/{name}")["depth"],
            "unsettled": lambda name: statistics.brief(f"/topic/{name}")["unsettled"],
            **{
                name: _of_topic(figure)
                for name, figure in of.figures.items()
                if name not in ("fill", "full_in_s")
            },
        }
        filters: Mapping[str, Callable[[str], bool]] = {
            "consumed": lambda name: any(True for _ in self._matching(name)),
            "declared": facts["declared"],
        }
        self._listing = Listing(
            facts,
            filters,
            limits.max_page,
            matches={"state": lambda name, text: of.is_in_state(f"/topic/{name}", text)},
            ranks={"state": _of_topic(of.ranks["state"])},
            sortable=facts.keys() - {"trend"},
            on_request=("trend",),
        )

    async def all(self, request: Request) -> Reply:
        """GET topics, or one of them with `?topic=`."""
        query = request.query((*self._listing.parameters, "topic"))
        if "topic" in query:
            request.name = query.pop("topic")
            return await self.one(request)
        _check_states(query)
        names = await self._engine_client.inspect(self.names)
        seen = await request.access.visible(request.client, [f"/topic/{name}" for name in names])
        page = await self._listing.page_of_many((name for name in names if f"/topic/{name}" in seen), query)
        return json_reply(page._asdict())

    async def one(self, request: Request) -> Reply:
        """GET topics/{name}"""
        request.query(("topic",))
        name = request.permitted(BROWSE, f"/{TOPIC}/{request.name}").name
        facts = await self._engine_client.inspect(lambda: self._facts(name))
        address = f"/{TOPIC}/{name}"
        return _with_settings(facts | {"permissions": _rights(request, address)}, self._settings(), address)

    def _facts(self, name: str) -> dict[str, object]:
        facts = self._listing.row(name)
        if not (facts["consumers"] or facts["named"] or facts["declared"] or name in self.names()):
            raise Refused("not-found", f"the topic {name!r} has neither messages nor subscriptions")
        broker = self._engine_client.engine.broker
        return facts | {
            "dedup": _dedup(broker, f"/{TOPIC}/{name}"),
            "subscriptions": _subscriptions(broker, self._matching(name)),
            "limits": _limits(broker, f"/{TOPIC}/{name}"),
        }

    def names(self) -> set[str]:
        """Of all topics with messages or settings."""
        with_settings = (
            at for at in self._settings().rows if at.startswith("/topic/") and not is_pattern(at)
        )
        declared = (address.removeprefix("/topic/") for address in with_settings)
        published = self._engine_client.engine.broker.publisher.topic_published
        return {name for name in (*published, *declared) if not is_reserved(name)}

    def _matching(self, name: str) -> Iterator[Subscription]:
        return receivers(self._engine_client.engine.broker.destinations.topics.match(name))


class _States:
    """The statistics of a destination, by its address. It may be deleted by now."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self.figures: Mapping[str, Callable[[str], Any]] = {
            "in_rate": lambda address: statistics.rates(address)[0],
            "out_rate": lambda address: statistics.rates(address)[1],
            "state": lambda address: self._condition(address).state,
            "fill": lambda address: self._condition(address).fill,
            "full_in_s": lambda address: self._condition(address).full_in_s,
            "trend": statistics.trend,
        }
        #: by what they are sorted: states by how bad they are, the worst first, and what has no limit behind
        self.ranks: Mapping[str, Callable[[str], float]] = {
            "state": lambda address: health.RANK[self._condition(address).state],
            "fill": lambda address: _or(self._condition(address).fill, -1.0),
            "full_in_s": lambda address: _or(self._condition(address).full_in_s, 1e12),
        }

    def is_in_state(self, address: str, states: str) -> bool:
        return self._condition(address).state in states.split(",")

    def _condition(self, address: str) -> Health:
        if address.startswith("/topic/") or self._statistics.exists(address):
            return self._statistics.condition(address)
        return Health(health.IDLE)


def _or(number: float | None, otherwise: float) -> float:
    return otherwise if number is None else number


def _of_queue(figure: Callable[[str], Any]) -> Callable[[Queue], Any]:
    return lambda queue: figure(queue.address)


def _of_topic(figure: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda name: figure(f"/topic/{name}")


def _check_states(query: dict[str, str]) -> None:
    """Raises Refused when `state` names one that there is not."""
    several("query/state", query.get("state", health.IDLE).split(","), health.STATES, "state")


def _with_settings(facts: dict[str, object], settings: Destinations, address: str) -> Reply:
    """The status of a destination with its effective settings. The ETag is that of its own settings."""
    facts["settings"] = {
        name: {"value": value, "source": source}
        for name, (value, source) in settings.effective(address).items()
    }
    return json_reply(facts, headers=[(b"etag", b'"%d"' % settings.version(address))])


def _rights(request: Request, address: str) -> list[str]:
    """The rights of the client to a destination, as rules and tokens name them, and "administer"."""
    destination = parse(address)
    rights = [right for right in METHODS if request.access.allows(request.client, right, destination)]
    return [*rights, *([ADMINISTER] if request.access.is_admin(request.client.identity) else [])]


def _limits(broker: Broker, address: str) -> dict[str, dict[str, object]]:
    """The limits that apply to each broker of a cluster or to all of them, and those of all together."""
    policy, brokers = broker.turn.policies.of(address), broker.cluster_usage.brokers()
    factor = 1 if policy.scope == CLUSTER else brokers
    limits = {name: getattr(policy, name) for name in SCOPED_LIMITS}
    return {
        name: {"limit": limit, "scope": policy.scope, "brokers": brokers, "effective": limit * factor}
        for name, limit in limits.items()
    }


def _usage(queue: Queue) -> dict[str, int | None]:
    """The used part of each limit; None without a limit, when nothing is counted."""
    guard = queue.limit_usage
    return {
        "messages": queue.depth + queue.unsettled,
        "bytes": guard.estimated_bytes if guard and guard.policy.max_bytes else None,
        "producers": len(guard.producers) if guard and guard.policy.max_producers else None,
        "consumers": len(queue.consumers),
    }


def _subscriptions(broker: Broker, subscriptions: Iterable[Subscription]) -> list[ConsumerFigures]:
    return [consumer(broker, subscription) for subscription in islice(subscriptions, MAX_SUBSCRIPTIONS)]


def _dedup(broker: Broker, address: str) -> dict[str, object]:
    """The number of remembered dedup-ids, and their window, which too many of them shorten."""
    ids, window_ms = broker.publisher.dedup_windows.facts(
        address, broker.turn.now_ms, broker.turn.policies.of(address).dedup_window_ms
    )
    return {"ids": ids, "window_s": window_ms / 1000}


def _oldest_s(queue: Queue) -> float:
    """Age in seconds of the message in memory that waits longest; 0 when none does."""
    oldest = queue.oldest_in_memory()
    return round(max(0.0, time.time() - oldest.time_ms / 1000), 3) if oldest else 0.0
