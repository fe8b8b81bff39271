"""Spans of time to be read, 0.3 s, 3 min 2 s, 2 h, and as they are written: 2s, 5m, 90."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

#: from the longest: seconds, and the sign
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

_WRITTEN: Final = re.compile(r"(\d+(?:\.\d*)?) ?(ms|s|min|m|h|d|)")
_LENGTHS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Return the seconds of a span such as 2s, 5m, 1.5h, or 90. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2s, 5m or 90 (seconds)")
    return float(found[1]) * _LENGTHS[found[2]]


def in_words(seconds: float) -> str:
    """A span, to two units at most; below ten seconds to a tenth."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    left = round(seconds)
    parts = []
    for length, sign in _UNITS:
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {sign}")
        elif parts:
            break
    return " ".join(parts[:2])


def exactly(seconds: float) -> str:
    """A span in the largest unit that it is a multiple of, as settings are shown: 90 s, 1 h."""
    unit = next(((length, sign) for length, sign in _UNITS if seconds and not seconds % length), (1, "s"))
    return f"{seconds / unit[0]:.15g} {unit[1]}"


def since(time: str | None, now: datetime | None = None) -> str:
    """The age of a time (RFC 3339); empty if there is none."""
    if not time:
        return ""
    return in_words(((now or datetime.now(UTC)) - datetime.fromisoformat(time)).total_seconds())
