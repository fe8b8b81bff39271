"""Metrics of single destinations, and of single flows of bridges: as many as a reply may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, TOPIC, parse
from broker_app.core.topic import matches
from broker_app.telemetry.metrics.families import Collected, Labels
from broker_app.telemetry.statistics import Statistics

_Found = TypeVar("_Found")

#: objects of one reply: unless asked for another number, and at most
LIMIT: Final = 1_000
MAX_LIMIT: Final = 10_000
#: states of a flow, of which one has the value 1
FLOW_STATES: Final = ("suspended", "starting", "running", "retrying", "stalled", "failed")

#: by name of the family, the figure of a destination
_OF_DESTINATION: Final = {
    "mom_destination_oldest_message_age_seconds": "oldest_s",
    "mom_destination_consumers": "consumers",
    "mom_destination_published_total": "published",
    "mom_destination_delivered_total": "delivered",
    "mom_destination_acked_total": "acknowledged",
    "mom_destination_dead_lettered_total": "dead",
    "mom_destination_expired_total": "expired",
}
#: by state, the figure of a destination
_WAITING: Final = {"ready": "depth", "leased": "unsettled", "delayed": "delayed"}
_OF_FLOW: Final = {
    "mom_bridge_flow_backlog_messages": "depth",
    "mom_bridge_flow_sent_total": "sent",
    "mom_bridge_flow_acked_total": "accepted",
    "mom_bridge_flow_duplicates_total": "duplicate",
    "mom_bridge_flow_refused_total": "refused",
}


class DetailedMetrics:
    """Reads metrics by object. `bridges` returns the status of all."""

    def __init__(
        self, broker: Broker, statistics: Statistics, bridges: Callable[[], Sequence[Mapping[str, Any]]]
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._bridges = bridges

    def of_destinations(self, pattern: str, limit: int) -> Collected:
        """Queues and topics whose name fits a pattern such as `orders.*` (empty: all), at most `limit`;
        temporary ones are private."""
        chosen, left_out = _first(self._addresses(pattern), limit)
        rows = {address: self._statistics.full(address) for address in chosen}
        waiting: dict[Labels, float] = {}
        for address, row in rows.items():
            for state, figure in _WAITING.items():
                waiting[address, state] = row[figure]
        yield "mom_destination_messages", waiting
        for name, figure in _OF_DESTINATION.items():
            yield name, {(address,): row[figure] for address, row in rows.items()}
        yield (
            "mom_destination_limit_ratio",
            {(address,): row["fill"] for address, row in rows.items() if row["fill"] is not None},
        )
        yield "mom_destinations_left_out", {(): left_out}

    def _addresses(self, pattern: str) -> Iterator[str]:
        queues = (address for address in self._broker.destinations.queues if address.startswith("/queue/"))
        topics = (f"/topic/{name}" for name in self._broker.publisher.topic_published)
        for address in (*queues, *topics):
            destination = parse(address)
            if destination.kind in (QUEUE, TOPIC) and (not pattern or matches(pattern, destination.name)):
                yield address

    def of_flows(self, pattern: str, limit: int) -> Collected:
        """Flows whose queue at the remote broker fits a pattern (empty: all), at most `limit`."""
        fitting = (
            (report["name"], flow)
            for report in self._bridges()
            for flow in report["flows"]
            if not pattern or matches(pattern, flow["queue"])
        )
        chosen, left_out = _first(fitting, limit)
        yield (
            "mom_bridge_flow_state",
            {
                (bridge, flow["queue"], state): int(flow["state"] == state)
                for bridge, flow in chosen
                for state in FLOW_STATES
            },
        )
        for name, figure in _OF_FLOW.items():
            yield name, {(bridge, flow["queue"]): flow[figure] for bridge, flow in chosen}
        yield "mom_bridge_flows_left_out", {(): left_out}


def _first(found: Iterable[_Found], limit: int) -> tuple[list[_Found], int]:
    """The first of them, and how many are left."""
    remaining = iter(found)
    return list(islice(remaining, limit)), sum(1 for _ in remaining)
