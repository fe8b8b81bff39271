"""System events of a node: published on `$mom` topics, logged, and sent as notifications."""

from __future__ import annotations

from typing import Final

from broker_app.base.events import (
    ALERT_FIRED,
    FILES_APPLIED,
    FILES_REFUSED,
    FILES_UNCHANGED,
    NOT_DELIVERED,
)
from broker_app.base.reply_types import Facts
from broker_app.base.settings import mail_server
from broker_app.config import Config
from broker_app.features.notifications import (
    Mailer,
    Notification,
    NotificationTarget,
    RetryQueue,
    TargetTests,
)
from broker_app.features.notifications.delivery import NOTIFIED, deliver, notification_of, targets
from broker_app.net.auth.login import Logins
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session import StompSession
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry import SystemTopics
from broker_app.telemetry.alerts import AlertEvent
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.event_log import EventLog

#: by the outcome of reading the files
_READINGS: Final = {event.name: event for event in (FILES_APPLIED, FILES_UNCHANGED, FILES_REFUSED)}


class SystemEvents:
    """Routes events of alerts, connections and files to topics, event log and notifications."""

    def __init__(
        self,
        config: Config,
        logins: Logins,
        events: EventLog,
        connections: Connections,
        topics: SystemTopics,
        publisher: SystemPublisher,
    ) -> None:
        self._config = config
        self._logins = logins
        self._events = events
        self._connections = connections
        self._topics = topics
        self._publisher = publisher
        self.notifications = RetryQueue(self._deliver, self._gave_up)
        self.target_tests = TargetTests(self._deliver, config.name, config.console_url)
        self._mailer = Mailer(mail_server.parse(config.smtp) if config.smtp is not None else None)

    def connection(self, event: str, session: StompSession) -> None:
        """Publish that a connection was opened or closed."""
        if self._topics.has_subscribers:
            self._topics.connection(
                event, self._connections.facts(session), session.conversation.close_reason
            )

    def alert(self, event: AlertEvent) -> None:
        """Publish and log an event of an alert, and notify its targets."""
        about, alert = shown(event.alert), event.alert
        self._topics.alert(event.event.name, about)
        code = alert.condition.upper() if event.event is ALERT_FIRED else ""
        self._events.report(
            event.event,
            alert.rule,
            code=code,
            detail=about["detail"],
            alert=alert.id,
            condition=alert.condition,
            subject=alert.subject,
            value=alert.value,
            found=about["facts"],
        )
        if event.event in NOTIFIED:
            for target in targets(alert, self._logins.policy.alerts, self._config.alert_notify):
                self.notifications.put(
                    target, notification_of(event, self._config.name, self._config.console_url)
                )

    def files_read(self, about: Facts, *, refused: bool) -> None:
        """Publish and log that files of the configuration were read, or `refused`."""
        self._topics.files(about)
        counts = ", ".join(f"{about[change]} {change}" for change in ("added", "changed", "removed"))
        detail = "; ".join(about["errors"]) if refused else counts
        self._events.report(_READINGS[about["outcome"]], about["trigger"], detail=detail, **about)

    async def _deliver(self, target: NotificationTarget, notification: Notification) -> None:
        await deliver(target, notification, self._publisher, self._mailer)

    def _gave_up(self, target: NotificationTarget, notification: Notification, fault: str) -> None:
        self._events.report(NOT_DELIVERED, notification.id, target=target.where, fault=fault)
