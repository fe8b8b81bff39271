"""The state of alerts: firing, acknowledged, silenced, ended. Pure; the time is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from broker_app.base.events import (
    ALERT_ACKNOWLEDGED,
    ALERT_ENDED,
    ALERT_FIRED,
    ALERT_SILENCED,
    ALERT_UNSILENCED,
    Event,
)
from broker_app.telemetry.alerts.alert import ACKNOWLEDGED, ENDED, FIRING, OPEN, SILENCED, Alert
from broker_app.telemetry.alerts.condition import Violation
from broker_app.telemetry.alerts.rule import AlertRule

#: open alerts, of one rule and in all; of further ones only the number is reported
MAX_OF_RULE: Final = 100
MAX_OPEN: Final = 500
#: ended alerts that are kept, and silences without an alert
MAX_ENDED: Final = 200
MAX_SILENCES: Final = 1_000
#: seconds for which a condition must be absent until its alert ends, so that it does not flap
CALM_S: Final = 30.0

Find = Callable[[AlertRule], Iterable[Violation]]
Key = tuple[str, str]


class AlertEvent(NamedTuple):
    """An event of an alert."""

    event: Event
    alert: Alert


class _Silence(NamedTuple):
    until: float
    by: str
    reason: str


class AlertState:
    """`evaluate` is called every few seconds."""

    def __init__(self) -> None:
        self._open: dict[Key, Alert] = {}
        #: since when conditions hold that have not held for long enough
        self._pending: dict[Key, float] = {}
        self._ended: deque[Alert] = deque(maxlen=MAX_ENDED)
        self._silences: dict[Key, _Silence] = {}
        self._last_id = 0
        #: alerts that there was no room for in the last evaluation
        self.missed = 0
        #: True if something changed since the state was stored
        self.changed = False

    # ------------------------------------------------------------------ reading

    @property
    def firing(self) -> int:
        """The number of alerts that fire, and are neither acknowledged nor silenced."""
        # A copy: pages are made in other threads.
        return sum(alert.state == FIRING for alert in list(self._open.values()))

    @property
    def acknowledged(self) -> int:
        """The number of open alerts that an operator is working on."""
        return sum(alert.state == ACKNOWLEDGED for alert in list(self._open.values()))

    def all(self) -> list[Alert]:
        """The open alerts, the worst first; then the ended ones, the newest first."""
        return [*sorted(self._open.values(), key=_badness), *reversed(self._ended)]

    def open(self) -> list[Alert]:
        """The open alerts, the worst first."""
        return sorted(self._open.values(), key=_badness)

    def find(self, id: str) -> Alert | None:
        """An alert that is open or ended recently."""
        return next((alert for alert in (*self._open.values(), *self._ended) if alert.id == id), None)

    # ------------------------------------------------------------------ evaluation

    def evaluate(self, now: float, rules: Sequence[AlertRule], find: Find) -> list[AlertEvent]:
        """Evaluate the rules; return the changes of alerts since the last evaluation."""
        events: list[AlertEvent] = []
        found: set[Key] = set()
        self.missed = 0
        self._forget_silences(now)
        for rule in rules:
            if rule.enabled:
                checks = iter(find(rule))
                for finding in islice(checks, MAX_OF_RULE):
                    found.add((rule.name, finding.subject))
                    events += self._see(now, rule, finding)
                self.missed += sum(1 for _ in checks)
        self._pending = {key: since for key, since in self._pending.items() if key in found}
        known = {rule.name for rule in rules if rule.enabled}
        for alert in [alert for key, alert in self._open.items() if key not in found]:
            if alert.rule not in known or now - alert.seen_at >= CALM_S:
                events.append(self._end(now, alert))
        self.changed = self.changed or bool(events)
        return events

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set: shift all times."""
        self._pending = {key: since + by_s for key, since in self._pending.items()}
        for alert in self._open.values():
            alert.seen_at += by_s

    def _see(self, now: float, rule: AlertRule, finding: Violation) -> Iterable[AlertEvent]:
        key = rule.name, finding.subject
        alert = self._open.get(key)
        if alert is None:
            since = self._pending.setdefault(key, now)
            if now - since < rule.for_s:
                return
            if len(self._open) >= MAX_OPEN:
                self.missed += 1
                return
            del self._pending[key]
            alert = self._open[key] = self._new(now, since, rule, finding)
            yield AlertEvent(ALERT_SILENCED if alert.state == SILENCED else ALERT_FIRED, alert)
        alert.value, alert.facts, alert.seen_at = finding.value, finding.facts, now
        alert.severity, alert.threshold = rule.severity, rule.threshold
        if alert.state == SILENCED and alert.key not in self._silences:
            alert.state, alert.until = FIRING, None
            yield AlertEvent(ALERT_FIRED, alert)

    def _new(self, now: float, since: float, rule: AlertRule, finding: Violation) -> Alert:
        self._last_id = max(self._last_id + 1, int(now * 1000))
        alert = Alert(
            f"{self._last_id:x}", rule.name, rule.condition, rule.severity, finding.subject, rule.threshold,
            since, now, finding.value,
        )  # fmt: skip
        silence = self._silences.get(alert.key)
        if silence is not None:
            alert.state = SILENCED
            alert.until, alert.by, alert.reason = silence
        return alert

    def _end(self, now: float, alert: Alert) -> AlertEvent:
        del self._open[alert.key]
        alert.state, alert.ended_at = ENDED, now
        self._ended.append(alert)
        return AlertEvent(ALERT_ENDED, alert)

    def _forget_silences(self, now: float) -> None:
        self._silences = {key: one for key, one in self._silences.items() if one.until > now}

    # ------------------------------------------------------------------ operators

    def acknowledge(self, alert: Alert, by: str, reason: str) -> AlertEvent:
        """An operator works on it; there are no notifications until it ends."""
        self._silences.pop(alert.key, None)
        alert.state, alert.by, alert.reason, alert.until = ACKNOWLEDGED, by, reason, None
        self.changed = True
        return AlertEvent(ALERT_ACKNOWLEDGED, alert)

    def silence(self, alert: Alert, until: float, by: str, reason: str) -> AlertEvent:
        """Send no notifications of it, and of later ones of the same kind, before `until`."""
        if alert.key not in self._silences and len(self._silences) >= MAX_SILENCES:
            del self._silences[min(self._silences, key=lambda key: self._silences[key].until)]
        self._silences[alert.key] = _Silence(until, by, reason)
        alert.state, alert.by, alert.reason, alert.until = SILENCED, by, reason, until
        self.changed = True
        return AlertEvent(ALERT_SILENCED, alert)

    def reopen(self, alert: Alert) -> AlertEvent:
        """Undo acknowledging or silencing: it fires again."""
        self._silences.pop(alert.key, None)
        alert.state, alert.by, alert.reason, alert.until = FIRING, "", "", None
        self.changed = True
        return AlertEvent(ALERT_UNSILENCED, alert)

    # ------------------------------------------------------------------ over a restart

    def kept(self) -> dict[str, object]:
        """The state to store for a restart, for JSON."""
        self.changed = False
        return {
            "alerts": [alert.kept() for alert in (*self._open.values(), *self._ended)],
            "silences": [[*key, *silence] for key, silence in self._silences.items()],
        }

    def restore(self, kept: dict[str, list[object]], now: float) -> None:
        """Restore what `kept` returned. Open alerts stay open until they are evaluated."""
        for row in kept.get("alerts", [])[: MAX_OPEN + MAX_ENDED]:
            assert isinstance(row, dict)
            alert = Alert.restored(row)
            self._last_id = max(self._last_id, int(alert.id, 16))
            if alert.state in OPEN:
                alert.seen_at = now
                self._open[alert.key] = alert
            else:
                self._ended.append(alert)
        for one in kept.get("silences", [])[:MAX_SILENCES]:
            assert isinstance(one, list)
            rule, subject, until, by, reason = one
            self._silences[rule, subject] = _Silence(until, by, reason)


def _badness(alert: Alert) -> tuple[bool, bool, float]:
    """The sort key: firing before acknowledged ones, then the worst, then the oldest."""
    return alert.state != FIRING, alert.severity != "critical", alert.fired_at
