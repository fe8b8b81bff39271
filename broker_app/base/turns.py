"""Work in turns of the loop: of tasks, and step by step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sized
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


class StepsInTurns:
    """Short steps, as long as something is `left`, of which each `step` takes some: whenever the deadline has
    passed, the others wait for a later turn of the loop. A step raises nothing."""

    def __init__(self, left: Sized, step: Callable[[], None]) -> None:
        self._left = left
        self._step = step
        self._deadline = Deadline(time.monotonic)
        self._is_scheduled = False

    def later(self) -> None:
        """Make the steps in later turns."""
        if self._left and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._in_turn)

    def now(self) -> None:
        """Make the steps of a turn, and the others in later ones."""
        self._deadline.begin()
        while self._left:
            self._step()
            if self._deadline.passed:
                break
        self.later()

    def _in_turn(self) -> None:
        self._is_scheduled = False
        self.now()
