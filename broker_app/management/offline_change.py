"""Changes of the configuration by commands of manage.py, while a broker runs or not."""

from django.conf import settings
from django.core.management.base import CommandError

from broker_app.node import configuration_copy


def refuse_lost_change() -> None:
    """Raise CommandError where a change would be replaced by the configuration of another broker."""
    try:
        configuration_copy.refuse_change(settings.MOM.data)
    except configuration_copy.ConfigurationCopy as error:
        raise CommandError(f"{error}\n  where: {settings.MOM.data}") from error
