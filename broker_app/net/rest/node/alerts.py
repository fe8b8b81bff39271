"""Alerts over HTTP, for administrators: they name queues, bridges and users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from broker_app.base.audit_actions import (
    ALERT_ACKNOWLEDGED,
    ALERT_SILENCED,
    ALERT_UNSILENCED,
    NOTIFICATION_TESTED,
    AuditAction,
)
from broker_app.base.refused import Refused
from broker_app.features.notifications.target import MOST_TARGETS
from broker_app.features.notifications.target_tests import TargetTest, TargetTests
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, several, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.telemetry.alerts.alert import ENDED, STATES, Alert
from broker_app.telemetry.alerts.texts import shown

#: the longest silence, in seconds
MAX_SILENT_S = 30 * 86_400
MAX_REASON = 500


class AlertOperations(Protocol):
    """The operations on the node's alerts."""

    def all(self) -> list[Alert]: ...
    def find(self, id: str) -> Alert | None: ...
    def acknowledge(self, alert: Alert, by: str, reason: str) -> None: ...
    def silence(self, alert: Alert, for_s: float, by: str, reason: str) -> None: ...
    def reopen(self, alert: Alert) -> None: ...


class Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = ""


class Silence(msgspec.Struct, forbid_unknown_fields=True):
    """`for_s` 0 ends a silence or an acknowledgement."""

    for_s: float
    reason: str = ""


class NotificationTest(msgspec.Struct, forbid_unknown_fields=True):
    """`targets` of notifications; without any, those of the setting `alert_notify`."""

    targets: list[str] = []


class AlertEndpoints:
    """Endpoints `alerts…`. `for_all` are the targets of rules without any."""

    def __init__(
        self, alerts: AlertOperations, tests: TargetTests, for_all: Sequence[str], limits: RestLimits
    ) -> None:
        self._alerts = alerts
        self._tests = tests
        self._for_all = for_all
        self._limits = limits

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_alerts": self.page,
            "acknowledge_alert": self.acknowledge,
            "silence_alert": self.silence,
            "test_notification": self.test,
        }

    async def page(self, request: Request) -> Reply:
        """GET alerts: those that are open, the worst first; then those that ended, the newest first"""
        request.require_administrator("alerts are")
        query = request.query(("limit", "after", "state"))
        limit = whole_number(query, "limit", 100, 1, self._limits.max_page)
        start = whole_number(query, "after", 0, 0, 10**6)
        states = several("query/state", query.get("state", ",".join(STATES)).split(","), STATES, "state")
        found = [alert for alert in self._alerts.all() if alert.state in states]
        items = [shown(alert) for alert in found[start : start + limit]]
        following = str(start + limit) if len(found) > start + limit else None
        return json_reply({"items": items, "next": following, "approx_total": len(found)})

    async def acknowledge(self, request: Request) -> Reply:
        """POST alerts/{id}/acknowledge: an operator works on it"""
        request.query()
        request.require_administrator("alerts are")
        body = await request.json(Acknowledgement, required=False)
        _check_reason(body.reason)
        alert = self._open(request)
        self._alerts.acknowledge(alert, request.user, body.reason)
        self._audit(request, ALERT_ACKNOWLEDGED, alert, body.reason)
        return json_reply(shown(alert))

    async def silence(self, request: Request) -> Reply:
        """POST alerts/{id}/silence: no notifications for a while, of it and of later ones"""
        request.query()
        request.require_administrator("alerts are")
        body = await request.json(Silence)
        _check_reason(body.reason)
        if not 0 <= body.for_s <= MAX_SILENT_S:
            raise invalid("/for_s", f"must be between 0 and {MAX_SILENT_S}", body.for_s)
        alert = self._open(request)
        if body.for_s:
            self._alerts.silence(alert, body.for_s, request.user, body.reason)
            self._audit(request, ALERT_SILENCED, alert, body.reason, for_s=body.for_s)
        else:
            self._alerts.reopen(alert)
            self._audit(request, ALERT_UNSILENCED, alert, body.reason)
        return json_reply(shown(alert))

    async def test(self, request: Request) -> Reply:
        """POST alerts/test: send a notification to targets now, once, and show what each answers"""
        request.query()
        request.require_administrator("alerts are")
        body = await request.json(NotificationTest, required=False)
        if len(body.targets) > MOST_TARGETS:
            raise invalid("/targets", f"has {len(body.targets)} targets; a test takes at most {MOST_TARGETS}")
        try:
            tested = await self.try_targets(body.targets, request.user)
        except ValueError as error:
            raise invalid("/targets", str(error)) from None
        for one in tested:
            request.audit(NOTIFICATION_TESTED, one["target"], ok=one["ok"])
        return json_reply({"items": tested})

    async def try_targets(self, targets: Sequence[str], user: str) -> list[TargetTest]:
        """Send a test to targets, without any to those of all rules. Raises ValueError and Refused."""
        chosen = targets or self._for_all
        if not chosen:
            raise Refused(
                "conflict", "no targets are named, and the setting alert_notify has none: name one to test it"
            )
        return await self._tests.run(chosen, user)

    def _open(self, request: Request) -> Alert:
        """The open alert of a request. Raises Refused."""
        alert = self._alerts.find(request.name)
        if alert is None:
            raise Refused("not-found", f"there is no alert {request.name[:40]!r}; it may have ended long ago")
        if alert.state == ENDED:
            raise Refused("conflict", f"the alert has ended: {alert.rule} of {alert.subject}")
        return alert

    def _audit(
        self, request: Request, action: AuditAction, alert: Alert, reason: str, **facts: float
    ) -> None:
        request.audit(action, f"{alert.rule}/{alert.subject}", reason=reason, **facts)


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON or not (reason.isprintable() or not reason):
        raise invalid("/reason", f"must be a line of at most {MAX_REASON} printable characters")
