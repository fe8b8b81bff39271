"""The figures of the node, of destinations and of consumers, as `statistics` reports them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from broker_app.base import states
from broker_app.base.reply_types import Count, Rate, Seconds, Time, about, one_of, state_of


class NodeFigures(TypedDict):
    """The node as of the last second."""

    name: str
    version: str
    connections: Count
    in_rate: Rate
    out_rate: Rate
    published: Count
    delivered: Count
    discarded: Annotated[Count, about("messages that were accepted and not kept, of all")]
    backlog: Annotated[Count, about("messages that wait, dead letters not among them")]
    unsettled: Count
    oldest_s: Annotated[Seconds, about("age of the oldest of the backlog")]
    dead: Annotated[Count, about("dead letters")]
    memory_bytes: Count
    memory_level: Annotated[
        str,
        one_of(("green", "yellow", "orange", "red")),
        about("how much of the memory for non-persistent messages is used"),
    ]
    resource_alarm: Annotated[
        str | None, about("why the node takes no messages now: store-full, queue-full, busy")
    ]
    blocked_bytes: Annotated[Count, about("messages that wait for room in full queues")]
    journal_bytes: Count
    job_bytes: Annotated[Count, about("files of finished jobs, in addition to the journal")]
    destinations: Count
    internal_errors: Annotated[
        Count, about("faults of the broker itself that were contained; its log has their tracebacks")
    ]
    loop_lag_s: Annotated[
        Seconds, about("by how much the event loop's latest timer was late in the last second")
    ]
    loop_lag_1m_s: Annotated[Seconds, about("the same of the last minute")]
    loop_blocked_1m_s: Annotated[
        Seconds,
        about(
            "the longest that the broker itself held up its event loop in the last minute: lag without the "
            "time for which it waited for a processor; more than 0.1 s is in the log"
        ),
    ]
    loop_busy_1m_s: Annotated[
        Seconds,
        about("the most processor time that its own thread used at a stretch in the last minute"),
    ]


class DestinationFigures(TypedDict):
    """The main figures of a destination."""

    name: Annotated[str, about("an address, such as /queue/orders")]
    kind: Annotated[str, one_of(("queue", "topic", "temp-queue"))]
    depth: Annotated[Count, about("messages that wait")]
    unsettled: Annotated[Count, about("messages handed out and not settled")]
    delayed: Annotated[Count, about("messages that are not due yet")]
    consumers: Count
    in_rate: Rate
    out_rate: Rate
    oldest_s: Annotated[Seconds, about("age of the message that waits longest")]


class DurationFigures(TypedDict):
    """Percentiles of durations in seconds, null without samples."""

    p50: Seconds | None
    p95: Seconds | None
    p99: Seconds | None
    samples: Count


class AllFigures(DestinationFigures):
    """All figures of a destination."""

    state: Annotated[str, state_of(states.DESTINATION)]
    fill: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("how much of its limit is used; null without limits"),
    ]
    full_in_s: Annotated[
        Seconds | None,
        about("seconds until it is full at the current rate of growth; null if it does not grow"),
    ]
    acked_rate: Rate
    dead_rate: Rate
    expired_rate: Rate
    published: Count
    delivered: Count
    acknowledged: Count
    dead: Count
    expired: Count
    wait_s: Annotated[DurationFigures, about("from arrival to delivery, sampled, of the last minute")]
    hold_s: Annotated[DurationFigures, about("from delivery to acknowledgement, sampled")]


class StatisticsHead(TypedDict):
    """The time of the last sample, and the figures of the node."""

    time: Time
    node: NodeFigures


class LatestStatistics(StatisticsHead):
    """The node and its destinations as of the last sample."""

    destinations: list[DestinationFigures]


class ConsumerFigures(TypedDict):
    """A subscription. `slow_since` is since when it has taken nothing while messages wait for it."""

    id: str
    destination: str
    connection: Annotated[str | None, about("null for those of the REST interface")]
    user: str
    ack: Annotated[str, one_of(("auto", "client", "client-individual"))]
    selector: Annotated[str | None, about("null when it takes every message")]
    exclusive: bool
    active: Annotated[bool, about("false: stands by for an exclusive consumer")]
    priority: Annotated[int, about("of those with credit, the highest are served first")]
    credit: Count
    unsettled: Count
    delivered: Annotated[Count, about("with repeats")]
    acknowledged: Count
    returned: Count
    waiting: Annotated[Count, about("messages in its queue")]
    since: Time
    slow_since: Annotated[Time | None, about("since when it takes nothing although messages wait")]


class HoldTimes(TypedDict):
    """Percentiles of the processing times of a consumer."""

    p50: Seconds | None
    p95: Seconds | None
    samples: Count
