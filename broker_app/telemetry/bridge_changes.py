"""Bridges for their system topics: at once when a state changes, figures every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker_app.base.reply_types import Facts
from broker_app.telemetry.report_changes import ReportChanges

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
