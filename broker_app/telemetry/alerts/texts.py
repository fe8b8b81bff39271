"""Alerts as the API, topics and notifications show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from broker_app.base import durations
from broker_app.base.reply_types import Time, about, one_of, state_of
from broker_app.base.states import ALERT, SEVERITY
from broker_app.base.times import rfc3339
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.alerts.conditions import CONDITIONS


class AlertStatus(TypedDict):
    """An alert for the API, topics and notifications."""

    id: str
    rule: Annotated[str, about("name of the alert rule")]
    condition: Annotated[str, one_of(CONDITIONS)]
    severity: Annotated[str, state_of(SEVERITY)]
    subject: Annotated[str, about("a destination, a bridge, a client, …")]
    state: Annotated[str, state_of(ALERT)]
    detail: Annotated[str, about("a sentence")]
    value: Annotated[float, about("what was found, in the unit of the condition")]
    threshold: float
    facts: Mapping[str, Any]
    since: Annotated[Time, about("when it was found first")]
    fired_at: Time
    ended_at: Time | None
    by: Annotated[str, about("who acknowledged or silenced it")]
    reason: str
    until: Annotated[Time | None, about("when its silence ends")]
    page: Annotated[str, about("of the console, below /console/, at that time")]


def shown(alert: Alert) -> AlertStatus:
    """The alert for the API, topics and notifications."""
    return {
        "id": alert.id,
        "rule": alert.rule,
        "condition": alert.condition,
        "severity": alert.severity,
        "subject": alert.subject,
        "state": alert.state,
        "detail": sentence(alert),
        "value": alert.value,
        "threshold": alert.threshold,
        "facts": dict(alert.facts),
        "since": rfc3339(alert.since),
        "fired_at": rfc3339(alert.fired_at),
        "ended_at": _time(alert.ended_at),
        "by": alert.by,
        "reason": alert.reason,
        "until": _time(alert.until),
        "page": CONDITIONS[alert.condition].page(alert),
    }


def sentence(alert: Alert) -> str:
    """The sentence about what was found, in English; pages have it from `frontend/src/view/alert.ts` and
    `web/console/base/alert_words.py`."""
    reason = reason_of(alert.facts)
    found = pattern_of(alert.condition, alert.facts).format_map(words(alert))
    return f"{found}: {reason}" if reason else found


def pattern_of(condition: str, facts: Mapping[str, Any]) -> str:
    """The sentence of a condition, with words in braces."""
    of = CONDITIONS[condition]
    return of.failed if of.failed and facts.get("result") == "failed" else of.sentence


def reason_of(facts: Mapping[str, Any]) -> str:
    """The reason that follows the sentence; empty without one."""
    return str(facts.get("reason") or facts.get("detail") or "")


def words(alert: Alert) -> dict[str, str]:
    """The words that sentences of conditions may have in braces."""
    value, facts = alert.value, alert.facts
    kind, _, name = alert.subject.partition("/")
    error = f" ({facts['error']})" if facts.get("error") else ""
    return {
        "name": name if "kind" in facts else alert.subject.removeprefix("/queue/"),
        "kind": kind.capitalize(),
        "count": f"{value:,.0f}",
        "percent": f"{value:g}",
        "span": durations.in_words(value),
        "waiting": "1 message waits" if value == 1 else f"{value:,.0f} messages wait",
        "health": str(facts.get("health", alert.condition)),
        "state": f"{facts.get('state', 'stalled')}{error}",
        "taker": str(facts.get("taker", "")),
    }


def _time(at: float | None) -> str | None:
    return rfc3339(at) if at is not None else None
