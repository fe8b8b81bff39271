"""Short pauses of Python's garbage collector.

A full collection looks at every object. With 10,000 subscriptions that stops the broker for a third of a
second, again and again, though nearly all of them stay. So what has survived a collection that took a while
is set aside (`gc.freeze`), unless that was for its garbage: reference counts still free it, and only garbage
in cycles waits until everything is looked at again. What clients do leaves none of that: sessions that have
ended are freed by reference counts (tests/net/test_ended_sessions.py), save about 1 KiB of asyncio's own for
each connection. So everything is looked at again when the process has grown by half and by much, and not by
the clock.

Full collections are frequent, ten times as many as Python's, and each has little to look at. Python puts
them off until a quarter as many objects are new as the last one has looked at. So one that looked at
everything is followed by one that looks at nothing, from which Python counts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from broker_app.telemetry.statistics import resident_bytes

#: seconds of a collection after which what it left is set aside, unless it has freed so many objects
LONG_S: Final = 0.005
MANY: Final = 10_000
#: collections of the first generation from one of the second to the next, and of that to a full one, at least
_OFTEN: Final = 5, 2
#: bytes that the process grows by, at least, until everything is looked at again
GROWN_BYTES: Final = 512 * 1024 * 1024


class CollectorPauses:
    """Sets many objects aside after each full collection that takes a while, from `start` to `stop`."""

    def __init__(
        self,
        long_s: float = LONG_S,
        clock: Callable[[], float] = time.perf_counter,
        memory: Callable[[], int] = resident_bytes,
    ) -> None:
        self._long_s = long_s
        self._clock = clock
        self._memory = memory
        self._began = 0.0
        #: bytes at which everything is looked at again
        self._most = 0
        #: True from the moment when everything is to be looked at again until that is done
        self._looks_at_all = False
        self._former = gc.get_threshold()

    def start(self) -> None:
        """Set aside what there is now."""
        first, *_ = self._former = gc.get_threshold()
        gc.set_threshold(first, *_OFTEN)
        self._count_from_none()
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Leave everything to the collector again."""
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._former)
        gc.unfreeze()

    def check(self) -> None:
        """Have all objects collected the next time, if the process has grown."""
        if self._looks_at_all:
            if gc.get_freeze_count():
                self._looks_at_all = False
                self._count_from_none()
        elif self._memory() > self._most:
            self._looks_at_all = True
            gc.unfreeze()

    def _count_from_none(self) -> None:
        """Set everything aside, and have Python count new objects from none."""
        gc.freeze()
        gc.collect()
        size = self._memory()
        self._most = size + max(GROWN_BYTES, size // 2)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._clock()
        elif self._looks_at_all or (self._took_long() and info["collected"] < MANY):
            # What is left is not counted: `gc.get_objects` shows tuples that another thread is making, and
            # CPython cannot finish those to which something refers (SystemError).
            gc.freeze()

    def _took_long(self) -> bool:
        return self._clock() - self._began >= self._long_s
