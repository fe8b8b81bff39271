"""The time that one piece of work may take of a turn of the loop; then others are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

#: seconds that a piece of work may take of a turn of the loop
TURN_S: Final = 0.005
#: short steps that are made between two looks at the clock
_STEPS: Final = 16

_Item = TypeVar("_Item")


class Deadline:
    """The end of a turn that began last, `TURN_S` later. It is asked between two steps, each of which is
    short; what is left waits for the next turn. `clock` returns seconds of a clock that is never set."""

    __slots__ = ("_clock", "_ends")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends = 0.0

    def begin(self, now: float | None = None) -> None:
        """Begin a turn; `now` is the time of the clock, if the caller has it."""
        self._ends = (self._clock() if now is None else now) + TURN_S

    @property
    def passed(self) -> bool:
        """True if the rest has to wait for the next turn."""
        return self._clock() > self._ends

    def each(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """The next of `items`, at least some of them, until the deadline has passed; the caller finds there
        what is left."""
        for at, item in enumerate(items, 1):
            yield item
            if at % _STEPS == 0 and self.passed:
                return


#: a deadline that does not pass, where no others are to be served
NEVER: Final = Deadline(lambda: 0.0)
