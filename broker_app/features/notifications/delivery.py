"""Notifications of alerts: their targets, content and delivery."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from broker_app.base.events import ALERT_ENDED, ALERT_FIRED
from broker_app.base.refused import Refused
from broker_app.core.message import Envelope
from broker_app.features.notifications import webhook
from broker_app.features.notifications.mailer import Mailer
from broker_app.features.notifications.retry_queue import Notification
from broker_app.features.notifications.target import QUEUE, WEBHOOK, NotificationTarget
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.alerts.alert_state import AlertEvent
from broker_app.telemetry.alerts.rule import AlertRule
from broker_app.telemetry.alerts.texts import shown

#: events that are sent as notifications; acknowledging and silencing are not
NOTIFIED: Final = (ALERT_FIRED, ALERT_ENDED)
#: the event of a notification that only tests its target
TEST: Final = "test"


class MessagePublisher(Protocol):
    """Publishes messages of the broker itself."""

    async def publish_confirmed(self, envelope: Envelope, body: bytes) -> None: ...


def targets(alert: Alert, rules: Sequence[AlertRule], for_all: Sequence[str]) -> Iterator[NotificationTarget]:
    """The targets of an alert: those of its rule, or `for_all`. A silenced alert has none."""
    rule = next((rule for rule in rules if rule.name == alert.rule), None)
    if alert.until is None:
        for text in (rule.notify if rule is not None else ()) or for_all:
            yield NotificationTarget.of(text)


def notification_of(event: AlertEvent, broker: str, console: str | None) -> Notification:
    """`console` is its address, for the link; None if it is not configured."""
    alert, name = event.alert, event.event.name
    about = shown(alert)
    link = f"{console.rstrip('/')}/{about['page']}" if console is not None else None
    title = f"[{broker}] {name if event.event is ALERT_ENDED else alert.severity}: {about['detail']}"
    lines = [about["detail"], "", f"alert   {alert.rule}, {name}", f"since   {about['since']}"]
    if alert.ended_at is not None:
        lines.append(f"ended   {about['ended_at']}")
    if link is not None:
        lines.append(f"look    {link}")
    body = {"event": name, "broker": broker, "link": link, "alert": about}
    return Notification(f"{alert.id}-{name}", title, "\n".join(lines) + "\n", body)


def sample(broker: str, console: str | None) -> Notification:
    """A notification without an alert, for tests of a target."""
    text = f"This is a test of notifications of the broker {broker}. Nothing is wrong."
    link = f"{console.rstrip('/')}/alerts/" if console is not None else None
    body = {"event": TEST, "broker": broker, "link": link, "alert": None}
    return Notification(
        f"tst_{secrets.token_hex(12)}", f"[{broker}] test of notifications", text + "\n", body
    )


async def deliver(
    target: NotificationTarget,
    notification: Notification,
    publisher: MessagePublisher,
    mailer: Mailer,
) -> None:
    """Raises OSError or ValueError if it was not accepted."""
    if target.kind == QUEUE:
        block = f"content-type:application/json\nmom-notification:{notification.id}\n".encode()
        try:
            envelope = Envelope(target.where, block, persistent=True)
            await publisher.publish_confirmed(envelope, _encoded(notification))
        except Refused as refused:
            raise ValueError(refused.detail) from None
    elif target.kind == WEBHOOK:
        await webhook.post(target.where, _encoded(notification), {"Mom-Notification": notification.id})
    else:
        await mailer.send(target.where, notification.title, notification.text)


def _encoded(notification: Notification) -> bytes:
    return json.dumps(notification.body).encode()
