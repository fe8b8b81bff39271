"""Metrics of a node as a whole: messages, destinations, clients, journal, bridges, mirrors, links."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from broker_app.base.internal_errors import internal_errors
from broker_app.base.reply_types import Facts
from broker_app.base.states import BRIDGE, MIRROR
from broker_app.core.broker import Broker
from broker_app.telemetry.alerts.alert import FIRING, Alert
from broker_app.telemetry.component_health import RUNNING, Component
from broker_app.telemetry.metrics.families import Collected, Histogram, Labels, Samples
from broker_app.telemetry.statistics import Statistics, resident_bytes

#: `reason` of messages that were discarded for another reason than those of dead letters
OTHER = "OTHER"
ACTIVE, STANDBY, *_ = MIRROR
#: components of one reply
MAX_COMPONENTS = 1_000


class Connections(Protocol):
    """The STOMP connections of a node."""

    #: connections that logged in, and that ended, by protocol
    opened_total: Counter[str]
    closed_total: Counter[str]

    @property
    def bytes_total(self) -> tuple[int, int]:
        """Bytes from all clients, and to them."""


class Decisions(Protocol):
    """The decisions of authorization rules since the start."""

    allowed_total: int
    denied_total: int


class Sources(NamedTuple):
    """The parts of a node besides its broker: the figures of its journal, with the name of its `backend`; its
    connections and decisions; what has a health; open alerts; and what its `features` measure."""

    backend: str
    journal: Callable[[], Mapping[str, int]]
    connections: Connections
    decisions: Decisions
    components: Callable[[], Iterable[Component]] = tuple
    alerts: Callable[[], Iterable[Alert]] = tuple
    features: Callable[[], Collected] = lambda: iter(())


class NodeMetrics:
    """Reads the metrics of a node. `name` is that of the broker."""

    def __init__(
        self, broker: Broker, statistics: Statistics, name: str, version: str, sources: Sources
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._name = name
        self._version = version
        self._sources = sources
        self._started = time.time()

    def collect(self) -> Collected:
        """All families that have samples."""
        yield from of_build(self._version, self._name, ACTIVE)
        yield from self._of_messages()
        yield from self._of_destinations()
        yield from self._of_clients()
        yield from self._of_journal()
        yield from self._sources.features()
        yield from of_components(self._sources.components())
        firing = (alert for alert in self._sources.alerts() if alert.state == FIRING)
        yield "mom_alerts_firing", Counter((alert.rule, alert.severity) for alert in firing)
        yield from self._of_node()

    def _of_messages(self) -> Collected:
        totals, turn = self._statistics.message_totals(), self._broker.turn
        counters = turn.counters
        yield "mom_messages_published_total", _kinds(totals.published, totals.published_to_topics)
        yield "mom_messages_delivered_total", _kinds(totals.delivered, totals.delivered_of_topics)
        yield "mom_messages_acked_total", _kinds(totals.acked, totals.acked_of_topics)
        yield "mom_messages_redelivered_total", _one(counters["redelivered"])
        yield "mom_messages_expired_total", _one(counters["expired"])
        yield "mom_messages_refused_total", _one(counters["refused"])
        yield "mom_messages_duplicate_total", _one(counters["duplicates"])
        yield "mom_messages_dead_lettered_total", _by(turn.dead)
        others = counters["discarded"] - turn.dropped.total()
        yield "mom_messages_dropped_total", _by({**turn.dropped, OTHER: others})

    def _of_destinations(self) -> Collected:
        broker, node = self._broker, self._statistics.head()["node"]
        queues, schedules = broker.destinations.queues, broker.scheduler.schedules
        yield (
            "mom_destinations",
            {
                ("queue",): len(queues),
                ("topic",): node["destinations"] - len(queues),
            },
        )
        yield (
            "mom_destination_messages",
            {
                ("ready",): node["backlog"],
                ("leased",): node["unsettled"],
                ("dead",): node["dead"],
                ("delayed",): sum(map(len, schedules.values())),
            },
        )
        yield "mom_destination_oldest_message_age_seconds", _one(node["oldest_s"])

    def _of_clients(self) -> Collected:
        connections, broker = self._sources.connections, self._broker
        opened, closed = connections.opened_total, connections.closed_total
        yield "mom_connections", _by({kind: opened[kind] - closed[kind] for kind in opened})
        yield "mom_connections_opened_total", _by(opened)
        yield "mom_connections_closed_total", _by(closed)
        received, sent = connections.bytes_total
        yield "mom_network_received_bytes_total", _one(received)
        yield "mom_network_sent_bytes_total", _one(sent)
        yield "mom_subscriptions", _one(sum(len(peer.subscriptions) for peer in broker.unsettled.peers))
        yield "mom_slow_consumers", _one(len(broker.subscriptions.slow_consumers))
        yield "mom_blocked_bytes", _one(broker.admission.blocked.bytes)
        decisions = self._sources.decisions
        yield (
            "mom_rule_decisions_total",
            {
                ("allowed",): decisions.allowed_total,
                ("denied",): decisions.denied_total,
            },
        )

    def _of_journal(self) -> Collected:
        figures, backend = self._sources.journal(), self._sources.backend
        for name, figure in (
            ("mom_journal_commits_total", "commits"),
            ("mom_journal_commit_records_total", "records"),
            ("mom_journal_written_bytes_total", "bytes_written"),
            ("mom_journal_snapshots_total", "snapshots"),
            ("mom_journal_live_records", "live_records"),
        ):
            yield name, {(backend,): figures[figure]}
        yield (
            "mom_journal_bytes",
            {
                (backend, "log"): figures["bytes_stored"],
                (backend, "files"): figures["bytes_on_disk"],
            },
        )
        yield "mom_epoch", _one(figures["epoch"])

    def _of_node(self) -> Collected:
        yield "mom_start_timestamp_seconds", _one(self._started)
        yield "mom_resident_memory_bytes", _one(resident_bytes())
        alarm = self._broker.resource_alarms.alarm
        yield "mom_resource_alarm", {(alarm.code,): 1} if alarm is not None else {}
        yield "mom_event_loop_lag_seconds", _one(self._statistics.loop_lag.lag_s(60))
        yield "mom_internal_errors_total", _one(internal_errors.total)


def of_build(version: str, name: str, role: str) -> Collected:
    """The program, and the broker `name` in its role."""
    yield "mom_build_info", {(version,): 1}
    yield "mom_node_info", {(name, role): 1}


def of_mirrors(status: Facts) -> Collected:
    """The lease, and the standbys; `status` is that of `Mirror.status`."""
    lease, holds = status["lease"], status["state"] == ACTIVE
    yield "mom_lease_held", _one(int(holds))
    if holds and lease is not None:
        yield "mom_lease_trusted_seconds", _one(lease["left_s"])
    standbys = [member for member in status["brokers"] if member["state"] == STANDBY]
    yield "mom_mirror_in_step", {(one["id"],): int(one["in_step"]) for one in standbys}
    yield "mom_mirror_lag_records", {(one["id"],): one["lag_records"] for one in standbys}
    yield "mom_mirror_lag_seconds", {(one["id"],): one["lag_s"] for one in standbys}


def of_cluster(status: Facts) -> Collected:
    """The links to the other brokers, and the keeper if there is one."""
    links = status["links"]
    yield "mom_cluster_link_up", {(link["broker"],): int(link["state"] == "up") for link in links}
    for figure in ("sent", "received", "returned"):
        yield f"mom_cluster_link_{figure}_total", {(link["broker"],): link[figure] for link in links}
    yield (
        "mom_cluster_link_unsettled",
        {(link["broker"], at): link[f"unsettled_{at}"] for link in links for at in ("there", "here")},
    )
    yield (
        "mom_cluster_link_round_trip_seconds",
        {
            (link["broker"],): link["round_trip_ms"] / 1000
            for link in links
            if link["round_trip_ms"] is not None
        },
    )
    if status["keeper"]:
        yield "mom_cluster_keeper_up", _one(int(not status["keeper_state"]))
    if discovery := status["discovery"]:
        yield (
            "mom_cluster_discovery_up",
            {(one["way"], one["place"]): int(not one["error"]) for one in discovery},
        )
    if status["enhanced"] is not None:
        yield from _of_enhanced(status["enhanced"])


def _of_enhanced(enhanced: Facts) -> Collected:
    """The members of an enhanced cluster, and the takeovers by this broker since it started."""
    states = Counter(member["state"] for member in enhanced["members"])
    yield "mom_cluster_members", {(state,): number for state, number in sorted(states.items())}
    totals = enhanced["totals"]
    yield "mom_cluster_takeovers_total", {(result,): totals[result] for result in ("complete", "failed")}
    yield "mom_cluster_takeover_messages_total", _one(totals["messages"])
    yield "mom_cluster_takeover_lost_messages_total", _one(totals["lost_messages"])
    if totals["last_took_s"] is not None:
        yield "mom_cluster_takeover_last_seconds", _one(totals["last_took_s"])
    yield "mom_cluster_takeover_refusing_seconds_total", _one(totals["refused_s"])


def of_sites(sites: Sequence[Facts]) -> Collected:
    """The sites of message channels, as a broker reports them."""
    here = [site["handlers"] for site in sites if site["is_here"]]
    if here:
        yield "mom_channel_handlers", _one(here[0])
    yield "mom_channel_in_flight", {(site["name"],): site["in_flight"] for site in sites}
    for figure in ("sent", "received"):
        yield f"mom_channel_{figure}_total", {(site["name"],): site[figure] for site in sites}
    for figure in ("dropped", "failed"):
        yield (
            f"mom_channel_{figure}_total",
            {(site["name"], why): count for site in sites for why, count in sorted(site[figure].items())},
        )
    yield (
        "mom_channel_round_trip_seconds",
        {
            (site["name"],): site["round_trip_ms"] / 1000
            for site in sites
            if site["round_trip_ms"] is not None
        },
    )


def of_bridges(reports: Sequence[Facts]) -> Collected:
    """The bridges; `reports` are their statuses."""
    yield (
        "mom_bridge_state",
        {(report["name"], state): int(report["state"] == state) for report in reports for state in BRIDGE},
    )
    for name, figure in (
        ("mom_bridge_backlog_messages", "backlog"),
        ("mom_bridge_oldest_seconds", "oldest_s"),
        ("mom_bridge_sent_total", "sent"),
        ("mom_bridge_acked_total", "accepted"),
        ("mom_bridge_duplicates_total", "duplicate"),
        ("mom_bridge_refused_total", "refused"),
    ):
        yield name, {(report["name"],): report[figure] for report in reports}
    yield (
        "mom_bridge_last_progress_timestamp_seconds",
        {
            (report["name"],): datetime.fromisoformat(report["progress_at"]).timestamp()
            for report in reports
            if report["progress_at"]
        },
    )


def of_components(components: Iterable[Component]) -> Collected:
    """The health of components, as many as a reply may have; what does not run comes first."""
    ordered = sorted(components, key=lambda one: one.health == RUNNING)
    shown = ordered[:MAX_COMPONENTS]
    yield "mom_component_health", {(one.kind, one.name, one.health): 1 for one in shown}
    yield "mom_components_left_out", _one(len(ordered) - len(shown))


def of_callbacks(totals: Facts) -> Collected:
    """The callbacks; `totals` are those of their supervisor."""
    yield "mom_callback_pushes_total", _by(totals["pushes"])
    yield "mom_callback_retries_total", _one(totals["retries"])
    yield "mom_callback_push_seconds", {(): Histogram(*totals["durations"])}
    yield "mom_callback_dead_lettered_total", _one(totals["dead_lettered"])
    yield "mom_callback_pending", _one(totals["pending"])
    yield "mom_callback_in_flight", _one(totals["in_flight"])
    yield "mom_callback_breaker_open", _one(totals["open_breakers"])


def _one(value: float) -> Samples:
    """The sample of a family without labels."""
    return {(): value}


def _by(values: Mapping[str, float]) -> Samples:
    """The samples of a family with one label."""
    return {(label,): value for label, value in sorted(values.items())}


def _kinds(all_: int, of_topics: int) -> dict[Labels, float]:
    """Messages of queues and of topics, of which all are the sum."""
    return {("queue",): all_ - of_topics, ("topic",): of_topics}
