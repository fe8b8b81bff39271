"""`mom callback worker`, or `manage.py runworker`: sends the requests of webhooks for a broker, until it is
stopped.

It is the command of Channels, which goes on when the layer could not be reached for a while.
"""

import asyncio
import logging
from typing import Any

from channels.management.commands.runworker import Command as RunWorker
from channels.worker import Worker
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from broker_app.features.callbacks.webhooks.worker_poster import CHANNEL
from broker_app.web.channel_layer import check, passing

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_NO_LAYER = (
    "no channel layer is configured: set MOM_CHANNEL_LAYER to that of the broker, "
    "such as redis://127.0.0.1:6379"
)


class LastingWorker(Worker):  # type: ignore[misc]
    """A worker that survives a restart of its layer."""

    async def listener(self, channel: str) -> None:
        while True:
            try:
                await super().listener(channel)
            except passing() as error:
                log.warning("no tasks can be received; next attempt in %g s: %s", _RETRY_S, error)
                await asyncio.sleep(_RETRY_S)


class Command(RunWorker):  # type: ignore[misc]
    help = "Sends the requests of webhooks, as the setting channel_layer (MOM_CHANNEL_LAYER) requires."
    worker_class = LastingWorker

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "channels", nargs="*", default=[CHANNEL], help=f"channels to listen on; there is only {CHANNEL}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for channel in options["channels"]:
            if channel != CHANNEL:
                raise CommandError(
                    f"there is no channel {channel}, only {CHANNEL}: leave it out, or write that"
                )
        if not settings.CHANNEL_LAYERS:
            raise CommandError(_NO_LAYER)
        try:
            check()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        super().handle(*args, **options)
