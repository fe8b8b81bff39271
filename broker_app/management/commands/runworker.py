"""`manage.py runworker mom.webhooks`: sends the requests of webhooks for a broker, until it is stopped.

It is the command of Channels, which goes on when the layer could not be reached for a while.
"""

import asyncio
import logging
from typing import Any

from channels.management.commands.runworker import Command as RunWorker
from channels.worker import Worker

from broker_app.channel_layer import PASSING, check

log = logging.getLogger(__name__)

_RETRY_S = 1.0


class LastingWorker(Worker):  # type: ignore[misc]
    """A worker that survives a restart of its layer."""

    async def listener(self, channel: str) -> None:
        while True:
            try:
                await super().listener(channel)
            except PASSING as error:
                log.warning("no tasks can be received; next attempt in %g s: %s", _RETRY_S, error)
                await asyncio.sleep(_RETRY_S)


class Command(RunWorker):  # type: ignore[misc]
    help = "Sends the requests of webhooks, as the setting channel_layer (MOM_CHANNEL_LAYER) requires."
    worker_class = LastingWorker

    def handle(self, *args: Any, **options: Any) -> None:
        check()
        super().handle(*args, **options)
