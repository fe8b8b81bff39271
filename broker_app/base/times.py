"""Times in RFC 3339, in UTC with milliseconds, and as numbers since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

_TIME = "time:"


def rfc3339(seconds: float) -> str:
    """Return the text of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def of_ms(ms: int | None) -> str | None:
    """Return the text of a time in milliseconds since 1970; None for none and for 0, which is never."""
    return rfc3339(ms / 1000) if ms else None


def milliseconds(text: str, *, zone_needed: bool = True) -> int | None:
    """Parse a time; returns None if it is invalid, outside 1970 to 2199, or lacks its zone. The zone is UTC
    by default if it is not needed."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        if zone_needed:
            return None
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000) if 1970 <= time.year < 2200 else None


def start(text: str) -> str:
    """Return the start of a replay, with a time in RFC 3339 replaced by its milliseconds."""
    time = text.removeprefix(_TIME)
    if time == text or time.isdigit():  # numbers can be mistaken for dates without hyphens
        return text
    ms = milliseconds(time, zone_needed=False)
    return text if ms is None else f"{_TIME}{ms}"
