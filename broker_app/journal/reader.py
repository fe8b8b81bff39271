"""Reading records back by position: one read a batch, the last few batches kept taken apart."""

import errno
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from broker_app.journal import codec
from broker_app.journal.errors import Busy, JournalDamaged, JournalFailed, NoSuchPosition, remedies
from broker_app.journal.files import File, Files
from broker_app.journal.port import Damaged
from broker_app.journal.segment import Segment, SegmentIndex

OPEN_FILES = 64
#: what the system reports where content is gone for good; any other failure may pass, and costs no message
_GONE = frozenset({errno.EIO, errno.ENOENT, errno.EBADMSG, errno.EUCLEAN})
_ENTRY_BYTES = 40  # of memory a record, in addition to its content


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


def load_frame(file: File, segment: Segment, number: int) -> tuple[codec.Frame, bytes]:
    """The n-th frame of a segment and its bytes, checked. Raises JournalDamaged."""
    offset = segment.batch_offsets[number]
    content = file.read(segment.frame_length(number), offset)
    frame = codec.decode_frame(content, 0)
    if frame is None or frame.segment_id != segment.segment_id or not codec.is_whole(content, 0, frame):
        start, end = segment.slots_of_batch(number)
        raise JournalDamaged(
            f"{file.path}: the batch at offset {offset} (position {segment.batch_positions[number]},"
            f" {end - start} records) is damaged; {remedies(file.path.parent)}"
        )
    return frame, content


class _Unreadable(Exception):
    """A batch is stored and cannot be read; the text names the place."""

    def __init__(self, why: str, time_us: int) -> None:
        super().__init__(why)
        self.time_us = time_us


class Reader:
    """Owns the files opened for reading and the cache of batches."""

    def __init__(self, files: Files, cache_bytes: int) -> None:
        self._files = files
        self._cache_bytes = cache_bytes
        self._cached: OrderedDict[tuple[int, int], LoadedBatch] = OrderedDict()
        self._cached_bytes = 0
        self._open: OrderedDict[str, File] = OrderedDict()
        self.loads = 0

    def read(self, catalogue: SegmentIndex, positions: Sequence[int]) -> list[bytes | Damaged]:
        """See `Journal.read`."""
        found: list[bytes | Damaged] = []
        add = found.append
        first = following = 0
        for position in positions:
            if not first <= position < following:
                try:
                    batch = self._batch(catalogue, position)
                except _Unreadable as error:
                    add(Damaged(position, str(error), error.time_us))
                    continue
                first, following, content, starts = batch.first, batch.following, batch.content, batch.starts
            if batch.places is None:
                at = position - first
                add(content[starts[at] : starts[at + 1]])
            elif (place := batch.places.get(position)) is not None:
                add(content[place[0] : place[1]])
            else:
                raise NoSuchPosition(position, "it was freed, and its space reclaimed")
        return found

    def _batch(self, catalogue: SegmentIndex, position: int) -> LoadedBatch:
        segment = catalogue.find(position)
        number = -1 if segment is None else segment.batch_of(position)
        if segment is None or number < 0:
            raise NoSuchPosition(position, "nothing is stored there (never written, or freed and reclaimed)")
        key = (segment.segment_id, number)
        batch = self._cached.get(key)
        if batch is None:
            batch = self._load_or_raise(segment, number)
            self._cached[key] = batch
            self._cached_bytes += _size_bytes(batch)
            self._evict()
        else:
            self._cached.move_to_end(key)
        return batch

    def _load_or_raise(self, segment: Segment, number: int) -> LoadedBatch:
        """Raises Busy while the file cannot be read; _CannotBeRead after a second attempt at content that is
        damaged, because that is lost for good."""
        for _ in range(2):
            try:
                return self._load(segment, number)
            except Busy:
                raise
            except (JournalDamaged, JournalFailed, ValueError, struct.error) as failure:
                if self._may_pass(failure):
                    self.forget(segment)
                    raise Busy(str(failure)) from failure
                error = failure
        start, end = segment.slots_of_batch(number)
        place = f"{segment.name}, offset {segment.batch_offsets[number]}"
        what = f"the batch of {end - start} records at position {segment.batch_positions[number]}"
        cause = "is damaged" if isinstance(error, JournalDamaged) else f"cannot be read: {error}"
        raise _Unreadable(f"{place}: {what} {cause}", self._time_of(segment, number)) from error

    def _may_pass(self, failure: Exception) -> bool:
        """True if it is a failure of the system, and not of what is stored."""
        if not isinstance(failure, JournalFailed) or not isinstance(failure.__cause__, OSError):
            return False
        return failure.__cause__.errno not in _GONE or not self._files.directory.exists()

    def _time_of(self, segment: Segment, number: int) -> int:
        """The time when a damaged batch was written (µs), from its head; 0 if that is damaged."""
        try:
            content = self.file(segment).read(codec.FRAME_HEADER_BYTES, segment.batch_offsets[number])
        except JournalFailed:
            return 0
        frame = codec.decode_frame(content, 0)
        whole = frame is not None and frame.segment_id == segment.segment_id
        return frame.time_us if frame is not None and whole else 0

    def _load(self, segment: Segment, number: int) -> LoadedBatch:
        self.loads += 1
        frame, content = load_frame(self.file(segment), segment, number)
        first = segment.batch_positions[number]
        if segment.positions is None:
            starts = codec.record_starts(content, frame.records_at, len(content))
            return LoadedBatch(first, first + frame.count, content, starts, None)
        records = codec.carried_records(content, frame.records_at, len(content))
        places = {position: (start, end) for position, start, end in records}
        last = number + 1 == len(segment.batch_positions)
        following = segment.next_position if last else segment.batch_positions[number + 1]
        return LoadedBatch(first, following, content, [], places)

    def _evict(self) -> None:
        while self._cached_bytes > self._cache_bytes and len(self._cached) > 1:
            _, batch = self._cached.popitem(last=False)
            self._cached_bytes -= _size_bytes(batch)

    def file(self, segment: Segment) -> File:
        """The segment's file, opened if it has to be."""
        if segment.file is not None:
            return segment.file
        file = self._open.get(segment.name)
        if file is None:
            return self._keep_open(segment.name, self._open_file(segment.name))
        self._open.move_to_end(segment.name)
        return file

    def _open_file(self, name: str) -> File:
        """The file; one that was not read for longest is closed for it when descriptors have run out."""
        while True:
            try:
                return self._files.open(name)
            except Busy:
                if not self._open:
                    raise
            self._open.popitem(last=False)[1].close()

    def adopt(self, segment: Segment) -> None:
        """Take over the file of a segment that is not written any more."""
        assert segment.file is not None
        self._keep_open(segment.name, segment.file)
        segment.file = None

    def _keep_open(self, name: str, file: File) -> File:
        self._open[name] = file
        if len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file

    def forget(self, segment: Segment) -> None:
        """Close what was opened of a segment that is about to go."""
        file = self._open.pop(segment.name, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        self._cached.clear()
        self._cached_bytes = 0


def _size_bytes(batch: LoadedBatch) -> int:
    return len(batch.content) + _ENTRY_BYTES * len(batch.starts or batch.places or ())
