"""The status of bridges, for REST, pages and system topics.

It is what the supervisor reports, with sums and rates, and with times as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict

from broker_app.base import states
from broker_app.base.reply_types import Count, Rate, Seconds, Time, about, one_of, state_of
from broker_app.base.times import of_ms, rfc3339
from broker_app.features.bridge.pipe_reports import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    Counts,
    Delivery,
    ErrorReport,
    EventReport,
    FlowReport,
    MarkReport,
    Orphan,
    PipeReport,
)
from broker_app.features.bridge.remote import DESIRED_STATES
from broker_app.telemetry.component_health import BRIDGE, Health, health_of
from broker_app.telemetry.statistics import Statistics


class BridgeError(TypedDict):
    """A trouble of a bridge, or of one of its flows."""

    code: Annotated[str, about("such as REFUSED, TLS, LOGIN, AUTH_SYNC_QUEUE")]
    detail: str
    at: Time


class Sums(Counts):
    """Counts and rates of a flow, or of all flows of a bridge."""

    in_flight: Annotated[Count, about("sent and not answered yet")]
    oldest_s: Seconds
    arrived_rate: Rate
    sent_rate: Rate
    accepted_rate: Rate


class Flow(Sums):
    """One queue that a bridge forwards."""

    queue: Annotated[str, about("of the remote broker")]
    source: Annotated[str, about("address of the queue here")]
    state: Annotated[str, state_of(states.FLOW)]
    paused: bool
    error: Annotated[BridgeError | None, about("the last one, until something is accepted")]
    progress_at: Annotated[Time | None, about("when something was accepted last")]
    depth: Annotated[Count, about("messages here, those in flight too")]


class BridgeStatus(Sums):
    """The state of a bridge; without its flows where they are not wanted."""

    name: str
    address: Annotated[str, about("of the remote broker, without credentials")]
    desired: Annotated[str, one_of(DESIRED_STATES)]
    drained: Annotated[bool, about("it is draining and nothing is left")]
    state: Annotated[str, state_of(states.BRIDGE)]
    health: Health
    error: BridgeError | None
    attempts: Annotated[Count, about("failed attempts since the last connection")]
    connected_at: Time | None
    server: Annotated[str, about("what the remote broker calls itself; empty without a connection")]
    delivery: Delivery
    progress_at: Time | None
    backlog: Annotated[Count, about("messages here, over all flows")]
    flow_count: Count
    flows: NotRequired[list[Flow]]


class BridgeEvent(TypedDict):
    """Something that happened to a bridge."""

    at: Time
    first_at: Time
    event: Annotated[str, about("such as connected, retrying, refused, stalled, gap")]
    queue: Annotated[str, about("of a flow; empty: of the connection")]
    code: str
    detail: str
    times: Annotated[Count, about("in a row")]


class Mark(TypedDict):
    """The replication offset of another broker."""

    sender: Annotated[str, about("the other broker, with the tag of its journal")]
    source: Annotated[str, about("name of the queue there")]
    owner: Annotated[str, about("the user that forwards; only this user can continue it")]
    accepted: Annotated[Count, about("number of the last message that was taken over")]
    count: Annotated[Count, about("how many were taken over")]
    at: Time | None


class ForwardingStatus(TypedDict):
    """All bridges, and queues without one."""

    bridges: list[BridgeStatus]
    orphans: Annotated[list[Orphan], about("queues whose bridge is not configured")]
    incoming: Annotated[
        list[Mark], about("what other brokers forward to this one, the newest first; for administrators")
    ]


def status(statistics: Statistics, report: PipeReport) -> BridgeStatus:
    """A bridge with its flows, and what they come to together."""
    flows = [_flow(statistics, flow) for flow in report["flows"]]
    foreign = report["foreign"]
    return {
        "name": report["name"],
        "address": report["address"],
        "desired": report["desired"],
        "drained": report["drained"],
        "state": report["state"],
        "health": health_of(BRIDGE, report),
        "error": _error(report["error"]),
        "attempts": report["attempts"],
        "connected_at": of_ms(report["connected_ms"]),
        "server": report["server"],
        "delivery": None if foreign is None else AT_LEAST_ONCE if foreign else EXACTLY_ONCE,
        "progress_at": max((flow["progress_at"] for flow in flows if flow["progress_at"]), default=None),
        "backlog": sum(flow["depth"] for flow in flows),
        "oldest_s": max((flow["oldest_s"] for flow in flows), default=0.0),
        "in_flight": sum(flow["in_flight"] for flow in flows),
        **_sum_of(flows),
        "arrived_rate": round(sum(flow["arrived_rate"] for flow in flows), 1),
        "sent_rate": round(sum(flow["sent_rate"] for flow in flows), 1),
        "accepted_rate": round(sum(flow["accepted_rate"] for flow in flows), 1),
        "flow_count": len(flows),
        "flows": flows,
    }


def _flow(statistics: Statistics, flow: FlowReport) -> Flow:
    source = flow["source"]
    there = statistics.exists(source)
    brief = statistics.brief(source) if there else None
    return {
        "queue": flow["queue"],
        "source": source,
        "state": flow["state"],
        "paused": flow["paused"],
        "error": _error(flow["error"]),
        "progress_at": of_ms(flow["progress_ms"]),
        "depth": flow["depth"],
        "oldest_s": brief["oldest_s"] if brief is not None else 0.0,
        "in_flight": flow["in_flight"],
        **_sum_of([flow]),
        "arrived_rate": brief["in_rate"] if brief is not None else 0.0,
        "sent_rate": brief["out_rate"] if brief is not None else 0.0,
        "accepted_rate": statistics.acked_rate(source) if there else 0.0,
    }


def _sum_of(flows: Sequence[Counts]) -> Counts:
    """The counts of flows together."""
    return {
        "sent": sum(flow["sent"] for flow in flows),
        "accepted": sum(flow["accepted"] for flow in flows),
        "refused": sum(flow["refused"] for flow in flows),
        "unanswered": sum(flow["unanswered"] for flow in flows),
        "duplicate": sum(flow["duplicate"] for flow in flows),
        "gap": sum(flow["gap"] for flow in flows),
        "dead_lettered": sum(flow["dead_lettered"] for flow in flows),
        "bytes": sum(flow["bytes"] for flow in flows),
    }


def shown_event(event: EventReport) -> BridgeEvent:
    """Something that happened to a bridge; `times` in a row, the first time at `first_at`."""
    return {
        "at": rfc3339(event["time_ms"] / 1000),
        "first_at": rfc3339(event["first_ms"] / 1000),
        "event": event["event"],
        "queue": event["queue"],
        "code": event["code"],
        "detail": event["detail"],
        "times": event["times"],
    }


def shown_offset(mark: MarkReport) -> Mark:
    """The replication offset of another broker."""
    return {
        "sender": mark["sender"],
        "source": mark["source"],
        "owner": mark["owner"],
        "accepted": mark["accepted"],
        "count": mark["count"],
        "at": of_ms(mark["time_ms"]),
    }


def _error(error: ErrorReport | None) -> BridgeError | None:
    if error is None:
        return None
    return {"code": error["code"], "detail": error["detail"], "at": rfc3339(error["at_ms"] / 1000)}
