"""Alerts as the API, topics and notifications show them."""

from __future__ import annotations

from typing import Any

from broker_app.base.times import rfc3339
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.alerts.condition import CONDITIONS


def shown(alert: Alert) -> dict[str, Any]:
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
