"""Metrics of single destinations, and of single flows of bridges: as many as a reply may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from broker_app.base.reply_types import Facts
from broker_app.base.states import FLOW
from broker_app.base.turns import in_turns
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, TOPIC, parse
from broker_app.core.topics.topic import matches
from broker_app.telemetry.metrics.families import Labels, Samples
from broker_app.telemetry.statistics import Statistics

_Found = TypeVar("_Found")
Figure = Callable[[Facts], float]

#: objects of one reply: unless asked for another number, and at most
LIMIT: Final = 1_000
MAX_LIMIT: Final = 10_000
#: characters that the names of the destinations of one reply have; each is in a dozen lines of it
MAX_CHARACTERS: Final = 512 * 1024

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


#: by name of the family, the figure of a callback, and that of a reflex
_OF_CALLBACK: Final[Mapping[str, Figure]] = {
    "mom_callback_accepted_total": lambda row: row["pushes"]["accepted"],
    "mom_callback_failed_total": lambda row: sum(row["pushes"].values()) - row["pushes"]["accepted"],
    "mom_callback_failures_in_row": lambda row: row["failures_in_row"],
    "mom_callback_pending_messages": lambda row: row["pending"],
}
_OF_REFLEX: Final[Mapping[str, Figure]] = {
    "mom_reflex_calls_total": lambda row: row["calls"],
    "mom_reflex_refusals_total": lambda row: row["refusals"],
    "mom_reflex_failures_total": lambda row: row["failures"],
    "mom_reflex_failures_in_row": lambda row: row["failures_in_row"],
}


class DetailedMetrics:
    """Reads metrics by object. `bridges`, `callbacks` and `reflexes` return the reports of all."""

    def __init__(
        self,
        broker: Broker,
        statistics: Statistics,
        bridges: Callable[[], Sequence[Facts]],
        callbacks: Callable[[], Sequence[Facts]] = tuple,
        reflexes: Callable[[], Sequence[Facts]] = tuple,
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._bridges = bridges
        self._callbacks = callbacks
        self._reflexes = reflexes

    async def of_destinations(self, pattern: str, limit: int) -> list[tuple[str, Samples]]:
        """Queues and topics whose name fits a pattern such as `orders.*` (empty: all), at most `limit`;
        temporary ones are private."""
        chosen, left_out = await self._chosen(pattern, limit)
        rows: dict[str, Facts] = {}
        rows |= {address: self._statistics.full(address) async for address in in_turns(chosen)}
        waiting: dict[Labels, float] = {}
        figures: dict[str, dict[Labels, float]] = {name: {} for name in _OF_DESTINATION}
        fill: dict[Labels, float] = {}
        async for address, row in in_turns(rows.items()):
            waiting |= {(address, state): row[figure] for state, figure in _WAITING.items()}
            for name, figure in _OF_DESTINATION.items():
                figures[name][(address,)] = row[figure]
            if row["fill"] is not None:
                fill[(address,)] = row["fill"]
        return [
            ("mom_destination_messages", waiting),
            *figures.items(),
            ("mom_destination_limit_ratio", fill),
            ("mom_destinations_left_out", {(): left_out}),
        ]

    async def _chosen(self, pattern: str, limit: int) -> tuple[list[str], int]:
        """The first addresses that fit a pattern, as many as a reply may have, and how many are left."""
        queues = (address for address in self._broker.destinations.queues if address.startswith("/queue/"))
        topics = (f"/topic/{name}" for name in self._broker.publisher.topic_published)
        chosen: list[str] = []
        left_out = characters = 0
        async for address in in_turns([*queues, *topics]):
            destination = parse(address)
            if destination.kind not in (QUEUE, TOPIC) or (pattern and not matches(pattern, destination.name)):
                continue
            if len(chosen) < limit and characters < MAX_CHARACTERS:
                chosen.append(address)
                characters += len(address)
            else:
                left_out += 1
        return chosen, left_out

    async def of_flows(self, pattern: str, limit: int) -> list[tuple[str, Samples]]:
        """Flows whose queue at the remote broker fits a pattern (empty: all), at most `limit`."""
        fitting = (
            (report["name"], flow)
            for report in self._bridges()
            for flow in report["flows"]
            if not pattern or matches(pattern, flow["queue"])
        )
        chosen, left_out = _first(fitting, limit)
        states: dict[Labels, float] = {}
        figures: dict[str, dict[Labels, float]] = {name: {} for name in _OF_FLOW}
        async for bridge, flow in in_turns(chosen):
            states |= {(bridge, flow["queue"], state): int(flow["state"] == state) for state in FLOW}
            for name, figure in _OF_FLOW.items():
                figures[name][bridge, flow["queue"]] = flow[figure]
        return [
            ("mom_bridge_flow_state", states),
            *figures.items(),
            ("mom_bridge_flows_left_out", {(): left_out}),
        ]

    async def of_callbacks(self, pattern: str, limit: int) -> list[tuple[str, Samples]]:
        """Callbacks whose name fits a pattern (empty: all), at most `limit`."""
        return _of_named(self._callbacks(), _OF_CALLBACK, "mom_callbacks_left_out", pattern, limit)

    async def of_reflexes(self, pattern: str, limit: int) -> list[tuple[str, Samples]]:
        """Reflexes whose name fits a pattern (empty: all), at most `limit`."""
        return _of_named(self._reflexes(), _OF_REFLEX, "mom_reflexes_left_out", pattern, limit)


def _of_named(
    reports: Iterable[Facts], figures: Mapping[str, Figure], left: str, pattern: str, limit: int
) -> list[tuple[str, Samples]]:
    chosen, left_out = _first((row for row in reports if not pattern or matches(pattern, row["name"])), limit)
    found: dict[str, Samples] = {
        name: {(row["name"],): read(row) for row in chosen} for name, read in figures.items()
    }
    return [*found.items(), (left, {(): left_out})]


def _first(found: Iterable[_Found], limit: int) -> tuple[list[_Found], int]:
    """The first of them, and how many are left."""
    remaining = iter(found)
    return list(islice(remaining, limit)), sum(1 for _ in remaining)
