"""Tests of targets: each is sent one notification once, and its answer is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, TypedDict

from broker_app.base.reply_types import Seconds, about
from broker_app.base.shares import Shares
from broker_app.features.notifications.delivery import sample
from broker_app.features.notifications.retry_queue import Notification
from broker_app.features.notifications.target import NotificationTarget

#: tests at the same time, and targets of one at the same time
MAX_TESTS: Final = 2
AT_A_TIME: Final = 2
#: seconds for one target
TIMEOUT_S: Final = 20.0


class TargetTest(TypedDict):
    """The answer of one target to a test."""

    target: str
    ok: Annotated[bool, about("it accepted the notification")]
    detail: Annotated[str, about("the reason why it did not; empty if it did")]
    seconds: Seconds


class TargetTests:
    """`deliver` raises OSError or ValueError if a notification was not accepted; `broker` is the name of the
    broker, `console` the address of its console or None. Used in the loop."""

    def __init__(
        self,
        deliver: Callable[[NotificationTarget, Notification], Awaitable[None]],
        broker: str,
        console: str | None,
    ) -> None:
        self._deliver = deliver
        self._broker = broker
        self._console = console
        self._running = Shares(lambda: MAX_TESTS, "tests of notifications")

    async def run(self, targets: Sequence[str], user: str) -> list[TargetTest]:
        """Send a test to each target, without another attempt. Raises ValueError if one is invalid, and
        Refused when too many are tested."""
        known = [(text, NotificationTarget.of(text)) for text in targets]
        with self._running.taken(user, admin=True):
            room = asyncio.Semaphore(AT_A_TIME)
            return await asyncio.gather(*(self._one(text, target, room) for text, target in known))

    async def _one(self, text: str, target: NotificationTarget, room: asyncio.Semaphore) -> TargetTest:
        async with room:
            begun, detail = time.monotonic(), ""
            try:
                async with asyncio.timeout(TIMEOUT_S) as limit:
                    await self._deliver(target, sample(self._broker, self._console))
            except (OSError, ValueError) as error:  # a TimeoutError is an OSError, too
                detail = str(error) or type(error).__name__
                if limit.expired():
                    detail = f"there was no answer within {TIMEOUT_S:g} s"
            seconds = round(time.monotonic() - begun, 3)
            return {"target": text, "ok": not detail, "detail": detail, "seconds": seconds}
