"""Acts: what operators did to messages, connections and jobs, on its way into the audit log.

The loop notes them and never waits; whoever keeps the log takes them now and then. Bounded: what does not fit
is counted, and that is noted too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

PURGED, DELETED, READ, CLOSED, DRAINED, BEGUN, CANCELLED, UNDONE, RETRIED, TESTED, HANDED_OVER, LOST = (
    "purged", "deleted", "read", "closed", "drained", "begun", "cancelled", "undone", "retried", "tested",
    "handed over", "not recorded",
)  # fmt: skip
#: of alerts
ACKNOWLEDGED, SILENCED, WOKEN = "acknowledged", "silenced", "woken"
#: ways of REST requests: a browser's session is the console
CONSOLE, API = "console", "api"


class Doer(NamedTuple):
    """Who acts, by which token if by one, from where, and what the request says of itself."""

    user: str
    token: str | None
    way: str
    address: str | None
    reason: str = ""
    trace_id: str = ""


class Act(NamedTuple):
    """What was done at a time (seconds of the epoch) to a thing of a kind, and facts of it."""

    time: float
    doer: Doer
    act: str
    kind: str
    key: str
    facts: Mapping[str, Any]


class _Reading:
    """Messages that somebody has read of one destination since it was last told, and when that was."""

    __slots__ = ("messages", "since")

    def __init__(self, since: float) -> None:
        self.messages = 0
        self.since = since


class Acts:
    """Acts that were not taken yet. `note` in the loop, `take` there too."""

    #: acts that wait to be taken, and readers of destinations that are remembered
    MOST = 10_000
    #: seconds for which what one reads of a destination is told as one
    READING_S = 60.0

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._waiting: list[Act] = []
        self._lost = 0
        self._readings: dict[tuple[Doer, str, str], _Reading] = {}

    def note(self, doer: Doer, act: str, kind: str, key: str, **facts: Any) -> None:
        """Something was done."""
        if len(self._waiting) < self.MOST:
            self._waiting.append(Act(self._clock(), doer, act, kind, key, facts))
        else:
            self._lost += 1

    def note_reading(self, doer: Doer, kind: str, key: str, messages: int) -> None:
        """Bodies of messages were looked at. The first look is told at once, more of them once a minute."""
        if not messages:
            return
        # Each request has a trace and a reason of its own; whose they are is one all the same.
        reader = (doer._replace(reason="", trace_id=""), kind, key)
        reading = self._readings.get(reader)
        if reading is not None:
            reading.messages += messages
        elif len(self._readings) < self.MOST:
            self._readings[reader] = _Reading(self._clock())
            self.note(doer, READ, kind, key, messages=messages)
        else:
            self._lost += 1

    def take(self, *, last: bool = False) -> list[Act]:
        """All that wait; with `last`, what is gathered of readings too."""
        now = self._clock()
        for reader, reading in list(self._readings.items()):
            if now - reading.since >= self.READING_S or last:
                self._tell_reading(reader, reading, now)
        taken, self._waiting = self._waiting, []
        if self._lost:
            doer = Doer("system", None, API, None)
            taken.append(Act(now, doer, LOST, "audit", "", {"acts": self._lost}))
            self._lost = 0
        return taken

    def _tell_reading(self, reader: tuple[Doer, str, str], reading: _Reading, now: float) -> None:
        """What was read since; somebody who has ceased to read is forgotten."""
        if reading.messages:
            self.note(reader[0], READ, reader[1], reader[2], messages=reading.messages)
            reading.messages, reading.since = 0, now
        else:
            del self._readings[reader]
