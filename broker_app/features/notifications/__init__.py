"""Notifications of alerts that fire or end: to queues, webhooks and by mail.

`target` parses recipients, `webhook` and `mailer` send, `delivery` joins them, `retry_queue` tries again,
`target_tests` tries once and shows the answer.
"""

from broker_app.features.notifications.mailer import Mailer
from broker_app.features.notifications.retry_queue import Notification, RetryQueue
from broker_app.features.notifications.target import MAIL, QUEUE, WEBHOOK, NotificationTarget
from broker_app.features.notifications.target_tests import TargetTests

__all__ = [
    "MAIL",
    "QUEUE",
    "WEBHOOK",
    "Mailer",
    "Notification",
    "NotificationTarget",
    "RetryQueue",
    "TargetTests",
]
