"""Rarely: lines of the log that strangers can cause as often as they like."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class RareLog:
    """At most one line a second, with the number of those that were left out."""

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
        self._unsaid = 0

    def say(self, text: str, *facts: object) -> None:
        now = self._clock()
        if now < self._next:
            self._unsaid += 1
            return
        unsaid, self._unsaid = self._unsaid, 0
        self._next = now + 1.0
        more = f" (and {unsaid} more such lines)" if unsaid else ""
        self._log.log(self._level, text + "%s", *facts, more)
