"""The status of reflexes, with labels and signs for pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import states
from broker_app.reflex.declaration import ARRIVAL, CHANNEL, DELIVERY, DEREGISTRATION, REGISTRATION, SERVICE
from broker_app.reflex.report import ReflexLibrary, ReflexStatus, ReflexStatusList, ReflexTrial
from broker_app.reflex.stored_trials import StoredTrial
from broker_app.web.console.base.badges import badge, health_badge
from broker_app.web.console.base.shown import Shown
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

KINDS: Final[Mapping[str, StrPromise]] = {
    ARRIVAL: _("arrival"),
    DELIVERY: _("delivery"),
    REGISTRATION: _("registration"),
    DEREGISTRATION: _("deregistration"),
    SERVICE: _("local service"),
    CHANNEL: _("message channels"),
}
#: kinds of which a message can be tried
TRIED: Final = (ARRIVAL, DELIVERY)
_LIMITS: Final = {
    "time": _("It ended before the other messages were tried: it took too long."),
    "bytes": _("It ended before the other messages were tried: their bodies are too large."),
    "failures": _("It ended before the other messages were tried: the library failed three times in a row."),
}
NO_NODE: Final = _("This process only serves the console and does not know the status of reflexes.")


def all_reflexes(
    request: HttpRequest, address: str | None = None
) -> tuple[ReflexStatusList | None, StrPromise | str]:
    """The reflexes in their order (of an `address`: those that see its messages) and the libraries that run
    in processes, or the reason why they are unknown."""
    return answer_of(request, lambda node: node.operations.list_reflexes(address), NO_NODE)


def shown_reflex(row: ReflexStatus) -> Shown:
    """A reflex for a template."""
    failed_at = row["last_failure_at"]
    return {
        **row,
        "kind": KINDS[row["kind"]],
        "state": health_badge(row, states.REFLEX),
        "options": shown_options(row["options"]),
        "p50": _ms(row["p50_ms"]),
        "p99": _ms(row["p99_ms"]),
        "failed_at": datetime.fromisoformat(failed_at) if failed_at else None,
    }


def shown_library(row: ReflexLibrary) -> Shown:
    """A library for a template."""
    return {**row, "state": badge(states.REFLEX[row["state"]])}


def shown_trial(trial: ReflexTrial) -> Shown:
    """A trial for a template."""
    steps = [{**step, "state": badge(states.TRIAL[step["result"]])} for step in trial["steps"]]
    return {
        **trial,
        "steps": steps,
        "state": badge(states.TRIAL["accepted" if trial["accepted"] else "refused"]),
    }


def shown_stored(trial: StoredTrial) -> Shown:
    """A trial with stored messages for a template."""
    rows = [
        {**row, "state": badge(states.STORED_TRIAL[result]), "at": datetime.fromisoformat(row["time"])}
        for result, first in (
            ("refused", trial["first"]["refused"]),
            ("changed", trial["first"]["changed"]),
            ("kept", trial["first"]["kept"]),
        )
        for row in first
    ]
    limit = _LIMITS[trial["stopped"]] if trial["stopped"] is not None else ""
    return {**trial, "rows": rows, "limit": limit}


def shown_options(options: Mapping[str, Any]) -> str:
    """Options as files have them: `rate=10 by="user"`."""
    return " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in options.items())


def _ms(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:,.1f} ms"
