"""Texts of alerts: facts for the API, a sentence, and the page that shows the problem."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, assert_never
from urllib.parse import urlencode

from broker_app.base import durations
from broker_app.telemetry.alerts import rule as rules
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.statistics import rfc3339

#: by kind of a component, the page of one
_PAGES: Final = {
    "callback": "callbacks/one",
    "reflex": "reflexes/one",
    "bridge": "bridges/one",
    "pipeline": "pipelines/one",
}


def shown(alert: Alert) -> dict[str, Any]:
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
        "page": page(alert),
    }


def sentence(alert: Alert) -> str:
    """The problem, in English."""
    name, value = alert.subject.removeprefix("/queue/"), alert.value
    match alert.condition:
        case rules.OLDEST_MESSAGE_AGE:
            return f"{name}: the oldest message has waited {durations.in_words(value)}"
        case rules.DEAD_LETTERS:
            return f"{name} grew by {value:,.0f} in 10 min"
        case rules.NO_CONSUMER:
            return f"{name}: {_messages(value)}, no consumer"
        case rules.BRIDGE_STALLED:
            code = f" ({alert.facts['error']})" if alert.facts.get("error") else ""
            return f"bridge {name} is {alert.facts.get('state', 'stalled')}{code}: {_messages(value)}"
        case rules.JOURNAL_DISK_USAGE:
            return f"the store is {value:g} % full"
        case rules.FLAPPING:
            return f"{name} connected {value:,.0f} times in 5 min"
        case rules.CONFIGURATION:
            return f"files of the configuration were refused: {alert.facts.get('detail', '')}"
        case rules.FAILING | rules.DEGRADED:
            kind, _, of = name.partition("/")
            detail = f": {alert.facts['detail']}" if alert.facts.get("detail") else ""
            return f"{kind} {of} is {alert.facts.get('health', alert.condition)}{detail}"
        case unknown:
            assert_never(unknown)


def page(alert: Alert) -> str:
    """The address below the console of the page that shows it, at the time when it began."""
    name = alert.subject
    match alert.condition:
        case rules.BRIDGE_STALLED:
            return "bridges/one?" + urlencode({"name": name})
        case rules.FLAPPING:
            return "connections/?" + urlencode({"user": name.partition("@")[0]})
        case rules.CONFIGURATION:
            return "configuration/files"
        case rules.FAILING | rules.DEGRADED:
            kind, _, of = name.partition("/")
            where = _PAGES.get(kind)
            return where + "?" + urlencode({"name": of}) if where else "mirrors/" if kind == "mirror" else ""
        case rules.JOURNAL_DISK_USAGE:
            return "?" + urlencode({"at": _second(alert.since)})
        case rules.OLDEST_MESSAGE_AGE | rules.DEAD_LETTERS | rules.NO_CONSUMER:
            at = _second(alert.since)
            query = {"name": name.removeprefix("/queue/"), "tab": "history", "at": at}
            return "queues/one?" + urlencode(query)
        case unknown:
            assert_never(unknown)


def _second(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _messages(count: float) -> str:
    return "1 message waits" if count == 1 else f"{count:,.0f} messages wait"


def _time(at: float | None) -> str | None:
    return rfc3339(at) if at is not None else None
