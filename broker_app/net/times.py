"""Times as people write them (RFC 3339), as the core counts them: milliseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime

_TIME = "time:"


def milliseconds(text: str, *, zone_needed: bool = True) -> int | None:
    """The time that `text` names; None when it is none, lies outside 1970 to 2199, or lacks its zone.
    A zone that may be missing is UTC."""
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
    """Where in a history to begin, with a time in RFC 3339 replaced by its milliseconds."""
    time = text.removeprefix(_TIME)
    if time == text or time.isdigit():  # many a number would also pass for a date without hyphens
        return text
    ms = milliseconds(time, zone_needed=False)
    return text if ms is None else f"{_TIME}{ms}"
