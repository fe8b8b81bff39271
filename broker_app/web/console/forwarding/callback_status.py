"""The status of callbacks, with labels and signs for pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations
from broker_app.base.refused import Refused
from broker_app.features.callbacks.webhooks.report import Push
from broker_app.net.rest.features.callback_status import CallbackStatus
from broker_app.web.console.base.health import State, health_badge
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.verdicts import verdict_of_callback
from broker_app.web.policy_sync import ask, node_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

#: states that say more than the health
_STATES: Final = {
    "verifying": _("verifying the URL"),
    "unverified": _("the URL does not agree"),
    "suspended": _("suspended: no right"),
    "ended": _("ended by its receiver"),
}
_BREAKERS: Final = {
    "closed": State(_("closed"), "circle", "quiet"),
    "half-open": State(_("half-open"), "hourglass", "warn"),
    "open": State(_("open"), "circle-x", "bad"),
}
_OUTCOMES: Final = {
    "accepted": _("accepted"), "ended": _("ended"), "delayed": _("delayed"), "refused": _("refused"),
    "failed": _("failed"), "timed-out": _("timed out"), "unreachable": _("unreachable"),
    "forbidden": _("address forbidden"), "unsent": _("not sent"),
}  # fmt: skip
NO_NODE: Final = _("This process only serves the console and does not know the status of callbacks.")


def all_callbacks(request: HttpRequest) -> tuple[list[CallbackStatus] | None, StrPromise | str]:
    """All callbacks, or the reason why their status is unknown."""
    node = node_of(request)
    if node is None:
        return None, NO_NODE
    try:
        return ask(node, node.operations.list_callbacks()), ""
    except Refused as refusal:
        return None, refusal.detail


def one_callback(
    request: HttpRequest, name: str
) -> tuple[tuple[CallbackStatus, list[Push]] | None, StrPromise | str]:
    """One callback with its pushes, or the reason why its status is unknown."""
    node = node_of(request)
    if node is None:
        return None, NO_NODE
    try:
        return ask(node, node.operations.find_callback(name)), ""
    except Refused as refusal:
        return None, refusal.detail


def shown_callback(row: CallbackStatus) -> Shown:
    """A callback for a template."""
    breaker = row["breaker"]
    failures = {name: count for name, count in row["pushes"].items() if name != "accepted" and count}
    return {
        **row,
        "state": health_badge(row, _STATES),
        "verdict": verdict_of_callback(row),
        "breaker": {
            "host": breaker["host"],
            "state": _BREAKERS[breaker["state"]],
            "pause": breaker["pause"],
            "until": datetime.fromisoformat(breaker["until"]) if breaker["until"] else None,
        },
        "trouble": row["reason"] or (row["last"]["detail"] if row["last"] and row["failures_in_row"] else ""),
        "failed": sum(failures.values()),
        "accepted": row["pushes"]["accepted"],
        "failures": [(_OUTCOMES[name], count) for name, count in failures.items()],
        "accepted_ago": durations.since(row["accepted_at"]),
        "p50": _ms(row["p50_s"]),
        "p95": _ms(row["p95_s"]),
        "last": shown_push(row["last"]) if row["last"] else None,
    }


def shown_pushes(pushes: Sequence[Push]) -> list[Shown]:
    """Pushes for a template."""
    return [shown_push(push) for push in pushes]


def shown_push(push: Push) -> Shown:
    good = push["outcome"] == "accepted"
    return {
        **push,
        "at": datetime.fromisoformat(push["at"]),
        "took": _ms(push["seconds"]),
        "outcome": State(
            _OUTCOMES[push["outcome"]],
            "circle-check" if good else "triangle-alert",
            "good" if good else "warn",
        ),
    }


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:,.0f} ms"
