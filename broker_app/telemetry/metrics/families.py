"""Every family of metrics: name, type, labels and meaning. docs/metrics.md has the same tables.

Names begin with `mom_`, units are seconds and bytes, counters end with `_total`. Labels have few values,
except those of `DETAILED`, which name destinations and flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

#: the values of the labels of a sample, in the order of the labels of its family
Labels = tuple[str, ...]


class Histogram(NamedTuple):
    """Observations: how many are at most each bound and more than the one before, then those that are larger;
    and their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


Samples = Mapping[Labels, float | Histogram]
#: (name of the family, its samples); families without samples are left out
Collected = Iterator[tuple[str, Samples]]


class Family(NamedTuple):
    """A family of metrics."""

    name: str
    kind: str
    help: str
    labels: Labels = ()


#: upper bounds of the buckets of `mom_pipeline_batch_seconds`
BATCH_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_MESSAGES: Final = (
    Family("mom_messages_published_total", COUNTER, "messages that were accepted", ("kind",)),
    Family(
        "mom_messages_delivered_total", COUNTER, "deliveries to consumers, repeated ones included", ("kind",)
    ),
    Family("mom_messages_acked_total", COUNTER, "messages that were acknowledged", ("kind",)),
    Family("mom_messages_redelivered_total", COUNTER, "deliveries that were not the first of their message"),
    Family("mom_messages_dead_lettered_total", COUNTER, "messages that became dead letters", ("reason",)),
    Family("mom_messages_expired_total", COUNTER, "messages that expired without becoming dead letters"),
    Family("mom_messages_dropped_total", COUNTER, "messages that were discarded", ("reason",)),
    Family("mom_messages_refused_total", COUNTER, "messages that were refused, because there was no room"),
    Family("mom_messages_duplicate_total", COUNTER, "messages that repeat one, and were not stored again"),
)
_DESTINATIONS: Final = (
    Family("mom_destinations", GAUGE, "queues with those of subscriptions, and topics", ("kind",)),
    Family("mom_destination_messages", GAUGE, "messages of all queues, by what they wait for", ("state",)),
    Family("mom_destination_oldest_message_age_seconds", GAUGE, "age of the oldest message that waits"),
)
_CLIENTS: Final = (
    Family("mom_connections", GAUGE, "STOMP connections", ("protocol",)),
    Family("mom_connections_opened_total", COUNTER, "STOMP connections that logged in", ("protocol",)),
    Family("mom_connections_closed_total", COUNTER, "STOMP connections that ended", ("protocol",)),
    Family("mom_subscriptions", GAUGE, "subscriptions of connected clients"),
    Family("mom_slow_consumers", GAUGE, "consumers that take nothing while messages wait for them"),
    Family("mom_blocked_bytes", GAUGE, "messages that were received and wait for room"),
    Family("mom_network_received_bytes_total", COUNTER, "from STOMP clients"),
    Family("mom_network_sent_bytes_total", COUNTER, "to STOMP clients"),
    Family("mom_rule_decisions_total", COUNTER, "decisions of authorization rules", ("outcome",)),
)
_JOURNAL: Final = (
    Family("mom_journal_commits_total", COUNTER, "batches that were committed", ("backend",)),
    Family("mom_journal_commit_records_total", COUNTER, "records in them", ("backend",)),
    Family("mom_journal_written_bytes_total", COUNTER, "bytes of them", ("backend",)),
    Family("mom_journal_snapshots_total", COUNTER, "snapshots that were stored", ("backend",)),
    Family("mom_journal_bytes", GAUGE, "size: of the log, and of all files", ("backend", "of")),
    Family("mom_journal_live_records", GAUGE, "messages that are stored and wait", ("backend",)),
    Family("mom_epoch", GAUGE, "epoch of the journal: it grows with each start and takeover"),
)
_MIRRORS: Final = (
    Family("mom_lease_held", GAUGE, "1 if this broker holds the lease of its journal; 0 on standby"),
    Family("mom_lease_trusted_seconds", GAUGE, "time that is left of the lease that this broker holds"),
    Family("mom_mirror_in_step", GAUGE, "1 if a standby has read what was written lately", ("standby",)),
    Family("mom_mirror_lag_records", GAUGE, "records that a standby has not read", ("standby",)),
    Family("mom_mirror_lag_seconds", GAUGE, "time since a standby was in step", ("standby",)),
)
_CLUSTER: Final = (
    Family("mom_cluster_link_up", GAUGE, "1 if messages pass to and from another broker", ("broker",)),
    Family("mom_cluster_link_sent_total", COUNTER, "messages sent there for its consumers", ("broker",)),
    Family(
        "mom_cluster_link_received_total",
        COUNTER,
        "messages received from there for consumers here",
        ("broker",),
    ),
    Family(
        "mom_cluster_link_returned_total",
        COUNTER,
        "those that found no consumer here and went back",
        ("broker",),
    ),
    Family(
        "mom_cluster_link_unsettled",
        GAUGE,
        "deliveries that are not settled: `there` of messages of this broker, `here` of those of the other",
        ("broker", "at"),
    ),
    Family("mom_cluster_link_round_trip_seconds", GAUGE, "time of the last heart-beat's answer", ("broker",)),
    Family("mom_cluster_keeper_up", GAUGE, "1 while changes of the configuration are accepted"),
    Family("mom_cluster_discovery_up", GAUGE, "1 while brokers can be found in this way", ("way", "place")),
    Family("mom_cluster_members", GAUGE, "members of the enhanced cluster in a state", ("state",)),
    Family("mom_cluster_takeovers_total", COUNTER, "takeovers by this broker", ("result",)),
    Family("mom_cluster_takeover_messages_total", COUNTER, "messages that this broker has taken over"),
    Family(
        "mom_cluster_takeover_lost_messages_total",
        COUNTER,
        "messages that were only in the memory of the members that this broker has taken over",
    ),
    Family("mom_cluster_takeover_last_seconds", GAUGE, "time that the last takeover by this broker took"),
    Family(
        "mom_cluster_takeover_refusing_seconds_total",
        COUNTER,
        "time for which this broker has refused new clients because it took over",
    ),
)
_CHANNELS: Final = (
    Family("mom_channel_handlers", GAUGE, "handlers of applications at this site"),
    Family("mom_channel_in_flight", GAUGE, "requests to a site that wait for an answer", ("site",)),
    Family("mom_channel_sent_total", COUNTER, "messages and requests to applications at a site", ("site",)),
    Family("mom_channel_received_total", COUNTER, "messages and requests from a site", ("site",)),
    Family(
        "mom_channel_dropped_total", COUNTER, "what came from a site, and was dropped", ("site", "reason")
    ),
    Family("mom_channel_failed_total", COUNTER, "requests to a site that failed", ("site", "status")),
    Family("mom_channel_round_trip_seconds", GAUGE, "average time of the latest answers", ("site",)),
)
_BRIDGES: Final = (
    Family("mom_bridge_state", GAUGE, "1 for the state of the bridge", ("bridge", "state")),
    Family("mom_bridge_backlog_messages", GAUGE, "messages that wait to be forwarded", ("bridge",)),
    Family("mom_bridge_oldest_seconds", GAUGE, "age of the oldest of them", ("bridge",)),
    Family(
        "mom_bridge_last_progress_timestamp_seconds",
        GAUGE,
        "when the remote broker accepted a message last",
        ("bridge",),
    ),
    Family("mom_bridge_sent_total", COUNTER, "messages that were sent, repeats included", ("bridge",)),
    Family("mom_bridge_acked_total", COUNTER, "messages that the remote broker accepted", ("bridge",)),
    Family("mom_bridge_duplicates_total", COUNTER, "messages that it had already", ("bridge",)),
    Family("mom_bridge_refused_total", COUNTER, "messages that it refused", ("bridge",)),
)
_CALLBACKS: Final = (
    Family("mom_callback_pushes_total", COUNTER, "pushes to webhooks that ended", ("outcome",)),
    Family("mom_callback_retries_total", COUNTER, "those that were not the first of their message"),
    Family("mom_callback_push_seconds", HISTOGRAM, "how long they took, up to a complete answer"),
    Family(
        "mom_callback_dead_lettered_total", COUNTER, "messages that were pushed too often without success"
    ),
    Family("mom_callback_pending", GAUGE, "messages that wait for callbacks, those in flight too"),
    Family("mom_callback_in_flight", GAUGE, "pushes without an answer"),
    Family("mom_callback_breaker_open", GAUGE, "hosts that are left alone because they failed"),
)
_COMPONENTS: Final = (
    Family(
        "mom_component_health",
        GAUGE,
        "1 for the health of a callback, reflex, bridge, mirror, link, run of a pipeline or the store",
        ("kind", "name", "health"),
    ),
    Family("mom_components_left_out", GAUGE, "components beyond the limit of this reply"),
    Family("mom_alerts_firing", GAUGE, "alerts that fire", ("rule", "severity")),
)
_NODE: Final = (
    Family("mom_build_info", GAUGE, "1", ("version",)),
    Family("mom_node_info", GAUGE, "1", ("broker", "role")),
    Family("mom_start_timestamp_seconds", GAUGE, "when the node started"),
    Family("mom_resident_memory_bytes", GAUGE, "memory of the process"),
    Family("mom_resource_alarm", GAUGE, "1 while all producers are stopped", ("code",)),
    Family("mom_jobs_running", GAUGE, "operations on many messages that run or wait", ("op",)),
    Family("mom_event_loop_lag_seconds", GAUGE, "how late the event loop was at most, in the last minute"),
    Family("mom_internal_errors_total", COUNTER, "errors of the broker itself, which are in its log"),
)
_PIPELINE: Final = (
    Family(
        "mom_pipeline_lag_positions", GAUGE, "positions that a job or cursor has not read", ("job", "broker")
    ),
    Family(
        "mom_pipeline_lost_positions",
        GAUGE,
        "positions that it has not read in time",
        ("job", "broker"),
    ),
    Family("mom_pipeline_batch_seconds", HISTOGRAM, "how long its batches took", ("job", "broker")),
    Family("mom_pipeline_rows_total", COUNTER, "rows that it processed", ("job", "broker")),
    Family(
        "mom_pipeline_last_success_timestamp_seconds",
        GAUGE,
        "when a batch ended well last, or there was nothing to do",
        ("job", "broker"),
    ),
)
#: the families of `/metrics`, by subject
AGGREGATED: Final = {
    "messages": _MESSAGES,
    "destinations": _DESTINATIONS,
    "clients": _CLIENTS,
    "journal": _JOURNAL,
    "mirrors": _MIRRORS,
    "cluster": _CLUSTER,
    "channels": _CHANNELS,
    "bridges": _BRIDGES,
    "callbacks": _CALLBACKS,
    "pipelines": _PIPELINE,
    "health": _COMPONENTS,
    "node": _NODE,
}

DESTINATION, FLOW, CALLBACK, REFLEX = "destination", "flow", "callback", "reflex"
_OF_FLOW: Final = ("bridge", "flow")
#: those of `/metrics/detailed`, by the value of `family`
DETAILED: Final = {
    DESTINATION: (
        Family(
            "mom_destination_messages", GAUGE, "messages, by what they wait for", ("destination", "state")
        ),
        Family(
            "mom_destination_oldest_message_age_seconds", GAUGE, "age of the oldest message", ("destination",)
        ),
        Family("mom_destination_consumers", GAUGE, "subscriptions", ("destination",)),
        Family("mom_destination_limit_ratio", GAUGE, "used part of its narrowest limit", ("destination",)),
        Family("mom_destination_published_total", COUNTER, "messages that came", ("destination",)),
        Family("mom_destination_delivered_total", COUNTER, "deliveries", ("destination",)),
        Family("mom_destination_acked_total", COUNTER, "messages that were acknowledged", ("destination",)),
        Family("mom_destination_dead_lettered_total", COUNTER, "dead letters of it", ("destination",)),
        Family("mom_destination_expired_total", COUNTER, "messages that expired", ("destination",)),
        Family("mom_destinations_left_out", GAUGE, "destinations beyond the limit of this reply"),
    ),
    FLOW: (
        Family("mom_bridge_flow_state", GAUGE, "1 for the state of the flow", (*_OF_FLOW, "state")),
        Family("mom_bridge_flow_backlog_messages", GAUGE, "messages that wait", _OF_FLOW),
        Family("mom_bridge_flow_sent_total", COUNTER, "messages that were sent, repeats included", _OF_FLOW),
        Family("mom_bridge_flow_acked_total", COUNTER, "messages that were accepted", _OF_FLOW),
        Family("mom_bridge_flow_duplicates_total", COUNTER, "messages that were there already", _OF_FLOW),
        Family("mom_bridge_flow_refused_total", COUNTER, "messages that were refused", _OF_FLOW),
        Family("mom_bridge_flows_left_out", GAUGE, "flows beyond the limit of this reply"),
    ),
    CALLBACK: (
        Family("mom_callback_accepted_total", COUNTER, "pushes that were accepted", ("callback",)),
        Family("mom_callback_failed_total", COUNTER, "pushes that were not", ("callback",)),
        Family("mom_callback_failures_in_row", GAUGE, "pushes since the last accepted one", ("callback",)),
        Family("mom_callback_pending_messages", GAUGE, "messages that wait for it", ("callback",)),
        Family("mom_callbacks_left_out", GAUGE, "callbacks beyond the limit of this reply"),
    ),
    REFLEX: (
        Family("mom_reflex_calls_total", COUNTER, "calls of its function", ("reflex",)),
        Family("mom_reflex_refusals_total", COUNTER, "messages that it refused", ("reflex",)),
        Family("mom_reflex_failures_total", COUNTER, "calls that failed", ("reflex",)),
        Family("mom_reflex_failures_in_row", GAUGE, "failures since the last verdict", ("reflex",)),
        Family("mom_reflexes_left_out", GAUGE, "reflexes beyond the limit of this reply"),
    ),
}
