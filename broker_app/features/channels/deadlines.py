"""Time limits of many calls, kept by one timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

#: entries of calls that have ended before their time, beyond those that have not, before they are removed
_MOST_ENDED: Final = 1_000


class Deadlines:
    """The calls that have a time limit, by number. `passed` is called with each whose time has passed."""

    def __init__(self, passed: Callable[[int], None]) -> None:
        self._passed = passed
        #: when each ends (monotonic)
        self._ends: dict[int, float] = {}
        #: the same, the first one at the front, with others that are not in `_ends` any more
        self._heap: list[tuple[float, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0

    def add(self, number: int, seconds: float) -> None:
        """Have a call end after this time."""
        ends = self._ends[number] = time.monotonic() + seconds
        heappush(self._heap, (ends, number))
        if self._timer is None or ends < self._timer_s:
            self._start(ends, seconds)

    def remove(self, number: int) -> None:
        """Forget a call, which has ended."""
        self._ends.pop(number, None)
        if len(self._heap) > 2 * len(self._ends) + _MOST_ENDED:
            self._heap = [(ends, one) for one, ends in self._ends.items()]
            heapify(self._heap)

    def stop(self) -> None:
        """Forget all calls."""
        self._ends.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, ends: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = ends
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        now, heap = time.monotonic(), self._heap
        while heap and (heap[0][0] <= now or self._ends.get(heap[0][1]) != heap[0][0]):
            ends, number = heappop(heap)
            if self._ends.get(number) == ends:
                del self._ends[number]
                self._passed(number)
            heap = self._heap
        if heap and self._timer is None:
            self._start(heap[0][0], heap[0][0] - now)
