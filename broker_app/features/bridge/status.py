"""The status of bridges, for REST, pages and system topics.

It is what the supervisor reports, with sums and rates, and with times as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NotRequired, Protocol, TypedDict

from broker_app.base.reply_types import Count, Rate, Seconds, Time, about, one_of
from broker_app.base.times import of_ms, rfc3339
from broker_app.features.bridge.remote import DESIRED_STATES
from broker_app.telemetry.component_health import BRIDGE, HEALTH, health_of
from broker_app.telemetry.statistics import Statistics

Delivery = Annotated[
    Literal["exactly-once", "at-least-once"] | None,
    about("at-least-once to a broker that is no MOM; null: not known without a connection"),
]
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
PIPE_STATES: Final = ("suspended", "connecting", "running", "retrying", "failed")
FLOW_STATES: Final = ("suspended", "starting", "running", "retrying", "stalled", "failed")


# ---------------------------------------------------------------------- what the supervisor reports


class ErrorReport(TypedDict):
    """A trouble of a bridge."""

    code: str
    detail: str
    at_ms: int


class Counts(TypedDict):
    """Messages of a flow since the node started."""

    sent: Annotated[Count, about("accepted, refused, unanswered and in flight together")]
    accepted: Count
    refused: Count
    unanswered: Annotated[Count, about("the connection was lost before an answer")]
    duplicate: Annotated[Count, about("of the unanswered, those that had arrived")]
    gap: Annotated[Count, about("what the remote broker counts otherwise; 0, or something is wrong")]
    dead_lettered: Annotated[Count, about("made dead letters after too many refusals")]
    bytes: Annotated[Count, about("of bodies that were accepted")]


class FlowReport(Counts):
    """A flow: `queue` is the remote queue, `source` the one here, `depth` what waits there with what is in
    flight."""

    queue: str
    source: str
    state: str
    paused: bool
    error: ErrorReport | None
    progress_ms: int | None
    depth: int
    in_flight: int


class PipeReport(TypedDict):
    """A bridge: what is desired of it, its pipe, and its flows by queue. `foreign`, `server` and
    `connected_ms` are None or empty without a connection."""

    name: str
    address: str
    desired: str
    drained: bool
    state: str
    error: ErrorReport | None
    attempts: int
    connected_ms: int | None
    foreign: bool | None
    server: str
    flows: list[FlowReport]


class EventReport(TypedDict):
    """Something that happened to a bridge; `times` in a row, the first time at `first_ms`."""

    time_ms: int
    first_ms: int
    event: str
    queue: str
    code: str
    detail: str
    times: int


class MarkReport(TypedDict):
    """Progress of a remote queue that is forwarded to this broker: all of `source` up to `accepted`, `count`
    messages in total, as the user `owner`."""

    sender: str
    source: str
    owner: str
    accepted: int
    count: int
    time_ms: int


class OrphanError(TypedDict):
    """Why a queue waits for a bridge."""

    code: str
    detail: str


class Orphan(TypedDict):
    """A queue that no bridge empties."""

    bridge: str
    queue: str
    source: str
    depth: Count
    error: OrphanError


class Forwarding(Protocol):
    """Bridges (`bridge.report`), and operations on them."""

    def report_of(self, name: str) -> PipeReport | None:
        """The status of a bridge; None if it does not exist."""

    def reports(self) -> Sequence[PipeReport]:
        """The status of all bridges, by name."""

    def events_of(self, name: str) -> Sequence[EventReport] | None:
        """The events of a bridge, the newest last; None if it does not exist."""

    def orphans(self) -> Sequence[Orphan]:
        """Queues that wait for a bridge that is not configured."""

    def incoming(self, most: int) -> Sequence[MarkReport]:
        """The replication offsets of brokers that forward to this one, the newest first."""

    def retry(self, name: str, queue: str | None = None) -> bool:
        """Try again now what waits for its next attempt; False when there is no such bridge."""


# ---------------------------------------------------------------------- what is shown of it


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
    state: Annotated[str, one_of(FLOW_STATES)]
    paused: bool
    error: Annotated[BridgeError | None, about("the last one, until something is accepted")]
    progress_at: Annotated[Time | None, about("when something was accepted last")]
    depth: Annotated[Count, about("messages here, those in flight too")]


class BridgeStatus(Sums):
    """How a bridge stands; without its flows where they are not wanted."""

    name: str
    address: Annotated[str, about("of the remote broker, without credentials")]
    desired: Annotated[str, one_of(DESIRED_STATES)]
    drained: Annotated[bool, about("it is draining and nothing is left")]
    state: Annotated[str, one_of(PIPE_STATES)]
    health: Annotated[str, one_of(HEALTH), about("whether it works; `state` is what it does at present")]
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
