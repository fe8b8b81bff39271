"""The outbox: notices on their way, each tried again with growing waits until it is taken or given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from broker_app.internal_errors import internal_errors
from broker_app.notifications.target import Target

log = logging.getLogger(__name__)

#: notices on their way, and deliveries at a time
MOST: Final = 1_000
AT_A_TIME: Final = 4
#: seconds before another try; after the last one it is given up
DELAYS_S: Final = (2.0, 10.0, 60.0, 300.0, 900.0)


class Notification(NamedTuple):
    """`title` and `text` are to be read, `body` is for programs."""

    id: str
    title: str
    text: str
    body: dict[str, Any]


class RetryQueue:
    """`deliver` raises OSError or ValueError when a notice was not taken, `gave_up` hears of those that never
    were. Used in the loop."""

    def __init__(
        self,
        deliver: Callable[[Target, Notification], Awaitable[None]],
        gave_up: Callable[[Target, Notification, str], None],
        delays_s: Sequence[float] = DELAYS_S,
    ) -> None:
        self._deliver = deliver
        self._gave_up = gave_up
        self._delays_s = delays_s
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._under_way: set[asyncio.Task[None]] = set()

    def put(self, target: Target, notice: Notification) -> None:
        """Has it delivered."""
        if len(self._under_way) >= MOST:
            self._gave_up(target, notice, f"{MOST} notices are on their way already")
            return
        task = asyncio.create_task(self._try(target, notice))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def stop(self) -> None:
        """Drop what is not delivered yet: the alerts still exist after a restart."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(self, target: Target, notice: Notification) -> None:
        fault = ""
        for wait_s in (0.0, *self._delays_s):
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                async with self._room:
                    await self._deliver(target, notice)
            except (OSError, ValueError) as error:
                fault = str(error) or type(error).__name__
                log.info("notice %s was not taken by %s: %s", notice.id, target.where, fault)
            except Exception as error:
                internal_errors.note("the delivery of notices", error, target.where)
                fault = f"the broker failed at it: {error!r}"
                break
            else:
                return
        self._gave_up(target, notice, fault)
