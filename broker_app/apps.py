"""The broker as a Django application."""

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    name = "broker_app"
    verbose_name = "MOM"

    def ready(self) -> None:
        from broker_app.web.lazy_imports import spare_unused

        spare_unused()
        from broker_app.web.audit_sources import watch_logins

        watch_logins()
