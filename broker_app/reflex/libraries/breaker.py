"""The circuit breaker of a library: after failures in a row it is not called for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: failures of a process in a row that open it, and for how long, in seconds
FAILURES: Final = 3
OPEN_S: Final = 10.0


class Breaker:
    """Counts failures in a row. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open_until = 0.0
        self.failures = 0
        #: the last failure; empty after a success
        self.reason = ""

    @property
    def is_open(self) -> bool:
        """True while the library must not be called."""
        return self._clock() < self._open_until

    def failed(self, reason: str, *, at_once: bool = False) -> bool:
        """Count a failure. Returns whether it is open now; `at_once` opens it in any case."""
        self.failures += 1
        self.reason = reason
        if self.failures < FAILURES and not at_once:
            return False
        self._open_until = self._clock() + OPEN_S
        return True

    def succeeded(self) -> None:
        """Close it."""
        if self.failures:
            self.failures = 0
            self.reason = ""
            self._open_until = 0.0

    def close(self) -> None:
        """Let the next call try, because something was changed."""
        self._open_until = 0.0
