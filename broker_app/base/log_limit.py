"""A rate limit for log lines that clients and functions of users can cause, also before a login."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from broker_app.base.refused import Refused

Clock = Callable[[], float]

#: kinds of lines that are distinguished; beyond that, the one that was first seen is forgotten
_MOST_KINDS: Final = 1_000
#: loggers with a line for what a client does, libraries' among them
_OF_CLIENTS: Final = (
    "django.request", "django.security", "uvicorn", "broker_app.net.stomp.session_registry",
    "broker_app.telemetry.event_log", "broker_app.web.actions.audit",
)  # fmt: skip


class _Kind:
    """Lines of one kind: the first `burst` of them, then one in `every_s` seconds, with the number of those
    that were left out."""

    __slots__ = ("_burst", "_clock", "_every_s", "_left_out", "_next")

    def __init__(self, clock: Clock, burst: int = 1, every_s: float = 1.0) -> None:
        self._clock = clock
        self._burst = burst
        self._every_s = every_s
        self._next = 0.0
        self._left_out = 0

    def suffix(self) -> str | None:
        """Return what is to follow the line; None if it is to be left out."""
        now = self._clock()
        if self._burst:
            self._burst -= 1
        elif now < self._next:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        self._next = now + self._every_s
        return f" (and {left_out} more such lines)" if left_out else ""


class RareLog:
    """Logs the first `burst` lines, then at most one in `every_s` seconds, with the number of suppressed
    ones."""

    def __init__(
        self,
        log: logging.Logger,
        level: int = logging.INFO,
        clock: Clock = time.monotonic,
        *,
        burst: int = 1,
        every_s: float = 1.0,
    ) -> None:
        self._log = log
        self._level = level
        self._kind = _Kind(clock, burst, every_s)

    def log(self, text: str, *values: object) -> bool:
        """Return whether the line was written."""
        suffix = self._kind.suffix()
        if suffix is None:
            return False
        self._log.log(self._level, text + "%s", *values, suffix)
        return True


class RareLines(logging.Filter):
    """Lets one line a second of each kind through, of those that clients cause: lines with the same text but
    for values, refusals with the same code, and records with the same attribute `kind`."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[object, ...], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        if not record.name.startswith(_OF_CLIENTS):
            return True
        values = record.args if isinstance(record.args, tuple) else ()
        codes = [value.code for value in values if isinstance(value, Refused)]
        kind = (record.name, record.levelno, record.msg, *codes, getattr(record, "kind", None))
        suffix = self._of(kind).suffix()
        if suffix:
            record.msg, record.args = record.getMessage() + suffix, ()
        return suffix is not None

    def _of(self, kind: tuple[object, ...]) -> _Kind:
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= _MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            found = self._kinds[kind] = _Kind(self._clock)
        return found
