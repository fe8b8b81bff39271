"""The turns of the loop that a test is in."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator


class Turns:
    """How many turns there were, and the longest, in processor time of the loop's thread: that of others does
    not count."""

    def __init__(self) -> None:
        self.number = 0
        self.longest_s = 0.0

    async def count(self) -> None:
        """Count for ever."""
        gc.disable()  # its pauses grow with all that the other tests have loaded
        try:
            while True:
                began = time.thread_time()
                await asyncio.sleep(0)
                self.number += 1
                self.longest_s = max(self.longest_s, time.thread_time() - began)
        finally:
            gc.enable()


@contextlib.asynccontextmanager
async def loop_turns() -> AsyncIterator[Turns]:
    """The turns for the length of a `with` block."""
    turns = Turns()
    counting = asyncio.create_task(turns.count())
    await asyncio.sleep(0)  # the first turn, in which the block begins, counts too
    try:
        yield turns
        await asyncio.sleep(0)  # and the last one
    finally:
        counting.cancel()
        await asyncio.wait([counting])
