"""Reads the log of the present holder, as it grows: for a standby, and for recovery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import File, Files
from broker_app.journal.stores.directory.layout import LOG, is_current, newest_epoch, segments
from broker_app.journal.stores.directory.rows import FileRow, RowReader, rows_of

#: bytes that are read before the directory is looked at again: are these still the rows of the holder?
_RUN_BYTES: Final = 1 << 20
#: attempts to read a directory that takeovers rename meanwhile
ATTEMPTS: Final = 10


class _Place(NamedTuple):
    """The directory that a follower reads next, the open segment, and the next position."""

    home: Files
    segment: int
    file: File
    reader: RowReader
    position: int


class LogTail:
    """Yields frames from a position on, and continues there when it is asked again; in one thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._place: _Place | None = None

    def frames(self, position: int) -> Iterator[bytes]:
        """See `store.Store.frames`."""
        while True:
            run = self._run(position)
            if not run:
                return
            for row, frame in run:
                position = row.first_position + row.records
                yield frame

    def _run(self, position: int) -> list[tuple[FileRow, bytes]]:
        """The next rows from `position` on, of the present holder; none at the end."""
        for _ in range(ATTEMPTS):
            home = newest_epoch(self._files)
            if home is None:
                return []
            try:
                place = self._place_of(home, position)
                run = [] if place is None else self._read_run(place)
            except JournalFailed:
                if is_current(home):
                    raise
                run = []
            if is_current(home):
                return run
        raise JournalFailed(
            f"{self._files.directory}: the log cannot be read: brokers take it over all the time"
        )

    def _place_of(self, home: Files, position: int) -> _Place | None:
        """The place where the last run ended, if that is `position`; else it is searched."""
        place = self._place
        if place is not None and (place.home.directory, place.position) == (home.directory, position):
            return place
        self.close()
        self._place = self._find(home, position)
        return self._place

    def _read_run(self, place: _Place) -> list[tuple[FileRow, bytes]]:
        run: list[tuple[FileRow, bytes]] = []
        size, position = 0, place.position
        while size < _RUN_BYTES:
            found = place.reader.next()
            if found is None:
                following = self._following(place)
                if following is None:
                    break
                place = following
            elif found[0].first_position >= position:
                run.append(found)
                size += found[0].size
                position = found[0].first_position + found[0].records
        self._place = place._replace(position=position)
        return run

    def _following(self, place: _Place) -> _Place | None:
        """The place at the begin of the next segment, if there is one."""
        for number, name in segments(place.home):
            if number > place.segment and name.endswith(LOG):
                file = place.home.open(name)
                place.file.close()
                return place._replace(segment=number, file=file, reader=RowReader(file))
        return None

    def _find(self, home: Files, position: int) -> _Place | None:
        """The place of a position: in the last segment that begins at it or before, else in the first one."""
        chosen: _Place | None = None
        for number, name in reversed(segments(home)):
            if not name.endswith(LOG):
                continue
            file = home.open(name)
            first = next(rows_of(file), None)
            if first is not None:
                if chosen is not None:
                    chosen.file.close()
                chosen = _Place(home, number, file, RowReader(file), position)
                if first.first_position <= position:
                    break
            else:
                file.close()
        return chosen

    def close(self) -> None:
        """Close the file that is being read."""
        if self._place is not None:
            self._place.file.close()
            self._place = None
