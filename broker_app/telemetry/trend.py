"""The course of one number of a destination over the last five minutes, in a few bytes.

A trend is drawn from it, and that a queue grows is seen in it. Unlike the past (`rings`), every destination
that was ever active has one.
"""

from __future__ import annotations

from array import array
from itertools import pairwise

STEP_S = 10
STEPS = 30
#: the queue grows if more is published than consumed for so many steps, checked so many at a time
GROWTH_STEPS = 12
_LOOK_STEPS = 3
_MOST = (1 << 32) - 1


class Trend:
    """A value at the end of each step: `put` it whenever it changes."""

    __slots__ = ("_last", "_steps")

    def __init__(self) -> None:
        self._steps: array[int] = array("I")
        #: number of the step that comes last
        self._last = -1

    def put(self, second: int, number: int) -> None:
        """`second` is not before the last one's."""
        self._reach(second // STEP_S)
        self._steps[-1] = min(number, _MOST)

    def trend(self, second: int) -> list[int]:
        """Up to `STEPS` numbers, the last that of the step of `second`; empty when nothing is known."""
        if self._steps:
            self._reach(second // STEP_S)
        return self._steps.tolist()

    def growth(self, second: int) -> float | None:
        """By how many a second it grew over the last two minutes; None unless it grew all the while."""
        if second // STEP_S - self._last >= _LOOK_STEPS:
            return None  # it rests
        steps = self.trend(second)[-GROWTH_STEPS - 1 :]
        looks = steps[::_LOOK_STEPS]
        if len(steps) <= GROWTH_STEPS or any(later <= sooner for sooner, later in pairwise(looks)):
            return None
        return (steps[-1] - steps[0]) / (GROWTH_STEPS * STEP_S)

    def shift(self, by_s: int) -> None:
        """Move all samples forward by this time, because the clock was set."""
        if self._last >= 0:
            self._last += by_s // STEP_S

    def _reach(self, step: int) -> None:
        """Extend it up to `step`: the value did not change."""
        gap = min(step - self._last, STEPS) if self._last >= 0 else 1
        if gap > 0:
            self._steps.extend([self._resting()] * gap)
            del self._steps[:-STEPS]
            self._last = step

    def _resting(self) -> int:
        return self._steps[-1] if self._steps else 0


class Traffic(Trend):
    """The sum of each step."""

    __slots__ = ()

    def put(self, second: int, number: int) -> None:
        self._reach(second // STEP_S)
        self._steps[-1] = min(self._steps[-1] + number, _MOST)

    def _resting(self) -> int:
        return 0
