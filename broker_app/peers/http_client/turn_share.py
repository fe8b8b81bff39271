"""The share of a turn of the loop in which answers are parsed, divided among all connections of a client."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from broker_app.base.deadline import TURN_S

#: connections that go on in one turn, of those that wait
_AT_ONCE: Final = 8


class TurnShare:
    """Made within the running loop: `wait` before each piece of work, and `spend` the time that it took."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spent_s = 0.0
        self._renewing = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def spend(self, seconds: float) -> None:
        """Note that work of this turn has taken so long."""
        self._spent_s += seconds
        self._renew_soon()

    async def wait(self) -> None:
        """Return when there is time for a piece of work: at once, or in a later turn, after those that have
        waited longer."""
        if self._spent_s < TURN_S and not self._waiting:
            return
        place = self._loop.create_future()
        self._waiting.append(place)
        self._renew_soon()
        await place

    def _renew_soon(self) -> None:
        if not self._renewing:
            self._renewing = True
            self._loop.call_soon(self._renew)

    def _renew(self) -> None:
        """Begin a turn."""
        self._renewing, self._spent_s = False, 0.0
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            place = self._waiting.popleft()
            if not place.done():  # it may have been cancelled
                place.set_result(None)
        if self._waiting:
            self._renew_soon()
