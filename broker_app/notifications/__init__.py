"""Notices: what is told outside of the broker when an alert fires or ends: to queues, webhooks, by mail.

`target` says who can be told, `outbox` tries until it is done, `webhook` and `mail` carry, `delivering`
joins them.
"""

from broker_app.notifications.mailer import Mailer
from broker_app.notifications.retry_queue import Notification, RetryQueue
from broker_app.notifications.target import MAIL, QUEUE, WEBHOOK, Target

__all__ = ["MAIL", "QUEUE", "WEBHOOK", "Mailer", "Notification", "RetryQueue", "Target"]
