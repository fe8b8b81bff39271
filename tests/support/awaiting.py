"""Waiting, in the loop, for effects that report nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.patience import patient


async def until(condition: Callable[[], Any], deadline_s: float = 20.0) -> None:
    """Wait until `condition` is true; fails after the deadline, which is that of a quiet machine."""
    async with asyncio.timeout(patient(deadline_s)):
        while not condition():
            await asyncio.sleep(0.005)
