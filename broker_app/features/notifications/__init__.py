"""Notifications of alerts that fire or end: to queues, webhooks and by mail.

`target` parses recipients, `webhook` and `mail` send, `delivery` joins them and retries.
"""

from broker_app.features.notifications.mailer import Mailer
from broker_app.features.notifications.retry_queue import Notification, RetryQueue
from broker_app.features.notifications.target import MAIL, QUEUE, WEBHOOK, Target

__all__ = ["MAIL", "QUEUE", "WEBHOOK", "Mailer", "Notification", "RetryQueue", "Target"]
