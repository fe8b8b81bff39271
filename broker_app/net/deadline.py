"""The time that one connection may take of a turn of the loop; then others are served."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: seconds of a turn of the loop for what one connection has sent
TURN_S: Final = 0.005


class Deadline:
    """The end of a turn that began last, `TURN_S` later. It is asked between two operations of a connection,
    each of which is short."""

    __slots__ = ("_clock", "_ends")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = 0.0

    def begin(self, now: float) -> None:
        """Begin a turn; `now` is the time of the clock."""
        self._ends = now + TURN_S

    @property
    def passed(self) -> bool:
        """True if the rest has to wait for the next turn."""
        return self._clock() > self._ends
