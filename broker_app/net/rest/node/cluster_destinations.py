"""The destinations of a cluster over HTTP, for administrators: what each broker has of each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, TOPIC, is_reserved, of_name
from broker_app.core.model import Subscription
from broker_app.core.policy import SCOPED_LIMITS
from broker_app.features.cluster.destination_pages import (
    MOST_DESTINATIONS,
    BrokerDestination,
    DestinationsPage,
    DestinationsQuestion,
)
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.cluster.status import no_cluster
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing, cursor_of
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.destinations.consumers import receivers
from broker_app.telemetry import Statistics

_PARAMETERS: Final = ("limit", "after", "q", "destination")


class ClusterDestinationEndpoints:
    """The endpoint `cluster/destinations`. `pages` are those of other brokers, None in no cluster."""

    def __init__(
        self,
        broker: Broker,
        statistics: Statistics,
        pages: Callable[[], RemotePages | None],
        limits: RestLimits,
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._pages = pages
        self._max_page = min(limits.max_page, MOST_DESTINATIONS)
        self._listing = Listing[str](
            {"address": str, "row": self._destination}, {}, MOST_DESTINATIONS, sort="address", last="address"
        )

    def handlers(self) -> Handlers:
        """The endpoint by its operation."""
        return {"list_cluster_destinations": self.all}

    async def all(self, request: Request) -> Reply:
        """GET cluster/destinations: what each broker has of each destination"""
        query = request.query(_PARAMETERS)
        request.require_administrator("the cluster is")
        pages = self._pages()
        if pages is None:
            raise no_cluster()
        wanted = query.get("destination", "")
        question = DestinationsQuestion(
            limit=whole_number(query, "limit", min(100, self._max_page), 1, self._max_page),
            after=query.get("after"),
            q=query.get("q", ""),
            address=of_name(wanted).address if wanted else "",
        )
        found = {pages.name: await self.own(question)}
        others = pages.linked()
        answers = await asyncio.gather(*(_ask(pages, broker, question) for broker in others))
        found |= {broker: page for broker, page in zip(others, answers, strict=True) if page is not None}
        not_shown = sorted({*pages.others()} - found.keys())
        return json_reply({**_merged(found, question.limit), "not_shown": not_shown})

    async def own(self, question: DestinationsQuestion) -> DestinationsPage:
        """The destinations of this broker. Raises Refused for a question that cannot be answered."""
        query = {"limit": str(question.limit), "fields": "row"}
        if question.after is not None:
            query["after"] = question.after
        if question.q:
            query["q"] = question.q
        page = await self._listing.page_of_many(self._addresses(question.address), query)
        rows = [cast(BrokerDestination, item["row"]) for item in page.items]
        return DestinationsPage(rows=rows, more=page.next is not None, total=page.approx_total)

    def _addresses(self, wanted: str) -> Iterator[str]:
        """The addresses of queues and topics that others may see; of the `wanted` one alone, unless it is
        empty."""
        broker = self._broker
        topics = (f"/{TOPIC}/{name}" for name in broker.publisher.topic_published)
        every = dict.fromkeys((*broker.destinations.queues, *broker.turn.policies.exact, *topics))
        for address in (wanted,) if wanted else every:
            kind, _, name = address.removeprefix("/").partition("/")
            if address in every and kind in (QUEUE, TOPIC) and not is_reserved(name):
                yield address

    def _destination(self, address: str) -> BrokerDestination:
        broker, statistics = self._broker, self._statistics
        policy = broker.turn.policies.of(address)
        is_there = address.startswith(f"/{TOPIC}/") or statistics.exists(address)
        figures = statistics.brief(address) if is_there else None  # a queue may be deleted by now
        return BrokerDestination(
            address=address,
            depth=figures["depth"] if figures else 0,
            unsettled=figures["unsettled"] if figures else 0,
            consumers=sum(not one.remote for one in self._consumers(address)),
            scope=policy.scope,
            **{name: getattr(policy, name) for name in SCOPED_LIMITS},
        )

    def _consumers(self, address: str) -> Iterator[Subscription]:
        destinations = self._broker.destinations
        if address.startswith(f"/{TOPIC}/"):
            yield from receivers(destinations.topics.match(address.removeprefix(f"/{TOPIC}/")))
        elif (queue := destinations.queues.get(address)) is not None:
            yield from queue.consumers


async def _ask(pages: RemotePages, broker: str, question: DestinationsQuestion) -> DestinationsPage | None:
    """The destinations of another broker; None of one that does not answer."""
    try:
        return await pages.ask_destinations(broker, question)
    except Refused:
        return None


def _merged(pages: dict[str, DestinationsPage], limit: int) -> Facts:
    """The first destinations of all brokers, each with the row of every broker that has it. Each page has
    the first ones of its broker, so that none of these is missing."""
    rows = sorted(
        ((row.address, broker, row) for broker, page in pages.items() for row in page.rows),
        key=lambda found: found[:2],
    )
    addresses = list(dict.fromkeys(address for address, _, _ in rows))
    shown = set(addresses[:limit])
    is_more = len(addresses) > limit or (bool(addresses) and any(page.more for page in pages.values()))
    return {
        "items": [
            {"broker": broker, **msgspec.structs.asdict(row)}
            for address, broker, row in rows
            if address in shown
        ],
        "next": cursor_of((addresses[:limit][-1],)) if is_more else None,
        "approx_total": max(page.total for page in pages.values()),
    }
