"""Waiting, in the loop, for effects that report nothing."""

import asyncio
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], deadline_s: float = 20.0) -> None:
    """Wait until `condition` is true; fails after the deadline."""
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.005)
