"""The refusal of new clients while this broker takes over: it is bounded, and its time is summed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

#: seconds for which new clients are refused while a takeover runs; they are taken then although it goes on
REFUSES_S: Final = 10.0


class _State(NamedTuple):
    """The member that is taken over and since when, and the seconds of refusals before."""

    member: str
    since: float
    before_s: float


class ClientRefusal:
    """The watch begins and ends it in its thread, and the loop reads it: so all of it changes at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state = _State("", 0.0, 0.0)

    def begin(self, member: str) -> None:
        """Refuse new clients, since the takeover from `member` begins."""
        self._state = _State(member, self._clock(), self._state.before_s)

    def end(self) -> None:
        """Take new clients again, since it has ended."""
        self._state = _State("", 0.0, self.total_s)

    @property
    def member(self) -> str:
        """The member that is taken over now, also when clients are taken again; empty without one."""
        return self._state.member

    @property
    def total_s(self) -> float:
        """Seconds for which new clients were refused so far."""
        member, since, before_s = self._state
        return before_s + (min(self._clock() - since, REFUSES_S) if member else 0.0)

    def reason(self) -> str:
        """The reason why new clients are refused; empty when they are not."""
        member, since, _ = self._state
        if not member or self._clock() - since > REFUSES_S:
            return ""
        return f"takes over the messages of {member} now, for {REFUSES_S:.0f} s at most"
