"""Gates: pushes pass, or not, because a breaker is open or because the receiver has asked for a pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from broker_app.base.events import BREAKER_CLOSED, BREAKER_OPENED, Event
from broker_app.features.callbacks.webhooks.breaker import CLOSED, HALF_OPEN, Breaker

#: seconds of a pause that a receiver asks for, at most
LONGEST_PAUSE_S: Final = 3600.0


class Gate:
    """`changed` is called when pushes may pass again, or no longer; `notify` with the events of the
    breaker, and a detail, but not while it opens again after a probe."""

    def __init__(
        self, breaker: Breaker, notify: Callable[[Event, str], None], changed: Callable[[], None]
    ) -> None:
        self._breaker = breaker
        self._notify = notify
        self._changed = changed
        #: until when nothing is pushed, seconds since 1970; 0.0 while pushes pass
        self.closed_until = 0.0
        #: the cause for that; empty if it is the breaker
        self.pause = ""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def state(self) -> str:
        """The state of its breaker."""
        return self._breaker.state

    @property
    def is_available(self) -> bool:
        """True unless the breaker is open, or a pause lasts."""
        return not self.closed_until

    @property
    def is_probing(self) -> bool:
        """True if one push at a time may pass, which shows whether the receiver is back."""
        return self._breaker.state == HALF_OPEN

    def close_for(self, seconds: float, pause: str) -> None:
        """Have no pushes pass for so long."""
        self._close_for(min(seconds, LONGEST_PAUSE_S), pause)

    def succeeded(self) -> None:
        """Note that a push has shown that all is well."""
        if self._breaker.succeeded():
            self._notify(BREAKER_CLOSED, "it answers again")
            self._reopen()

    def failed(self, detail: str) -> None:
        """Note a failed push."""
        was_closed = self._breaker.state == CLOSED
        open_s = self._breaker.failed()
        if open_s:
            self._close_for(open_s)
            if was_closed:
                self._notify(BREAKER_OPENED, detail)

    def reset(self) -> None:
        """Have pushes pass now, as an operator has asked."""
        self._breaker.reset()
        self._reopen()

    def _close_for(self, seconds: float, pause: str = "") -> None:
        until = time.time() + seconds
        if until <= self.closed_until:
            return
        was_available, self.closed_until, self.pause = self.is_available, until, pause
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._reopen)
        if was_available:
            self._changed()

    def _reopen(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.closed_until, self.pause = 0.0, ""
        self._breaker.try_again()
        self._changed()
