"""Reads the segment files of a journal while its broker writes them.

Nothing is locked, and nothing changed. Three facts make that exact:

- A frame has a checksum and the random id of one use of its file, so a frame that is whole is a frame of the
  log.
- A batch is written after the one before it is durable. So only the last frame may not be durable yet: the
  file is synced here, too, before its end is reported.
- Files are used again. After a read, the id in the head of the file is compared with the one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, remedies
from broker_app.journal.files import File, Files
from broker_app.journal.log.meta import META, read_meta
from broker_app.journal.log.segment import Segment, index_name, segment_name
from broker_app.journal.log.snapshots import snapshot_files
from broker_app.journal.port import FIRST_POSITION
from pyspark_mom.errors import BrokerUnreachable, JournalUnreadable
from pyspark_mom.transport import Span, StoredFrame, failures, first_at

_Result = TypeVar("_Result")

#: bytes that are read at a time
_RUN_BYTES: Final = 4 * 1024 * 1024
#: attempts to read files that are used again meanwhile
_ATTEMPTS: Final = 10
_LOG: Final = "log-"
#: the folder of the journal in that of the broker's data
_JOURNAL: Final = "journal"
#: indexes of segments that are kept
_MAX_INDEXES: Final = 4


class _UsedAgain(Exception):
    """A file is gone, or another segment now."""


class _First(NamedTuple):
    """The beginning of a segment: its header, the position and the time of its first frame."""

    header: codec.SegmentHeader
    position: int
    time_us: int


class SegmentFiles:
    """See `transport.Journal`. `directory` is that of the journal, or of the broker's data."""

    def __init__(self, broker: str, directory: Path) -> None:
        self._broker = broker
        self._given = directory
        self._files = Files(_journal_of(directory))
        self._firsts: dict[str, _First] = {}
        #: the last positions of segments that are complete
        self._nexts: dict[str, int] = {}
        self._indexes: dict[str, Segment] = {}
        #: the last segment and its end, when it was synced
        self._synced: tuple[str, int] = ("", 0)

    def span(self) -> Span:
        """See `transport.Journal.span`."""
        with self._readable():
            meta = read_meta(self._files)
            if meta is None:
                raise BrokerUnreachable(
                    f"{self._broker}: {self._given} holds no journal; the address is that of the folder "
                    "journal in the data directory of the broker, which must have been started once"
                )
            low, end = self._retried(self._extent)
            return Span(low, end, meta.epoch, meta.tag)

    def frames(self, start: int, end: int) -> Iterator[StoredFrame]:
        """See `transport.Journal.frames`."""
        position = start
        while position < end:
            with self._readable():
                run = self._retried(partial(self._run, position, end))
            if not run:
                return
            yield from run
            position = run[-1].frame.next_position

    def position_at(self, time_us: int) -> int:
        """See `transport.Journal.position_at`."""
        low, end, _, _ = self.span()
        with self._readable():
            start = self._retried(partial(self._last_segment_before, time_us, low))
        return first_at(self.frames(start, end), time_us, end)

    def _last_segment_before(self, time_us: int, low: int) -> int:
        """The first position of the last segment that begins before a time; `low` without one."""
        start = low
        for name in self._names():
            first = self._first(name)
            if first is not None and first.position > low and first.time_us < time_us:
                start = first.position
        return start

    def close(self) -> None:
        """See `transport.Journal.close`: files are open only while they are read."""

    # ---------------------------------------------------------------------- the extent

    def _extent(self) -> tuple[int, int]:
        """(low, end), from the last segment backwards as far as there is no gap."""
        low = end = 0
        names = self._names()
        self._forget_all_but(names)
        for name in reversed(names):
            first = self._first(name)
            if first is None:  # made ready for what comes
                continue
            if not end:
                end = self._durable_end(name)
                low = first.position if end else 0
            elif self._next_of(name) == low:
                low = first.position
            else:
                break
        if not end:
            low = end = max(
                (each.position for each in snapshot_files(self._files.names())), default=FIRST_POSITION
            )
        return low, end

    def _durable_end(self, name: str) -> int:
        """The end of the last segment, whose last batch may still be on its way to the disk; 0 if it is
        empty."""
        segment = self._segment(name)
        with self._opened(name, segment) as file:
            _grow(segment, file)
            if self._synced != (name, segment.end):
                file.sync()
        self._synced = (name, segment.end)
        return segment.next_position if segment.batch_positions else 0

    def _next_of(self, name: str) -> int:
        """The position after a segment that is not the last one."""
        following = self._nexts.get(name)
        if following is None:
            segment = self._segment(name)
            with self._opened(name, segment) as file:
                _grow(segment, file)
            following = self._nexts[name] = segment.next_position
        return following

    # ------------------------------------------------------------------------- frames

    def _run(self, position: int, end: int) -> list[StoredFrame]:
        """The next frames from `position` on, of one segment; none if there are none before `end`."""
        segment = self._holding(position)
        if segment is None:
            return []
        number = max(0, segment.batch_of(position))
        following, limit = number, segment.batch_offsets[number] + _RUN_BYTES
        while following < len(segment.batch_positions) and segment.batch_positions[following] < end:
            following += 1
            if segment.batch_offsets[following - 1] >= limit:
                break
        if following == number:
            return []
        start = segment.batch_offsets[number]
        stop = segment.batch_offsets[following] if following < len(segment.batch_offsets) else segment.end
        with self._opened(segment.name, segment) as file:
            content = file.read(stop - start, start)
        return [self._frame(segment, each, content, start) for each in range(number, following)]

    def _frame(self, segment: Segment, number: int, content: bytes, start: int) -> StoredFrame:
        at = segment.batch_offsets[number] - start
        frame = codec.decode_frame(content, at)
        if (
            frame is None
            or frame.segment_id != segment.segment_id
            or frame.first_position != segment.batch_positions[number]
        ):
            raise JournalDamaged(
                f"{self._files.directory / segment.name}: the batch at offset {start + at} is damaged; "
                f"{remedies(self._files.directory)}"
            )
        return StoredFrame(frame, content[at : at + frame.length])

    def _holding(self, position: int) -> Segment | None:
        """The segment with a position, else the first one behind it; None at the end."""
        firsts = [
            (first.position, name) for name in self._names() if (first := self._first(name)) is not None
        ]
        begin = bisect_right([first for first, _ in firsts], position) - 1
        for _, name in firsts[max(0, begin) :]:
            segment = self._segment(name)
            if segment.next_position <= position:
                with self._opened(name, segment) as file:
                    _grow(segment, file)
            if segment.next_position > position and segment.batch_positions:
                return segment
        return None

    # ------------------------------------------------------------------------ segments

    def _names(self) -> list[str]:
        """The names of the segments of the log, in order."""
        return [name for name in self._files.names() if name.startswith(_LOG) and name.endswith(".seg")]

    def _first(self, name: str) -> _First | None:
        """The beginning of a segment; None if nothing is written in it."""
        found = self._firsts.get(name)
        if found is None:
            content = self._content(name, codec.SEGMENT_HEADER_BYTES + codec.FRAME_HEADER_BYTES)
            header = codec.decode_segment_header(content)
            frame = codec.decode_frame(content, codec.SEGMENT_HEADER_BYTES)
            if header is None or segment_name(header.kind, header.sequence) != name:
                raise _UsedAgain
            if frame is None or frame.segment_id != header.segment_id:
                return None
            found = self._firsts[name] = _First(header, frame.first_position, frame.time_us)
        return found

    def _segment(self, name: str) -> Segment:
        """The index of a segment that is not empty: as its broker has written it, else of what is found."""
        segment = self._indexes.pop(name, None)
        if segment is None:
            first = self._first(name)
            if first is None:
                raise _UsedAgain
            segment = self._indexed(name, first.header) or Segment(first.header)
        self._indexes[name] = segment
        if len(self._indexes) > _MAX_INDEXES:
            del self._indexes[next(iter(self._indexes))]
        return segment

    def _indexed(self, name: str, header: codec.SegmentHeader) -> Segment | None:
        try:
            return Segment.from_index(header, self._files.content(index_name(name)))
        except JournalFailed:  # there is none yet
            return None

    def _content(self, name: str, size: int) -> bytes:
        try:
            return self._files.content(name, size)
        except JournalFailed as error:
            raise _gone_or(error) from error

    @contextmanager
    def _opened(self, name: str, segment: Segment) -> Iterator[File]:
        """The file of a segment. Raises _UsedAgain, at the end, if it is another segment by then."""
        try:
            file = self._files.open(name)
        except JournalFailed as error:
            raise _gone_or(error) from error
        try:
            yield file
            header = codec.decode_segment_header(file.read(codec.SEGMENT_HEADER_BYTES, 0))
            if header is None or header.segment_id != segment.segment_id:
                raise _UsedAgain
        finally:
            file.close()

    def _forget_all_but(self, names: Iterable[str]) -> None:
        kept = set(names)
        for known in (self._firsts, self._nexts, self._indexes):
            for name in known.keys() - kept:
                del known[name]

    # -------------------------------------------------------------------------- errors

    def _retried(self, read: Callable[[], _Result]) -> _Result:
        for _ in range(_ATTEMPTS):
            try:
                return read()
            except _UsedAgain:
                self._forget_all_but(())
        raise BrokerUnreachable(
            f"{self._broker}: the files in {self._files.directory} are used again faster than they can be "
            "read; set MOM_JOURNAL_RETENTION_BYTES, so that the broker keeps them longer"
        )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except JournalDamaged as error:
            raise JournalUnreadable(f"{self._broker}: {error}") from error
        except JournalFailed as error:
            raise failures.of_files(self._broker, self._files.directory, error) from error


def _journal_of(directory: Path) -> Path:
    """The directory of the journal in that of a broker's data; else the directory itself."""
    inside = directory / _JOURNAL
    return inside if (inside / META).exists() else directory


def _gone_or(error: JournalFailed) -> Exception:
    """_UsedAgain for a file that is not there, else the error."""
    return _UsedAgain() if isinstance(error.__cause__, FileNotFoundError) else error


def _grow(segment: Segment, file: File) -> None:
    """Take up the frames that were written since the segment was read."""
    size = file.size()
    while True:
        frame = codec.decode_frame(file.read(codec.FRAME_HEADER_BYTES, segment.end), 0)
        if frame is None or frame.segment_id != segment.segment_id or segment.end + frame.length > size:
            return
        content = file.read(max(frame.length, _RUN_BYTES), segment.end)
        if not _take_up(segment, content, file):
            return


def _take_up(segment: Segment, content: bytes, file: File) -> int:
    """The number of bytes of the whole frames that `content` begins with."""
    at = 0
    while (frame := codec.decode_frame(content, at)) is not None:
        if frame.segment_id != segment.segment_id or not codec.is_whole(content, at, frame):
            break
        if frame.version != codec.FORMAT:
            raise JournalDamaged(f"{file.path}: format {frame.version} is not known to this version of MOM")
        if segment.batch_positions and frame.first_position != segment.next_position:
            raise JournalDamaged(
                f"{file.path}: the batch at offset {segment.end} starts at position {frame.first_position} "
                f"instead of {segment.next_position}; {remedies(file.path.parent)}"
            )
        segment.append(frame.first_position, frame.count, frame.length)
        at += frame.length
    return at
