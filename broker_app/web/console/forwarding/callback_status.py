"""The status of callbacks, with labels and signs for pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations, states
from broker_app.features.callbacks.webhooks.report import Push
from broker_app.net.rest.features.callback_status import CallbackStatus
from broker_app.web.console.base.badges import badge, health_badge
from broker_app.web.console.base.causes import cause_in_words
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.verdicts import verdict_of_callback
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

NO_NODE: Final = _("This process only serves the console and does not know the status of callbacks.")


def all_callbacks(request: HttpRequest) -> tuple[list[CallbackStatus] | None, StrPromise | str]:
    """All callbacks, or the reason why their status is unknown."""
    return answer_of(request, lambda node: node.operations.list_callbacks(), NO_NODE)


def one_callback(
    request: HttpRequest, name: str
) -> tuple[tuple[CallbackStatus, list[Push]] | None, StrPromise | str]:
    """One callback with its pushes, or the reason why its status is unknown."""
    return answer_of(request, lambda node: node.operations.find_callback(name), NO_NODE)


def shown_callback(row: CallbackStatus) -> Shown:
    """A callback for a template."""
    breaker = row["breaker"]
    failures = {name: count for name, count in row["pushes"].items() if name != "accepted" and count}
    return {
        **row,
        "state": health_badge(row, states.CALLBACK),
        "verdict": verdict_of_callback(row),
        "breaker": {
            "host": breaker["host"],
            "state": badge(states.BREAKER[breaker["state"]]),
            "pause": breaker["pause"],
            "until": datetime.fromisoformat(breaker["until"]) if breaker["until"] else None,
        },
        "trouble": cause_in_words(
            row["reason"] or (row["last"]["detail"] if row["last"] and row["failures_in_row"] else "")
        ),
        "failed": sum(failures.values()),
        "accepted": row["pushes"]["accepted"],
        "failures": [(badge(states.PUSH[name]).word, count) for name, count in failures.items()],
        "accepted_ago": durations.since(row["accepted_at"]),
        "p50": _ms(row["p50_s"]),
        "p95": _ms(row["p95_s"]),
        "last": shown_push(row["last"]) if row["last"] else None,
    }


def shown_pushes(pushes: Sequence[Push]) -> list[Shown]:
    """Pushes for a template."""
    return [shown_push(push) for push in pushes]


def shown_push(push: Push) -> Shown:
    return {
        **push,
        "at": datetime.fromisoformat(push["at"]),
        "took": _ms(push["seconds"]),
        "outcome": badge(states.PUSH[push["outcome"]]),
    }


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:,.0f} ms"
