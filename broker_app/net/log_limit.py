"""A rate limit for log lines that unauthenticated clients can cause."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class RareLog:
    """Logs at most one line a second, with the number of suppressed ones."""

    def __init__(
        self,
        log: logging.Logger,
        level: int = logging.INFO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._level = level
        self._clock = clock
        self._next = 0.0
        self._suppressed = 0

    def log(self, text: str, *values: object) -> None:
        now = self._clock()
        if now < self._next:
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        self._next = now + 1.0
        more = f" (and {suppressed} more such lines)" if suppressed else ""
        self._log.log(self._level, text + "%s", *values, more)
