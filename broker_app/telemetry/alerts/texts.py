"""Alerts as the API, topics and notifications show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from broker_app.base.reply_types import Time, about, one_of
from broker_app.base.times import rfc3339
from broker_app.telemetry.alerts.alert import STATES, Alert
from broker_app.telemetry.alerts.condition import CONDITIONS, SEVERITIES


class AlertStatus(TypedDict):
    """An alert for the API, topics and notifications."""

    id: str
    rule: Annotated[str, about("name of the alert rule")]
    condition: Annotated[str, one_of(CONDITIONS)]
    severity: Annotated[str, one_of(SEVERITIES)]
    subject: Annotated[str, about("a destination, a bridge, a client, …")]
    state: Annotated[str, one_of(STATES)]
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
        "detail": CONDITIONS[alert.condition].sentence(alert),
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


def _time(at: float | None) -> str | None:
    return rfc3339(at) if at is not None else None
