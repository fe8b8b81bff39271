"""The index of a segment: places of positions, and which are still wanted; one byte a position."""

import random
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker_app.journal import codec
from broker_app.journal.files import File
from broker_app.journal.port import Run

#: positions that are marked at once, and those that may have gaps
_PART, _FEW = 4096, 64
_BEYOND = 1 << 62  # more bytes than any journal has
MOSTLY_DEAD = 4  # less than one position in this many is live
_LOG, _CARRY = "log", "carry"
_INDEX_MAGIC = b"MOMIDX\r\n"


def segment_name(kind: int, sequence: int) -> str:
    """The file name of a segment."""
    return f"{_LOG if kind == codec.LOG else _CARRY}-{sequence:012d}.seg"


def index_name(name: str) -> str:
    """The index file of segment `name`, which saves its scan at the next start."""
    return name.removesuffix(".seg") + ".idx"


def _is_run(positions: Sequence[int]) -> bool:
    """Return whether positions of an array follow one another without a gap."""
    first = positions[0]
    return positions[-1] - first == len(positions) - 1 and positions == array(
        "Q", range(first, first + len(positions))
    )


def draw_segment_id() -> int:
    """A random number for one use of a file."""
    return random.SystemRandom().getrandbits(64)


class StoredFrame(NamedTuple):
    """The n-th frame of a segment, as the index has it now: `length` bytes at `offset`, with records of the
    positions from `first` to before `following`."""

    segment: "Segment"
    number: int
    offset: int
    length: int
    first: int
    following: int

    @property
    def records(self) -> int:
        """The number of its records."""
        start, end = self.segment.slots_of_batch(self.number)
        return end - start


class Segment:
    """The index of one segment file.

    Invariants: `batch_positions` (first position of each frame's batch) and `batch_offsets` (byte of the
    frame in the file) grow together. In a LOG segment positions run from `first_position` to
    `next_position` without a gap and `positions` is None; in a CARRY segment `positions` lists them.
    `live[i]` is 1 while the i-th position is wanted, `live_count` their number.
    """

    __slots__ = (
        "allocated",
        "batch_offsets",
        "batch_positions",
        "busy",
        "end",
        "file",
        "first_position",
        "kind",
        "live",
        "live_count",
        "name",
        "next_position",
        "positions",
        "segment_id",
        "sequence",
        "spared",
    )  # fmt: skip

    def __init__(self, header: codec.SegmentHeader, *, end: int = codec.SEGMENT_HEADER_BYTES) -> None:
        self.name = segment_name(header.kind, header.sequence)
        self.kind = header.kind
        self.segment_id = header.segment_id
        self.sequence = header.sequence
        self.first_position = header.covers_first
        self.next_position = header.covers_next
        self.end = end  # the byte after the last frame
        self.allocated = end  # bytes of the file that have their blocks
        self.file: File | None = None
        self.batch_positions = array("Q")
        self.batch_offsets = array("Q")
        self.positions: array[int] | None = array("Q") if header.kind == codec.CARRY else None
        self.live = bytearray()
        self.live_count = 0
        self.busy = False  # being copied from
        self.spared = 0  # live_count at which copying was found not worth it; 0: never tried

    def __len__(self) -> int:
        """The number of positions stored here."""
        return len(self.live)

    def append(self, first_position: int, count: int, length: int, wanted: Sequence[int] = ()) -> None:
        """Take up the frame of a LOG batch that was written at `end`; `wanted` are positions of it."""
        if not self.batch_positions:
            self.first_position = first_position
        self.batch_positions.append(first_position)
        self.batch_offsets.append(self.end)
        self.next_position = first_position + count
        if len(wanted) == count:
            self.live.extend(b"\1" * count)
        else:
            self.live.extend(bytes(count))
            for position in wanted:
                self.live[position - self.first_position] = 1
        self.live_count += len(wanted)
        self.end += length

    def append_carried(self, first_position: int, positions: Sequence[int], length: int) -> None:
        """Take up a CARRIED frame that was written at `end`, with the survivors of one batch."""
        assert self.positions is not None
        self.batch_positions.append(first_position)
        self.batch_offsets.append(self.end)
        self.positions.extend(positions)
        self.live.extend(bytes(len(positions)))
        self.end += length

    def mark(self, positions: Sequence[int]) -> int:
        """Mark positions as live, up to the first that is not stored here; returns how many."""
        low, high, live = self.first_position, self.next_position, self.live
        if self.positions is None and _is_run(positions):  # as nearly always, and in a fifth of the time
            start, end = positions[0] - low, positions[-1] + 1 - low
            self.live_count += end - start - live.count(1, start, end)
            live[start:end] = b"\1" * (end - start)
            return len(positions)
        for number, position in enumerate(positions):
            if not low <= position < high:
                return number
            slot = position - low if self.positions is None else self.slot(position)
            if slot < 0:
                return number
            if not live[slot]:
                live[slot] = 1
                self.live_count += 1
        return len(positions)

    def is_mostly_dead(self) -> bool:
        """True if copying the live records away would free most of the space."""
        return self.live_count * MOSTLY_DEAD < len(self)

    def has_died(self, before: int) -> bool:
        """True if it became mostly dead, or dead, since `live_count` was `before`."""
        if before * MOSTLY_DEAD >= len(self):
            return self.is_mostly_dead()
        return self.live_count == 0 and before > 0

    def slot(self, position: int) -> int:
        """The index in `live` of a position within the segment's range, or -1."""
        if self.positions is None:
            return position - self.first_position
        at = bisect_left(self.positions, position)
        return at if at < len(self.positions) and self.positions[at] == position else -1

    def slots_of_batch(self, number: int) -> tuple[int, int]:
        """The slots [start, end) of the n-th frame."""
        following = number + 1
        last = following == len(self.batch_positions)
        if self.positions is None:
            end = self.next_position if last else self.batch_positions[following]
            return self.batch_positions[number] - self.first_position, end - self.first_position
        start = bisect_left(self.positions, self.batch_positions[number])
        return start, len(self.positions) if last else bisect_left(
            self.positions, self.batch_positions[following]
        )

    def batch_of(self, position: int) -> int:
        """The number of the frame that holds a position within the segment's range (-1 before the first)."""
        return bisect_right(self.batch_positions, position) - 1

    def frame_length(self, number: int) -> int:
        """Bytes of the n-th frame."""
        following = number + 1
        end = self.batch_offsets[following] if following < len(self.batch_offsets) else self.end
        return end - self.batch_offsets[number]

    def frame(self, number: int) -> StoredFrame:
        """The n-th frame."""
        first, offset = self.batch_positions[number], self.batch_offsets[number]
        number_behind = number + 1
        if number_behind == len(self.batch_positions):
            return StoredFrame(self, number, offset, self.end - offset, first, self.next_position)
        end, following = self.batch_offsets[number_behind], self.batch_positions[number_behind]
        return StoredFrame(self, number, offset, end - offset, first, following)

    def run_of(self, position: int, max_bytes: int) -> tuple[int, int]:
        """The numbers [first, following) of the frames from that of a position on, of at most `max_bytes`
        together; one at least."""
        first = self.batch_of(position)
        limit = self.batch_offsets[first] + max_bytes
        if self.end <= limit:
            return first, len(self.batch_offsets)
        return first, max(first + 1, bisect_right(self.batch_offsets, limit) - 1)

    def encode_index(self) -> bytes:
        """The content of the index file."""
        numbers = (
            self.segment_id, self.first_position, self.next_position, self.end,
            len(self.batch_positions), len(self),
        )  # fmt: skip
        arrays = [self.batch_positions, self.batch_offsets]
        if self.positions is not None:
            arrays.append(self.positions)
        content = [_little(each).tobytes() for each in arrays]
        return b"".join((codec.seal(_INDEX_MAGIC, numbers, content), *content))

    @classmethod
    def from_index(cls, header: codec.SegmentHeader, sealed: bytes) -> "Segment | None":
        """The segment that an index file describes; None if it is damaged or of another use of the file."""
        opened = codec.unseal(_INDEX_MAGIC, 6, sealed)
        if opened is None or opened[0][0] != header.segment_id:
            return None
        (_, first, following, end, batches, slots), content = opened
        segment = cls(header, end=end)
        segment.first_position, segment.next_position = first, following
        segment.batch_positions = _array(content[: 8 * batches])
        segment.batch_offsets = _array(content[8 * batches : 16 * batches])
        if segment.positions is not None:
            segment.positions = _array(content[16 * batches :])
        segment.live = bytearray(slots)
        return segment


def _little(numbers: "array[int]") -> "array[int]":
    swapped = array("Q", numbers)
    if sys.byteorder == "big":
        swapped.byteswap()
    return swapped


def _array(content: bytes) -> "array[int]":
    numbers = array("Q", content)
    return _little(numbers)


class SegmentIndex:
    """The segments that hold something, in the order of their positions; their ranges never overlap."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._firsts: list[int] = []
        self._low: int | None = None  # None when it has to be searched again

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segment: Segment) -> None:
        """Take up a segment that is not empty."""
        at = bisect_left(self._firsts, segment.first_position)
        self._segments.insert(at, segment)
        self._firsts.insert(at, segment.first_position)
        self._low = None

    def remove(self, segment: Segment) -> None:
        """Forget a segment."""
        at = self._segments.index(segment)
        del self._segments[at], self._firsts[at]
        self._low = None

    def low(self, end: int) -> int:
        """The position from which on LOG segments follow each other without a gap up to `end`, where the log
        ends; `end` without any."""
        if self._low is None:
            self._low = end
            for segment in reversed(self._segments):
                if segment.kind != codec.LOG or segment.next_position != self._low:
                    break
                self._low = segment.first_position
        return self._low

    @property
    def end(self) -> int:
        """The position after the last one that is stored; 0 if there is none."""
        return self._segments[-1].next_position if self._segments else 0

    def find(self, position: int) -> Segment | None:
        """The segment whose range holds the position."""
        at = bisect_right(self._firsts, position) - 1
        if at < 0 or position >= self._segments[at].next_position:
            return None
        return self._segments[at]

    def frame_of(self, position: int) -> StoredFrame | None:
        """The frame that holds the position; None if nothing is stored there."""
        segment = self.find(position)
        number = -1 if segment is None else segment.batch_of(position)
        return None if segment is None or number < 0 else segment.frame(number)

    def measure(self, positions: Sequence[int], max_bytes: int) -> Run:
        """See `port.Journal.measure`. A record counts as the average of its frame."""
        run = self._measure_ends(positions)
        if run.size <= max_bytes:
            return run
        size = share = first = following = 0
        for count, position in enumerate(positions):
            if not first <= position < following:
                frame = self.frame_of(position)
                if frame is None:
                    continue  # reading it reports that
                first, following, share = frame.first, frame.following, frame.length // frame.records
            if count and size + share > max_bytes:
                return Run(count, size)
            size += share
        return Run(len(positions), size)

    def _measure_ends(self, positions: Sequence[int]) -> Run:
        """All positions, and the bytes from the first to the last one, which is more than they take. Most
        runs are short and in one segment: then no single position has to be looked at."""
        start, end = self.frame_of(min(positions)), self.frame_of(max(positions))
        if start is None or end is None or start.segment is not end.segment:
            return Run(len(positions), _BEYOND)
        return Run(len(positions), end.offset + end.length - start.offset)

    def mark(self, positions: Sequence[int]) -> int | None:
        """Mark positions as live. Returns the first one that is not stored."""
        at = 0
        while at < len(positions):
            first = positions[at]
            segment = self.find(first)
            if segment is None:
                return first
            most = min(_PART, len(positions) - at, segment.next_position - first)
            while most > _FEW and positions[at + most - 1] - first != most - 1:  # not without a gap
                most //= 2
            marked = segment.mark(positions[at : at + most])
            if not marked:
                return first
            at += marked
        return None

    def free(self, positions: Sequence[int]) -> bool:
        """Count positions as dead; those not wanted are passed over.

        Returns whether a segment has just become mostly dead, or dead.
        """
        low = high = before = 0
        segment: Segment | None = None
        crossed = False
        for position in positions:
            if not low <= position < high:
                crossed = crossed or (segment is not None and segment.has_died(before))
                segment = self.find(position)
                if segment is None:
                    low = high = 0
                    continue
                low, high, before = segment.first_position, segment.next_position, segment.live_count
            assert segment is not None
            slot = position - low if segment.positions is None else segment.slot(position)
            if slot >= 0 and segment.live[slot]:
                segment.live[slot] = 0
                segment.live_count -= 1
        return crossed or (segment is not None and segment.has_died(before))
