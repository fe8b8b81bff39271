"""`manage.py createsuperuser`: Django's, and running nodes notice."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser

from broker_app.management.offline_change import refuse_lost_change
from broker_app.web import actions


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        refuse_lost_change()
        with actions.watched_users(actions.Actor("manage.py", actions.CLI)):
            return super().handle(*args, **options)
