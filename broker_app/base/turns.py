"""Work of tasks in turns of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from broker_app.base.deadline import Deadline

_Item = TypeVar("_Item")


async def in_turns(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """The items, for each of which the caller has a short step to make; others are served whenever the
    deadline has passed. `items` must not be changed meanwhile."""
    deadline, remaining = Deadline(time.monotonic), iter(items)
    for first in remaining:
        deadline.begin()
        yield first
        for item in deadline.each(remaining):
            yield item
        await asyncio.sleep(0)
