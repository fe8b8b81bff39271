"""The circuit breaker of a host: it keeps a receiver that fails from being asked again and again.

closed ──5 failures in a row──► open ──time──► half-open ──success──► closed
                                  ▲                │
                                  └────failure─────┘  for twice the time
"""

from __future__ import annotations

import random
from typing import Final

from broker_app.base.states import BREAKER

CLOSED, OPEN, HALF_OPEN = BREAKER

#: failures in a row that open it
FAILURES: Final = 5
#: seconds for which it is open: at first, and at most
FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0
JITTER: Final = 0.2


class Breaker:
    """The state of one host. Its owner passes the outcomes, and calls `try_again` after the time that
    `failed` has returned."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self.state = CLOSED
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0
        self._pause_s = first_s

    def succeeded(self) -> bool:
        """Note that the host has answered; returns whether that closed it."""
        was_open, self.state = self.state != CLOSED, CLOSED
        self._failures, self._pause_s = 0, self._first_s
        return was_open

    def failed(self) -> float:
        """Note a failure; the seconds for which it is open now, or 0 if that did not open it."""
        if self.state == OPEN:
            return 0.0  # a push that began before
        self._failures += 1
        if self.state == CLOSED and self._failures < FAILURES:
            return 0.0
        open_s = self._pause_s * random.uniform(1 - JITTER, 1 + JITTER)
        self._pause_s = min(2 * self._pause_s, self._longest_s)
        self.state = OPEN
        return open_s

    def try_again(self) -> None:
        """Let one push through, which shows whether the host is back."""
        if self.state == OPEN:
            self.state = HALF_OPEN

    def reset(self) -> None:
        """Begin again, as an operator has asked."""
        self.succeeded()
