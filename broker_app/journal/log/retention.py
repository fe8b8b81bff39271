"""Retention: the log that is kept although no message in it waits."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.journal.log.segment import Segment


class Retention(NamedTuple):
    """The newest `history_bytes` of log, and the log from the position `first` on, up to `cursor_bytes`.
    `first` is None if no cursor needs any."""

    history_bytes: int = 0
    cursor_bytes: int = 0
    first: int | None = None

    def keeps(self, segment: Segment, size: int) -> bool:
        """True if a LOG segment is kept; it and those behind it have so many bytes."""
        if size <= self.history_bytes:
            return True
        return self.first is not None and segment.next_position > self.first and size <= self.cursor_bytes


#: while there is no space for any
NOTHING_KEPT = Retention()
