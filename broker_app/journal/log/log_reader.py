"""Reads the log in runs of whole frames, in a thread, while it is written and its old segments are let go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker_app.journal import codec
from broker_app.journal.errors import Busy, JournalDamaged, NoSuchPosition, remedies
from broker_app.journal.files import Files
from broker_app.journal.log.segment import Segment, SegmentIndex
from broker_app.journal.port import LogFound, LogRun, Span
from broker_app.journal.store import Store
from broker_app.journal.worker import CallSoon, Worker

#: frames of a store that are fetched at once: each is a key of its own
_STORED_FRAMES = 256


class Place(NamedTuple):
    """The frames with the numbers [first, following) of a LOG segment: `size` bytes at `offset`, with the
    records from `position` to before `next_position`."""

    segment: Segment
    first: int
    following: int
    offset: int
    size: int
    position: int
    next_position: int


class LogReader:
    """Reads what an index contains. `load` returns the bytes of a place; it is called in a thread.

    A segment is taken out of the index before its file is used again: so what was read is as it was stored
    if the segment is still there afterwards.
    """

    def __init__(
        self,
        index: SegmentIndex,
        load: Callable[[Place], bytes],
        call_soon_threadsafe: CallSoon | None,
        *,
        max_frames: int | None = None,
    ) -> None:
        self._index = index
        self._load = load
        self._max_frames = max_frames
        self._worker = Worker("journal-log", call_soon_threadsafe)

    def read(self, span: Span, position: int, max_bytes: int, found: LogFound) -> None:
        """See `port.Journal.read_log`; `span` is that of the journal now."""
        if not span.low <= position <= span.end:
            found(None, outside(position, span))
        elif position == span.end:
            found(LogRun(position, position, b""), None)
        else:
            place = self._place(position, max_bytes)
            self._worker.submit(partial(self._load, place), partial(self._loaded, place, found))

    def _place(self, position: int, max_bytes: int) -> Place:
        segment = self._index.find(position)
        assert segment is not None, "everything within the span is stored"
        first, following = segment.run_of(position, max_bytes)
        if self._max_frames is not None:
            following = min(following, first + self._max_frames)
        last = following == len(segment.batch_positions)
        offset = segment.batch_offsets[first]
        return Place(
            segment,
            first,
            following,
            offset,
            (segment.end if last else segment.batch_offsets[following]) - offset,
            segment.batch_positions[first],
            segment.next_position if last else segment.batch_positions[following],
        )

    def _loaded(self, place: Place, found: LogFound, frames: bytes | None, error: Exception | None) -> None:
        if self._index.find(place.position) is not place.segment:
            found(None, NoSuchPosition(place.position, "it was let go while it was being read"))
        elif frames is None:
            found(None, error)
        else:
            found(LogRun(place.position, place.next_position, frames), None)

    def close(self) -> None:
        """Finish the reads in progress."""
        self._worker.close()


def outside(position: int, span: Span) -> NoSuchPosition:
    """The error of a position that the log does not have."""
    return NoSuchPosition(position, f"the log has the positions from {span.low} to before {span.end}")


def of_files(files: Files, index: SegmentIndex, call_soon_threadsafe: CallSoon | None) -> LogReader:
    """A reader of segment files."""
    return LogReader(index, partial(_load_from_files, files), call_soon_threadsafe)


def of_store(store: Store, index: SegmentIndex, call_soon_threadsafe: CallSoon | None) -> LogReader:
    """A reader of a shared store."""
    load = partial(_load_from_store, store)
    return LogReader(index, load, call_soon_threadsafe, max_frames=_STORED_FRAMES)


def _load_from_files(files: Files, place: Place) -> bytes:
    # With a descriptor of its own: the others belong to the loop's thread.
    file = files.open(place.segment.name)
    try:
        content = file.read(place.size, place.offset)
    finally:
        file.close()
    frame = codec.decode_frame(content, 0)
    begins = frame is not None and frame.segment_id == place.segment.segment_id
    if not begins or len(content) < place.size:
        raise JournalDamaged(
            f"{file.path}: the batch at offset {place.offset} (position {place.position}) is damaged; "
            f"{remedies(files.directory)}"
        )
    return content


def _load_from_store(store: Store, place: Place) -> bytes:
    segment = place.segment
    keys = [
        (segment.sequence, segment.batch_positions[number]) for number in range(place.first, place.following)
    ]
    frames = store.load(keys)
    missing = [position for _, position in keys if (segment.sequence, position) not in frames]
    if missing:
        # A segment is deleted in the store before it is taken out of the index.
        raise Busy(
            f"{store.description}: the batch at position {missing[0]} is being deleted, or the store has "
            "lost it; try again"
        )
    return b"".join(frames[key] for key in keys)
