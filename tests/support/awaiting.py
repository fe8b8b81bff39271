"""Waiting, in the loop, for effects that report nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.support.patience import patient
from tests.support.polling import pauses

_Value = TypeVar("_Value")


async def until(condition: Callable[[], Any], deadline_s: float = 20.0) -> None:
    """Wait until `condition` is true; fails after the deadline, which is that of a quiet machine."""
    pause = pauses(0.005)
    async with asyncio.timeout(patient(deadline_s)):
        while not condition():
            await asyncio.sleep(next(pause))


async def becomes(read: Callable[[], Awaitable[_Value]], wanted: _Value, deadline_s: float = 20.0) -> None:
    """Wait until what is read is as wanted; fails with what was read last."""
    deadline = asyncio.get_running_loop().time() + patient(deadline_s)
    pause = pauses(0.02)
    while (found := await read()) != wanted:
        assert asyncio.get_running_loop().time() < deadline, f"{found} instead of {wanted}"
        await asyncio.sleep(next(pause))
