"""Spans of time to be read: 0.3 s, 3 min 2 s, 2 h."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

#: from the longest: seconds, and the sign
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


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


def since(time: str | None, now: datetime | None = None) -> str:
    """The age of a time (RFC 3339); empty if there is none."""
    if not time:
        return ""
    return in_words(((now or datetime.now(UTC)) - datetime.fromisoformat(time)).total_seconds())
