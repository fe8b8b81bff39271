"""The cluster for its system topic: at once when a link, the keeper, a member or a takeover changes, figures
every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from broker_app.base.reply_types import Facts
from broker_app.telemetry.report_changes import ReportChanges


def cluster_changes(read: Callable[[], Facts | None]) -> ReportChanges:
    """The changes of what `read` returns, None without a cluster."""

    def read_all() -> Iterator[Facts]:
        status = read()
        if status is not None:
            yield {**status, "name": status["broker"]}

    return ReportChanges(read_all, without_name, _state, {})


def without_name(report: Facts) -> Facts:
    """The status as the API has it."""
    return {name: value for name, value in report.items() if name != "name"}


def _state(status: Facts) -> Any:
    links = [(link["broker"], link["state"], link["since"], link["quiesced"]) for link in status["links"]]
    return status["keeper"], status["keeper_state"], status["quiesced"], links, _enhanced(status["enhanced"])


def _enhanced(enhanced: Facts | None) -> Any:
    if enhanced is None:
        return None
    members = [(one["broker"], one["state"], one["taken_by"]) for one in enhanced["members"]]
    return members, [(one["journal"], one["epoch"], one["result"]) for one in enhanced["takeovers"]]
