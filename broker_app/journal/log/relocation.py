"""Copying the few survivors of mostly dead stretches of the log together.

The survivors of one or more neighbouring segments go into one carry file, in order, under their
original positions. It gets its name only when it is whole and durable; only then are its sources given
up. So a crash at any moment leaves either the sources, or the carry file, or both (`recovery` then
prefers the carry file).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

from broker_app.journal import codec
from broker_app.journal.files import File, Files
from broker_app.journal.log.frame_loader import APART_BYTES, Alone, load_frame, read_alone
from broker_app.journal.log.segment import Segment, draw_segment_id, index_name, segment_name

_PIECE = 256 * 1024  # bytes read between two pauses

Pause = Callable[[float], None]  # called with the seconds of the last piece; raises to give up


@dataclass(frozen=True, slots=True)
class RelocationSource:
    """A segment to copy from, with what was live when the copying was decided."""

    segment: Segment
    live: bytes


class Relocation:
    """Copies survivors into one carry file; runs in a thread and touches nothing that the loop changes."""

    def __init__(
        self, files: Files, sources: Sequence[RelocationSource], sequence: int, pause: Pause
    ) -> None:
        self._files = files
        self._sources = sources
        self._pause = pause
        self._header = codec.SegmentHeader(
            codec.CARRY,
            draw_segment_id(),
            sequence,
            covers_first=sources[0].segment.first_position,
            covers_next=sources[-1].segment.next_position,
        )
        self._limit = sum(source.segment.end for source in sources) // 2
        self._copied = 0

    def run(self) -> Segment | None:
        """The carry file's segment, durable and in place; None if it would not be much smaller."""
        draft = f"{segment_name(codec.CARRY, self._header.sequence)}.new"
        with self._files.draft(draft) as out:
            carry = self._copy(out)
            if carry is None:
                self._files.remove(draft)
                return None
            self._files.replace(index_name(carry.name), carry.encode_index())
            self._files.rename(draft, carry.name)
            self._files.sync_directory()
            return carry

    def _copy(self, out: File) -> Segment | None:
        carry = Segment(self._header)
        out.write((codec.encode_segment_header(self._header),), 0)
        for source in self._sources:
            file = self._files.open(source.segment.name)
            try:
                self._copy_source(source, file, carry, out)
            finally:
                file.close()
            if carry.end > self._limit:
                return None
        out.sync()
        return carry

    def _copy_source(self, source: RelocationSource, file: File, carry: Segment, out: File) -> None:
        since, piece = time.monotonic(), 0
        for number in range(len(source.segment.batch_positions)):
            start, end = source.segment.slots_of_batch(number)
            if source.live.find(1, start, end) < 0:
                continue
            piece += self._copy_batch(source, number, file, carry, out)
            if carry.end > self._limit:
                return
            if piece >= _PIECE:
                self._pause(time.monotonic() - since)
                since, piece = time.monotonic(), 0

    def _copy_batch(
        self, source: RelocationSource, number: int, file: File, carry: Segment, out: File
    ) -> int:
        """Copy what is live of a frame; returns its length."""
        stored = source.segment.frame(number)
        alone = read_alone(stored, file) if stored.length > APART_BYTES else None
        if alone is not None:  # a large record, which nothing else copies
            frame, head, positions, parts = alone.frame, alone.head, *_of_one(alone)
        else:
            frame, head = load_frame(file, stored)
            positions, parts = _live_of(source, number, frame, head)
        pieces = codec.encode_frame(
            segment_id=self._header.segment_id,
            epoch=frame.epoch,
            first_position=frame.first_position,
            time_us=frame.time_us,
            count=len(positions),
            table=head[codec.FRAME_HEADER_BYTES : frame.records_at],
            parts=parts,
            flags=codec.CARRIED,
            is_large=stored.length > APART_BYTES,
        )
        out.write(pieces, carry.end)
        carry.append_carried(frame.first_position, positions, sum(map(len, pieces)))
        return stored.length


def _of_one(alone: Alone) -> tuple[list[int], list[bytes]]:
    """The position of a record that is alone in its frame, and the record as it stands in a CARRIED one."""
    record = alone.record
    if alone.frame.flags & codec.CARRIED:
        return [position for position, _, _ in codec.carried_records(record, 0, len(record))], [record]
    position = alone.frame.first_position
    return [position], [*codec.encode_carried(position, record)]


def _live_of(
    source: RelocationSource, number: int, frame: codec.Frame, content: bytes
) -> tuple[list[int], list[bytes]]:
    """The positions of the live records of a frame, and the records as they stand in a CARRIED one."""
    positions, parts = [], list[bytes]()
    for slot, position, start, end in _records(source.segment, number, frame, content):
        if source.live[slot]:
            positions.append(position)
            parts += codec.encode_carried(position, content[start:end])
    return positions, parts


def _records(
    segment: Segment, number: int, frame: codec.Frame, content: bytes
) -> list[tuple[int, int, int, int]]:
    """(slot, position, start, end) of each record of a frame."""
    first, _ = segment.slots_of_batch(number)
    if segment.positions is not None:
        carried = codec.carried_records(content, frame.records_at, len(content))
        return [(first + i, *record) for i, record in enumerate(carried)]
    starts = codec.record_starts(content, frame.records_at, len(content))
    return [(first + i, frame.first_position + i, starts[i], starts[i + 1]) for i in range(frame.count)]


def take_over(carry: Segment, sources: Sequence[RelocationSource]) -> None:
    """Set what is live in `carry` by what is live in its sources now."""
    # What was live when the copying was decided is what was copied, in the same order.
    carry.live = bytearray().join(bytes(compress(source.segment.live, source.live)) for source in sources)
    carry.live_count = carry.live.count(1)
