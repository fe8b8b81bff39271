"""Conversion of RFC 3339 times to milliseconds since 1970 (UTC)."""

from __future__ import annotations

from datetime import UTC, datetime

_TIME = "time:"


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
