"""The clock of the engine: the time of decisions, steps of the wall clock, and the next deadline."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from broker_app.base.internal_errors import EventListeners

log = logging.getLogger(__name__)

#: a difference of so many seconds between wall clock and steady clock, from one turn to the next, is a step
STEP_S = 1.0


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class EngineClock:
    """`wall` returns microseconds since 1970, `steady` seconds of a clock that is never set."""

    def __init__(self, wall: Callable[[], int], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._loop = asyncio.get_running_loop()
        #: seconds by which the wall clock is ahead of the steady one
        self._ahead_s = wall() / 1_000_000 - steady()
        #: what the steady clock showed at the last `read`
        self.steady_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: when `ring` is called next, 0 if it is not
        self.rings_ms = 0
        #: called when the clock was set, with the seconds that it was set forward
        self.listeners: EventListeners[[float]] = EventListeners("the clock's listeners")

    def read(self) -> tuple[int, float]:
        """Microseconds since 1970, and the seconds by which the clock was set since the last call, or 0.0."""
        now_us, self.steady_s = self._wall(), self._steady()
        step_s = now_us / 1_000_000 - self.steady_s - self._ahead_s
        self._ahead_s += step_s
        return now_us, 0.0 if -STEP_S < step_s < STEP_S else step_s

    def stepped(self, step_s: float) -> None:
        """Log a step, drop the timer, whose time is one of the former clock, and call the listeners."""
        log.warning(
            "the clock was set %s by %.0f s: waits, leases and idle times continue unchanged, expiry and "
            "delays follow the clock",
            "forward" if step_s > 0 else "back",
            abs(step_s),
        )
        self.stop()
        self.listeners(step_s)

    def ring_at(self, deadline_ms: int, ring: Callable[[], None]) -> None:
        """Call `ring` at a time; an earlier timer stays, and is set again after it has run."""
        if self._timer is not None:
            if self.rings_ms <= deadline_ms:
                return
            self._timer.cancel()
        delay_s = max(0.0, deadline_ms / 1000 - self._wall() / 1_000_000)
        self.rings_ms = deadline_ms
        self._timer = self._loop.call_later(delay_s, self._ring, ring)

    def _ring(self, ring: Callable[[], None]) -> None:
        self._timer, self.rings_ms = None, 0
        ring()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.rings_ms = None, 0
