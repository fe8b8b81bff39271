"""Work on large bodies, which is done in a thread so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_Value = TypeVar("_Value")

#: bytes from which on a body is encoded in a thread: less takes a millisecond or two
LARGE_BYTES: Final = 1024 * 1024
#: bytes up to which it takes no time to speak of
_SHORT_BYTES: Final = 64 * 1024
#: one for all: each thread has memory of its own, and keeps much of what it once needed
_THREAD: Final = ThreadPoolExecutor(1, "large-bodies")


async def in_thread_if_large(size: int, work: Callable[[], _Value]) -> _Value:
    """The result of `work` on so many bytes. Others have their turn behind what is not short: callers have
    several of them."""
    if size <= LARGE_BYTES:
        result = work()
        if size > _SHORT_BYTES:
            await asyncio.sleep(0)
        return result
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)
