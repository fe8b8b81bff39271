"""Callbacks as metrics and `$mom.callback.<name>` report them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from broker_app.base.reply_types import Facts
from broker_app.telemetry.report_changes import ReportChanges

#: bounds of buckets in seconds, the pushes in each and in one of all longer ones, and the sum in seconds
Durations = tuple[tuple[float, ...], tuple[int, ...], float]


class CallbackTotals(NamedTuple):
    """The numbers of all callbacks together; `pushes` by outcome."""

    pushes: Mapping[str, int]
    retries: int
    dead_lettered: int
    durations: Durations
    pending: int
    in_flight: int
    open_breakers: int


def callback_changes(read: Callable[[], Iterable[Facts]]) -> ReportChanges:
    """Callbacks whose report is due. A deleted one is reported once more, with the state `gone`."""
    return ReportChanges(read, dict, _state, {"state": "gone"})


def _state(callback: Facts) -> Any:
    """The part of the status that is reported at once."""
    breaker = callback["breaker"]["state"]
    return (
        callback["state"],
        callback["health"],
        callback["reason"],
        callback["desired"],
        callback["url"],
        breaker,
    )
