"""Survivors: records of mostly dead frames that are still wanted, as the frames of a carry segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.log.relocation import RelocationSource
from broker_app.journal.log.segment import Segment
from broker_app.journal.store import Carried, Store

#: frames that are fetched at a time
_FRAMES = 64


def collect(
    store: Store, sources: Sequence[RelocationSource], sequence: int, is_closing: Callable[[], bool]
) -> tuple[Segment, list[Carried]] | None:
    """The carry segment `sequence` that replaces `sources`, and its frames.

    None if it would not be much smaller, or the journal is closing. Raises JournalDamaged.
    """
    header = codec.SegmentHeader(
        codec.CARRY,
        sequence,
        sequence,
        covers_first=sources[0].segment.first_position,
        covers_next=sources[-1].segment.next_position,
    )
    limit = sum(source.segment.end for source in sources) // 2
    carry, carried = Segment(header, end=0), list[Carried]()
    for source in sources:
        numbers = _live_frames(source)
        for at in range(0, len(numbers), _FRAMES):
            if is_closing():
                return None
            for one in _survivors(store, source, numbers[at : at + _FRAMES], sequence):
                carry.append_carried(one.first_position, one.positions, len(one.frame))
                carried.append(one)
            if carry.end > limit:
                return None
    return carry, carried


def first_live_key(source: RelocationSource) -> tuple[int, int]:
    """The key of the first frame of a segment in which something is wanted."""
    return source.segment.sequence, source.segment.batch_positions[_live_frames(source)[0]]


def _live_frames(source: RelocationSource) -> list[int]:
    """The numbers of the frames in which something is wanted."""
    segment = source.segment
    return [
        number
        for number in range(len(segment.batch_positions))
        if source.live.find(1, *segment.slots_of_batch(number)) >= 0
    ]


def _survivors(
    store: Store, source: RelocationSource, numbers: Sequence[int], sequence: int
) -> list[Carried]:
    segment = source.segment
    keys = [(segment.sequence, segment.batch_positions[number]) for number in numbers]
    frames = store.load(keys)
    found = []
    for number, key in zip(numbers, keys, strict=True):
        content = frames.get(key)
        frame = None if content is None else codec.decode_frame(content, 0)
        if content is None or frame is None or not codec.is_whole(content, 0, frame):
            raise JournalDamaged(
                f"{store.description}: the batch at position {key[1]} is missing or damaged; its messages "
                "become dead letters when they are read"
            )
        found.append(_carried(source, number, sequence, frame, content))
    return found


def _carried(
    source: RelocationSource, number: int, sequence: int, frame: codec.Frame, content: bytes
) -> Carried:
    start, end = source.segment.slots_of_batch(number)
    wanted = source.live[start:end]
    positions: list[int] = []
    parts: list[bytes] = []
    for live, (position, begin, stop) in zip(wanted, _places(frame, content), strict=True):
        if live:
            positions.append(position)
            parts += codec.encode_carried(position, content[begin:stop])
    pieces = codec.encode_frame(
        segment_id=sequence,
        epoch=frame.epoch,
        first_position=frame.first_position,
        time_us=frame.time_us,
        count=len(positions),
        table=content[codec.FRAME_HEADER_BYTES : frame.records_at],
        parts=parts,
        flags=codec.CARRIED,
    )
    return Carried(frame.first_position, positions, b"".join(pieces))


def _places(frame: codec.Frame, content: bytes) -> list[tuple[int, int, int]]:
    """(position, start, end) of each record of a frame."""
    if frame.flags & codec.CARRIED:
        return list(codec.carried_records(content, frame.records_at, frame.length))
    starts = codec.record_starts(content, frame.records_at, frame.length)
    return [(frame.first_position + i, starts[i], starts[i + 1]) for i in range(frame.count)]
