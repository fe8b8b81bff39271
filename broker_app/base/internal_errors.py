"""Internal errors: exceptions that are the broker's own fault and were contained where they happened.

Each is logged with its traceback and counted by place, for the whole process, as metrics are. An exception
that leaves memory and journal apart is none of them: it ends the engine.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Generic, ParamSpec

log = logging.getLogger(__name__)

#: after a traceback, further errors of the same place are only counted for so long
QUIET_S = 10.0

P = ParamSpec("P")


class InternalErrors:
    """Counts by place; `clock` is seconds of any beginning."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        #: by place: when a traceback was logged last, and how many errors were counted by then
        self._logged: dict[str, tuple[float, int]] = {}

    @property
    def total(self) -> int:
        """All since the process started."""
        return self._counts.total()

    def of(self, place: str) -> int:
        """The number of errors in one place."""
        return self._counts[place]

    def note(self, place: str, error: BaseException, about: str = "") -> None:
        """Count an error and log it. `place` is one of a few names, `about` whom or what it concerned."""
        self._counts[place] += 1
        count, now = self._counts[place], self._clock()
        logged_at, counted = self._logged.get(place, (float("-inf"), 0))
        if now - logged_at < QUIET_S:
            return
        self._logged[place] = now, count
        silent = count - counted - 1
        log.error(
            "internal error in %s%s; the broker continues%s",
            place,
            f" ({about})" if about else "",
            f". {silent} more there were not logged" if silent else "",
            exc_info=error,
        )


#: those of this process
internal_errors = InternalErrors()


class EventListeners(Generic[P]):
    """Callbacks that hear the same events. One that fails disturbs neither the others nor the caller."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._listeners: dict[Callable[P, object], None] = {}

    def add(self, listener: Callable[P, object]) -> None:
        """Call `listener` with each event from now on."""
        self._listeners[listener] = None

    def discard(self, listener: Callable[P, object]) -> None:
        """Call `listener` no more."""
        self._listeners.pop(listener, None)

    def __len__(self) -> int:
        return len(self._listeners)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in list(self._listeners):
            try:
                listener(*args, **kwargs)
            except Exception as error:
                internal_errors.note(self._place, error, getattr(listener, "__qualname__", ""))
