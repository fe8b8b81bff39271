"""The extent of a log in a directory that brokers share, for readers that hold no lease."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import File, Files
from broker_app.journal.stores.directory.layout import (
    LOG,
    epoch_of,
    is_current,
    newest_epoch,
    opened,
    segment_name,
    segments,
    sync,
)
from broker_app.journal.stores.directory.rows import RowReader, rows_of
from broker_app.journal.stores.directory.tail import ATTEMPTS

_Found = TypeVar("_Found")


class _Bounds(NamedTuple):
    """First and next position of a segment, both 0 if it is empty, and the offset behind its last row."""

    first: int
    following: int
    offset: int


_EMPTY: Final = _Bounds(0, 0, 0)


class FileExtent(NamedTuple):
    """The epoch of the holder, and the positions of whole batches without a gap; both 0 in an empty log."""

    epoch: int
    low: int
    end: int


class ExtentReader:
    """Finds the extent, again and again; segments that are complete are read once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        #: complete segments by number, which names one segment for ever
        self._complete: dict[int, _Bounds] = {}
        #: the last segment of a holder, as it was found and synced
        self._last: tuple[Path, int, _Bounds] = (Path(), 0, _EMPTY)

    def find(self) -> FileExtent | None:
        """The extent; None if the journal was never held. Raises JournalFailed."""
        return self._of_holder(lambda home: FileExtent(epoch_of(home), *self._extent(home)))

    def batch_start(self, position: int) -> int | None:
        """The first position of the batch that holds a position; None if it is not in the log."""
        return self._of_holder(partial(_batch_start, position=position))

    def _of_holder(self, read: Callable[[Files], _Found]) -> _Found | None:
        """The result of reading the directory of the holder, which others may rename meanwhile."""
        for _ in range(ATTEMPTS):
            home = newest_epoch(self._files)
            if home is None or not epoch_of(home):
                return None
            try:
                found = read(home)
            except JournalFailed:
                if is_current(home):
                    raise
                continue
            if is_current(home):
                return found
        raise JournalFailed(
            f"{self._files.directory}: the log cannot be read: brokers take it over all the time"
        )

    def _extent(self, home: Files) -> tuple[int, int]:
        """(low, end), from the last segment backwards as far as there is no gap."""
        low = end = 0
        numbers = [number for number, name in segments(home) if name.endswith(LOG)]
        for number in reversed(numbers):
            first, following, _ = self._of_complete(home, number) if end else self._of_last(home, number)
            if end and following != low:
                break
            if following:
                low, end = first, end or following
        for number in self._complete.keys() - set(numbers):
            del self._complete[number]
        return low, end

    def _of_last(self, home: Files, number: int) -> _Bounds:
        """The bounds of the last segment, whose last row may still be on its way to the disk."""
        before = self._last[2] if self._last[:2] == (home.directory, number) else _EMPTY
        with opened(home, segment_name(number, LOG)) as file:
            found = _bounds(file, before)
            if found != before:
                sync(file)
        self._last = (home.directory, number, found)
        return found

    def _of_complete(self, home: Files, number: int) -> _Bounds:
        found = self._complete.get(number)
        if found is None:
            with opened(home, segment_name(number, LOG)) as file:
                found = self._complete[number] = _bounds(file, _EMPTY)
        return found


def _batch_start(home: Files, position: int) -> int | None:
    for _, name in reversed(segments(home)):
        if not name.endswith(LOG):
            continue
        with opened(home, name) as file:
            rows = rows_of(file)
            first = next(rows, None)
            if first is None or first.first_position > position:
                continue
            starts = (
                row.first_position for row in (first, *rows) if position < row.first_position + row.records
            )
            return next(starts, None)
    return None


def _bounds(file: File, before: _Bounds) -> _Bounds:
    """The bounds of the rows that are whole, from where they were `before`."""
    first, following, _ = before
    reader = RowReader(file, before.offset)
    while (found := reader.next()) is not None:
        row, _ = found
        first, following = first or row.first_position, row.first_position + row.records
    return _Bounds(first, following, reader.offset)
