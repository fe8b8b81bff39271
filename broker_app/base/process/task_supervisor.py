"""The supervision of background tasks: one that fails is logged, counted and started again.

A task that the broker cannot run without is not supervised: its caller waits for its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from broker_app.base.internal_errors import internal_errors

#: the first pause before another start; each is twice as long as the one before, up to the longest
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0
#: a task that ran for so long was well; its next failure begins with the first pause again
WELL_S = 60.0


async def supervised(name: str, run: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run `run()` until it returns; after an exception, again."""
    pause_s = FIRST_PAUSE_S
    while True:
        began = time.monotonic()
        try:
            await run()
        except Exception as error:
            internal_errors.note("a background task", error, name)
        else:
            return
        if time.monotonic() - began > WELL_S:
            pause_s = FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class TaskSupervisor:
    """Background tasks that begin and end together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, run: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Keep a task running."""
        task = asyncio.create_task(supervised(name, run), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel all and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def count_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The event loop's handler of unhandled exceptions: of callbacks, protocols, forgotten tasks."""
    error = context.get("exception")
    if isinstance(error, Exception):
        internal_errors.note("the event loop", error, context.get("message", ""))
    else:
        loop.default_exception_handler(context)
