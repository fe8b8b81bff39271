"""Callbacks for their system topics: at once when a state changes, figures every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker_app.base.reply_types import Facts
from broker_app.telemetry.report_changes import ReportChanges


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
