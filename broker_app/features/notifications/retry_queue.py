"""The queue of notifications: each is retried with growing delays until it is accepted or given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from broker_app.base.internal_errors import internal_errors
from broker_app.features.notifications.target import NotificationTarget

log = logging.getLogger(__name__)

#: pending notifications, and deliveries at a time
MOST: Final = 1_000
AT_A_TIME: Final = 4
#: seconds before each retry; after the last one the notification is given up
DELAYS_S: Final = (2.0, 10.0, 60.0, 300.0, 900.0)


class Notification(NamedTuple):
    """`title` and `text` are for operators, `body` is for programs."""

    id: str
    title: str
    text: str
    body: dict[str, Any]


class RetryQueue:
    """`deliver` raises OSError or ValueError if a notification was not accepted; `gave_up` is called with
    those that were given up. Used in the loop."""

    def __init__(
        self,
        deliver: Callable[[NotificationTarget, Notification], Awaitable[None]],
        gave_up: Callable[[NotificationTarget, Notification, str], None],
        delays_s: Sequence[float] = DELAYS_S,
    ) -> None:
        self._deliver = deliver
        self._gave_up = gave_up
        self._delays_s = delays_s
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, target: NotificationTarget, notification: Notification) -> None:
        """Deliver a notification in the background."""
        if len(self._tasks) >= MOST:
            self._gave_up(target, notification, f"{MOST} notifications are pending already")
            return
        task = asyncio.create_task(self._try(target, notification))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Drop what is not delivered yet: the alerts still exist after a restart."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(self, target: NotificationTarget, notification: Notification) -> None:
        fault = ""
        for wait_s in (0.0, *self._delays_s):
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                async with self._room:
                    await self._deliver(target, notification)
            except (OSError, ValueError) as error:
                fault = str(error) or type(error).__name__
                log.info("notification %s was not accepted by %s: %s", notification.id, target.where, fault)
            except Exception as error:
                internal_errors.note("the delivery of notifications", error, target.where)
                fault = f"the broker failed at it: {error!r}"
                break
            else:
                return
        self._gave_up(target, notification, fault)
