"""The status of bridges, for REST and for `$mom.bridge.<name>`.

It is what the supervisor reports, with sums and rates, and with times as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from broker_app.base.times import of_ms
from broker_app.telemetry.component_health import BRIDGE, health_of
from broker_app.telemetry.report_changes import ReportChanges
from broker_app.telemetry.statistics import Statistics

Facts = dict[str, Any]

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
_COUNTERS = ("sent", "accepted", "refused", "unanswered", "duplicate", "gap", "dead_lettered", "bytes")


class Forwarding(Protocol):
    """Bridges, as plain data (`bridge.report`), and operations on them."""

    def report_of(self, name: str) -> Facts | None:
        """The status of a bridge; None if it does not exist."""

    def reports(self) -> Sequence[Facts]:
        """The status of all bridges, by name."""

    def events_of(self, name: str) -> Sequence[Facts] | None:
        """The events of a bridge, the newest last; None if it does not exist."""

    def orphans(self) -> Sequence[Facts]:
        """Queues that wait for a bridge that is not configured."""

    def incoming(self, most: int) -> Sequence[Facts]:
        """The replication offsets of brokers that forward to this one, the newest first."""

    def retry(self, name: str, queue: str | None = None) -> bool:
        """Try again now what waits for its next attempt; False when there is no such bridge."""


def status(statistics: Statistics, report: Facts) -> Facts:
    """A bridge with its flows, and what they come to together. `delivery` is None while the remote broker is
    not known."""
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
        **{name: sum(flow[name] for flow in flows) for name in ("in_flight", *_COUNTERS)},
        **{
            name: round(sum(flow[name] for flow in flows), 1)
            for name in ("arrived_rate", "sent_rate", "accepted_rate")
        },
        "flow_count": len(flows),
        "flows": flows,
    }


def _flow(statistics: Statistics, flow: Mapping[str, Any]) -> Facts:
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
        **{name: flow[name] for name in _COUNTERS},
        "arrived_rate": brief["in_rate"] if brief is not None else 0.0,
        "sent_rate": brief["out_rate"] if brief is not None else 0.0,
        "accepted_rate": statistics.acked_rate(source) if there else 0.0,
    }


def shown_event(event: Mapping[str, Any]) -> Facts:
    """Something that happened to a bridge; `times` in a row, the first time at `first_at`."""
    return {
        "at": of_ms(event["time_ms"]),
        "first_at": of_ms(event["first_ms"]),
        **{name: event[name] for name in ("event", "queue", "code", "detail", "times")},
    }


def shown_offset(mark: Mapping[str, Any]) -> Facts:
    """The replication offset of another broker."""
    return {
        **{name: mark[name] for name in ("sender", "source", "owner", "accepted", "count")},
        "at": of_ms(mark["time_ms"]),
    }


def _error(error: Mapping[str, Any] | None) -> Facts | None:
    if error is None:
        return None
    return {"code": error["code"], "detail": error["detail"], "at": of_ms(error["at_ms"])}


# ---------------------------------------------------------------------- reports of changes

#: flows that one message names
MAX_FLOWS: Final = 100


def brief(bridge: Facts) -> Facts:
    """The status of a bridge for listeners: of its flows only the states."""
    flows = [
        {name: flow[name] for name in ("queue", "state", "paused", "depth", "error")}
        for flow in bridge["flows"][:MAX_FLOWS]
    ]
    return {**bridge, "flows": flows}


def bridge_changes(read: Callable[[], Iterable[Facts]]) -> ReportChanges:
    """Bridges whose report is due. A deleted one is reported once more, with the state `gone`."""
    return ReportChanges(read, brief, _state, {"state": "gone", "flows": []})


def _state(bridge: Facts) -> Any:
    """The part of the status that is reported at once."""
    error = bridge["error"]
    of_flows = [
        (flow["queue"], flow["state"], flow["paused"], _code(flow["error"])) for flow in bridge["flows"]
    ]
    return (
        bridge["state"],
        bridge["health"],
        bridge["desired"],
        bridge["drained"],
        bridge["address"],
        _code(error),
        of_flows,
    )


def _code(error: Facts | None) -> str:
    return error["code"] if error is not None else ""
