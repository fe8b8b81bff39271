"""Loads frames of segments, checks them, and takes them apart into records."""

import errno
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker_app.base.large_record import LargeRecord
from broker_app.journal import codec
from broker_app.journal.errors import Busy, JournalDamaged, JournalFailed, NoSuchPosition, remedies
from broker_app.journal.files import File, Files
from broker_app.journal.log.segment import Segment, StoredFrame
from broker_app.journal.port import Damaged

#: what the system reports where content is gone for good; any other failure may pass, and costs no message
_GONE = frozenset({errno.EIO, errno.ENOENT, errno.EBADMSG, errno.EUCLEAN})
_ENTRY_BYTES = 40  # of memory a record, in addition to its content

#: a frame with one record of more bytes is read in two pieces; the first has the destinations of most frames
_LARGE_BYTES = 64 * 1024
HEAD_BYTES = 4 * 1024

#: a larger record is read apart from its body, and not kept
APART_BYTES = 1024 * 1024

OpenFile = Callable[[Segment], File]
#: returns where the body of a record begins, given its first bytes; 0 for one that has none
BodyAt = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """A checked frame: record of position p is `content[starts[p - first]:starts[p - first + 1]]`.

    For the sparse records of a CARRIED frame, `places` maps position → (start, end) instead.
    """

    first: int
    following: int
    content: bytes
    starts: list[int]
    places: dict[int, tuple[int, int]] | None

    @property
    def size(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.content) + _ENTRY_BYTES * len(self.starts or self.places or ())

    def records(self, positions: Sequence[int]) -> list[bytes]:
        """The records at some of its positions. Raises NoSuchPosition."""
        content, starts, first = self.content, self.starts, self.first
        if self.places is None:
            return [content[starts[p - first] : starts[p - first + 1]] for p in positions]
        places = self.places
        for position in positions:
            if position not in places:
                raise reclaimed(position)
        return [content[slice(*places[position])] for position in positions]


class Alone(NamedTuple):
    """A frame with one record, read in two pieces; that of a CARRIED one begins with its position."""

    frame: codec.Frame
    head: bytes
    record: bytes


class Unreadable(Exception):
    """A batch is stored and cannot be read; the text names the place."""

    def __init__(self, why: str, time_us: int) -> None:
        super().__init__(why)
        self.time_us = time_us

    def at(self, position: int) -> Damaged:
        """The damage that takes the place of a record of that batch."""
        return Damaged(position, str(self), self.time_us)


def reclaimed(position: int) -> NoSuchPosition:
    """The error of a position whose neighbours are still stored."""
    return NoSuchPosition(position, "it was freed, and its space reclaimed")


def load_frame(file: File, stored: StoredFrame) -> tuple[codec.Frame, bytes]:
    """A frame of a segment and its bytes, checked. Raises JournalDamaged."""
    content = file.read(stored.length, stored.offset)
    frame = codec.decode_frame(content, 0)
    whole = frame is not None and codec.is_whole(content, 0, frame)
    if frame is None or frame.segment_id != stored.segment.segment_id or not whole:
        raise JournalDamaged(
            f"{file.path}: the batch at offset {stored.offset} (position {stored.first},"
            f" {stored.records} records) is damaged; {remedies(file.path.parent)}"
        )
    return frame, content


class FrameLoader:
    """Loads frames from files that `open_file` opens, in any thread. With `body_at`, large bodies can be read
    apart."""

    def __init__(self, files: Files, body_at: BodyAt | None = None) -> None:
        self._files = files
        self._body_at = body_at

    def load_apart(self, stored: StoredFrame, open_file: OpenFile) -> LargeRecord | None:
        """The only record of a large frame; None if it is another one, or cannot be read: `load` says why."""
        if self._body_at is None or stored.length <= APART_BYTES:
            return None
        try:
            return _load_apart(stored, open_file(stored.segment), self._body_at)
        except (Busy, JournalDamaged, JournalFailed, ValueError, struct.error):
            return None

    def load(self, stored: StoredFrame, open_file: OpenFile) -> LoadedBatch:
        """Load a frame. Raises Busy while its file cannot be read; Unreadable after a second attempt at
        content that is damaged, because that is lost for good."""
        for _ in range(2):
            try:
                return _load(stored, open_file(stored.segment))
            except Busy:
                raise
            except (JournalDamaged, JournalFailed, ValueError, struct.error) as failure:
                if self._may_pass(failure):
                    raise Busy(str(failure)) from failure
                error = failure
        place = f"{stored.segment.name}, offset {stored.offset}"
        what = f"the batch of {stored.records} records at position {stored.first}"
        cause = "is damaged" if isinstance(error, JournalDamaged) else f"cannot be read: {error}"
        raise Unreadable(f"{place}: {what} {cause}", _time_of(stored, open_file)) from error

    def _may_pass(self, failure: Exception) -> bool:
        """True if it is a failure of the system, and not of what is stored."""
        if not isinstance(failure, JournalFailed) or not isinstance(failure.__cause__, OSError):
            return False
        return failure.__cause__.errno not in _GONE or not self._files.directory.exists()


def _load(stored: StoredFrame, file: File) -> LoadedBatch:
    if stored.length > _LARGE_BYTES and (alone := _load_alone(stored, file)) is not None:
        return alone
    frame, content = load_frame(file, stored)
    if frame.flags & codec.CARRIED:
        records = codec.carried_records(content, frame.records_at, len(content))
        places = {position: (start, end) for position, start, end in records}
        return LoadedBatch(stored.first, stored.following, content, [], places)
    starts = codec.record_starts(content, frame.records_at, len(content))
    return LoadedBatch(stored.first, stored.first + frame.count, content, starts, None)


def _load_alone(stored: StoredFrame, file: File) -> LoadedBatch | None:
    """The only record of a frame, read without its head, so that it is not copied; None if the frame is
    another one, or is damaged."""
    alone = read_alone(stored, file)
    if alone is None or alone.frame.flags & codec.CARRIED:
        return None
    starts = codec.record_starts(alone.record, 0, len(alone.record))
    return LoadedBatch(stored.first, stored.first + 1, alone.record, starts, None)


def read_alone(stored: StoredFrame, file: File) -> Alone | None:
    """The only record of a frame, checked; None if the frame is another one, or is damaged."""
    head = file.read(HEAD_BYTES, stored.offset)
    frame = _frame_of_one(stored, head)
    if frame is None:
        return None
    head = head[: frame.records_at]
    record = file.read(frame.length - frame.records_at, stored.offset + frame.records_at)
    return Alone(frame, head, record) if codec.is_whole_apart((head, record), frame) else None


def _load_apart(stored: StoredFrame, file: File, body_at: BodyAt) -> LargeRecord | None:
    """The only record of a frame, whose body is read into memory of its own: nothing has to copy it."""
    head = file.read(HEAD_BYTES, stored.offset)
    frame = _frame_of_one(stored, head)
    at = body_at(head[frame.records_at :]) if frame is not None else 0
    if frame is None or frame.flags & codec.CARRIED or not 0 < at < frame.length - frame.records_at:
        return None
    start = stored.offset + frame.records_at
    before = file.read(at, start)
    body = file.read(frame.length - frame.records_at - at, start + at)
    if not codec.is_whole_apart((head[: frame.records_at], before, body), frame):
        return None
    return LargeRecord(before, body)


def _frame_of_one(stored: StoredFrame, head: bytes) -> codec.Frame | None:
    """The frame that begins with `head`, if it has one record, and is the one that is stored there."""
    frame = codec.decode_frame(head, 0)
    if frame is None or frame.segment_id != stored.segment.segment_id or frame.length != stored.length:
        return None
    if frame.count != 1 or frame.records_at > len(head):
        return None
    return frame


def _time_of(stored: StoredFrame, open_file: OpenFile) -> int:
    """The time when a damaged batch was written (µs), from its head; 0 if that is damaged."""
    try:
        content = open_file(stored.segment).read(codec.FRAME_HEADER_BYTES, stored.offset)
    except JournalFailed:
        return 0
    frame = codec.decode_frame(content, 0)
    whole = frame is not None and frame.segment_id == stored.segment.segment_id
    return frame.time_us if frame is not None and whole else 0
