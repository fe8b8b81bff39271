"""Short pauses of Python's garbage collector.

A full collection looks at every object. With 10,000 subscriptions that stops the broker for a third of a
second, again and again, though nearly all of them stay. So what has survived a collection that took long is
set aside (`gc.freeze`), if it is much: reference counts still free it, and only garbage in cycles waits until
everything is looked at again. That is once an hour, and sooner when half as much again was set aside since:
sessions that were alive then and have ended take 5 KiB each.

Garbage in cycles, such as sessions that have ended, takes microseconds each to free. So full collections are
five times as frequent as Python's, and each has little of it. One that took long for its garbage sets
nothing aside: what is alive then ends soon, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

#: seconds of a pause that clients notice, and objects that take about as long to look at
LONG_S: Final = 0.02
MANY: Final = 20_000
#: collections of the second generation from one full collection to the next, at least
_OFTEN: Final = 2
#: seconds between two collections of what was set aside, at most
ALL_EVERY_S: Final = 3600.0
#: objects that may be added in between, those of about 5,000 sessions, or half of all if that is more
MOST_ADDED: Final = 250_000


class CollectorPauses:
    """Sets many objects aside after each full collection that takes long, from `start` to `stop`."""

    def __init__(
        self,
        long_s: float = LONG_S,
        clock: Callable[[], float] = time.perf_counter,
        most_added: int = MOST_ADDED,
    ) -> None:
        self._long_s = long_s
        self._clock = clock
        self._most_added = most_added
        self._began = self._all_due = 0.0
        #: objects that were set aside when all had been looked at; None until they are
        self._all: int | None = 0
        #: those that were set aside since
        self._added = 0
        self._former = gc.get_threshold()

    def start(self) -> None:
        """Set aside what there is now."""
        gc.freeze()
        first, second, _ = self._former = gc.get_threshold()
        gc.set_threshold(first, second, _OFTEN)
        self._all_due = self._clock() + ALL_EVERY_S
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Leave everything to the collector again."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._former)
        gc.unfreeze()

    def check(self) -> None:
        """Have all objects collected the next time, if that is due."""
        if self._clock() >= self._all_due:
            self._all_due = self._clock() + ALL_EVERY_S
            self._all = None
            gc.unfreeze()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._clock()
        elif self._clock() - self._began >= self._long_s and (found := len(gc.get_objects())) >= MANY:
            gc.freeze()
            self._note(found)

    def _note(self, found: int) -> None:
        """Count what was set aside; to count all of it again would take as long as to look at it."""
        if self._all is None:
            self._all, self._added = found, 0
            return
        self._added += found
        if self._added >= max(self._most_added, self._all // 2):
            self._all_due = 0.0
