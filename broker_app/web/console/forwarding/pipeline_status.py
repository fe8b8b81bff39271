"""Jobs of the data pipeline and cursors of the journal, as their pages show them.

What a job has not read is taken from its cursor, which has its name: it is true also while the job is dead.
Without a cursor, as of a job that reads another broker, it is what the job has reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.base import durations, states
from broker_app.net.rest.journal.cursor_status import Cursor
from broker_app.pipeline import runs
from broker_app.pipeline.models import IDLE, RUNNING, STARTING, STOPPING, PipelineRun
from broker_app.telemetry.lag_samples import STEP_S
from broker_app.web.console.base.badges import Badge, badge, health_badge
from broker_app.web.console.base.shown import Shown
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

NO_NODE: Final = gettext_lazy("This process only serves the console: the lag is what jobs reported last.")
#: what jobs call their parameters, and pages do
_PARAMETERS: Final = {
    "source": gettext_lazy("journal"),
    "broker": gettext_lazy("broker"),
    "destinations": gettext_lazy("destinations"),
    "out": gettext_lazy("output"),
    "tables": gettext_lazy("tables"),
    "from": gettext_lazy("from"),
    "until": gettext_lazy("until"),
    "sender": gettext_lazy("sender"),
    "receiver": gettext_lazy("receiver"),
    "bridges": gettext_lazy("bridges"),
    "archive": gettext_lazy("archive"),
    "where": gettext_lazy("condition"),
    "limit": gettext_lazy("messages at most"),
    "to": gettext_lazy("target"),
}
_LIVE: Final = (STARTING, RUNNING, IDLE)


class Cursors:
    """The cursors of the journal; without a node, none. `fault` is the reason why they are not known."""

    def __init__(self, items: Sequence[Cursor], fault: StrPromise | str = "") -> None:
        self._known = {item["name"]: item for item in items}
        self.fault = fault

    @classmethod
    def of(cls, request: HttpRequest) -> Cursors:
        """Those of the node in this process."""
        found, fault = answer_of(request, lambda node: node.operations.list_cursors(), NO_NODE)
        return cls(found["items"] if found is not None else [], fault)

    def of_run(self, name: str) -> list[Cursor]:
        """The cursor of a run, and those of its further queries, which have its name before a dot."""
        return [
            cursor for known, cursor in self._known.items() if known == name or known.startswith(f"{name}.")
        ]

    def others(self, names: Sequence[str]) -> list[Shown]:
        """The cursors that belong to none of these runs."""
        taken = {cursor["name"] for name in names for cursor in self.of_run(name)}
        return [shown_cursor(cursor) for name, cursor in self._known.items() if name not in taken]


def shown_cursor(item: Cursor) -> Shown:
    """A cursor for a template."""
    lags = [*item["lags"], item["lag"]]
    return {
        **item,
        "lag": whole(item["lag"]),
        "lag_for": durations.in_words(item["lag_s"]) if item["lag_s"] else "",
        "chart": chart(lags),
        "highest": whole(max(lags)),
        "during": durations.in_words(STEP_S * len(item["lags"])),
        "reported": datetime.fromisoformat(item["reported_at"]),
    }


def in_words(parameters: Mapping[str, object], of: str = "") -> list[tuple[str, str]]:
    """The parameters of a job that have a value, each with its label. A job that compares two journals has
    those of each within a parameter, `of`."""
    found: list[tuple[str, str]] = []
    for name, value in sorted(parameters.items()):
        label = str(_PARAMETERS.get(name, name.replace("_", " ")))
        label = f"{of}: {label}" if of else label
        if isinstance(value, Mapping):
            found += in_words(value, label)
        elif value is True or value is False:
            found.append((label, _("yes") if value else _("no")))
        elif value not in (None, "", [], ()):
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            found.append((label, text))
    return found


def in_list(run: PipelineRun, cursors: Cursors, counts: Mapping[str, int] | None, now: datetime) -> Shown:
    """A run for the list; `counts` are the messages in each state of a reconciliation."""
    facts = runs.shown(run, now)
    batches, own = facts["batches"], cursors.of_run(run.name)
    # Of several queries the one that is furthest behind.
    cursor = max(own, key=lambda each: each["lag"], default=None)
    shown = shown_cursor(cursor) if cursor is not None else None
    lag_s = facts["lag_s"]
    return {
        **facts,
        "state": health_badge(facts, states.PIPELINE),
        "may_stop": facts["state"] in _LIVE and not facts["stop_requested"],
        "has_ended": facts["state"] not in (*_LIVE, STOPPING),
        "rows": whole(facts["rows"]),
        "rows_total": whole(facts["rows_total"]),
        "rows_per_s": whole(facts["rows_per_s"]),
        "lag": shown["lag"] if shown else whole(facts["lag"]),
        "lag_for": shown["lag_for"] if shown else durations.in_words(lag_s) if lag_s else "",
        "cursor": shown,
        "cursors": [shown_cursor(each) for each in own],
        "lost": [shown_cursor(each) for each in own if each["lost"]],
        "reported": datetime.fromisoformat(facts["reported"]),
        "reported_span": durations.since(facts["reported"]),
        "started_span": durations.since(facts["started"]),
        "started": datetime.fromisoformat(facts["started"]),
        "settings": " · ".join(f"{label} {text}" for label, text in in_words(facts["parameters"])),
        "chart": chart([batch["rows"] for batch in batches]),
        "newest": batches[-1] if batches else None,
        "counts": _counts(counts),
    }


def _counts(counts: Mapping[str, int] | None) -> list[tuple[Badge, str]]:
    """The states that messages are in, and how many are in each."""
    return [
        (badge(state), whole(counts[name]))
        for name, state in states.RECONCILED.items()
        if counts and counts.get(name)
    ]


def whole(figure: float | None) -> str:
    """A whole number with separators; empty if it is unknown."""
    return "" if figure is None else f"{figure:,.0f}"


def chart(figures: Sequence[float], width: int = 120, height: int = 24) -> str:
    """The points of an SVG polyline, oldest first; empty for fewer than two."""
    if len(figures) < 2:
        return ""
    highest = max(figures) or 1
    step = width / (len(figures) - 1)
    return " ".join(
        f"{number * step:.1f},{height - figure / highest * height:.1f}"
        for number, figure in enumerate(figures)
    )
