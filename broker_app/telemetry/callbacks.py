"""The status of callbacks, for REST and for `$mom.callback.<name>`.

It is what their supervisor reports, with times as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from broker_app.base.times import of_ms
from broker_app.telemetry.component_health import CALLBACK, health_of
from broker_app.telemetry.report_changes import ReportChanges

Facts = dict[str, Any]


class Callbacks(Protocol):
    """Callbacks, as plain data (`callback.webhooks.report`), and operations on them."""

    def report_of(self, name: str) -> Facts | None:
        """The status of a callback; None if it does not exist."""

    def reports(self) -> Sequence[Facts]:
        """The status of all callbacks, by name."""

    def totals(self) -> Facts:
        """The numbers of all callbacks together."""

    def pushes_of(self, name: str) -> Sequence[Facts] | None:
        """The last pushes of a callback, the newest first; None if it does not exist."""

    def push_now(self, name: str) -> bool:
        """Try again now what waits for its next attempt; False when there is no such callback."""

    def confirm(self, name: str, token: str) -> bool:
        """A receiver agrees to be called; False if it was not asked with this token."""

    async def test(self, name: str) -> Facts | None:
        """Send a sample; its request and the answer, None if the callback does not exist. Raises Refused."""


def shown_callback(report: Mapping[str, Any]) -> Facts:
    """A callback with its health, and its times as texts."""
    breaker, last = report["breaker"], report["last"]
    others = {name: breaker[name] for name in ("host", "state", "pause")}
    shown = {
        "health": health_of(CALLBACK, report),
        "breaker": {**others, "until": of_ms(breaker["until_ms"])},
        "accepted_at": of_ms(report["accepted_ms"]),
        "last": None if last is None else shown_push(last),
    }
    return {name: value for name, value in report.items() if name not in ("accepted_ms", *shown)} | shown


def shown_push(push: Mapping[str, Any]) -> Facts:
    """A push with its time as a text."""
    return {"at": of_ms(push["time_ms"]), **{name: push[name] for name in push if name != "time_ms"}}


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
