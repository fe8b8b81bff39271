"""The private journal: a copy of the shared one, in files of the broker that serves.

Whatever is written goes to the shared store first, then to the private journal; both have it before it is
confirmed. A broker that has taken over copies what its private journal lacks in a thread, while it serves.
The private journal never holds up the broker: an error ends it until the broker starts again.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from broker_app.base.states import PRIVATE_JOURNAL
from broker_app.journal.copy_mark import NOTE, CopyMark
from broker_app.journal.errors import JournalError, JournalFailed
from broker_app.journal.store import (
    Carried,
    Grant,
    Holder,
    LogBatch,
    Store,
    StoredRow,
)

log = logging.getLogger(__name__)

#: frames that are copied at a time
_RUN_FRAMES: Final = 256
#: bytes of frames that are copied at a time, unless one is larger
_RUN_BYTES: Final = 4 * 1024 * 1024
#: its content, compared with the shared one
COPYING, IN_STEP, FAILED = PRIVATE_JOURNAL
#: seconds for which the private journal's lease is valid after a kill
_LEASE_S: Final = 0.0


class PrivateStatus(NamedTuple):
    """The place of a private journal, its state, the frames that are not copied yet, and what failed."""

    place: str
    state: str
    pending_frames: int
    error: str


class SegmentRows:
    """The frames of one segment, by number in the segment."""

    def __init__(self, *, is_carry: bool) -> None:
        self.is_carry = is_carry
        self.first_positions = array("Q")
        self.records = array("Q")
        self.sizes = array("Q")
        #: the positions of the records in each frame of a carry segment
        self.positions: list[Sequence[int]] = []

    def add(self, row: StoredRow) -> None:
        """Add the next frame."""
        self.first_positions.append(row.first_position)
        self.records.append(row.records)
        self.sizes.append(row.size)
        if row.positions is not None:
            self.positions.append(array("Q", row.positions))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentRows):
            return NotImplemented
        return (self.is_carry, self.first_positions, self.records, self.sizes, self.positions) == (
            other.is_carry,
            other.first_positions,
            other.records,
            other.sizes,
            other.positions,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes


class PrivateJournal:
    """The copy of what `shared` contains in `private`, a store that no other broker uses.

    Created when `holder` was granted the shared store. `begin` is called before the first change of that, the
    others after each, in the thread that made it. None of them raises an error of the private journal.
    """

    def __init__(self, shared: Store, private: Store, holder: Holder, grant: Grant) -> None:
        self._state = COPYING
        self._error = ""
        self._shared = shared
        self._private = private
        self._holder = holder
        self._grant = grant
        self._lock = Lock()
        #: held while frames are copied, and while the shared store deletes some
        self.deleting = Lock()
        #: by segment: the frames that the shared store contains, as far as they have to be copied
        self._pending: dict[int, SegmentRows] = {}
        #: frames of the segment that are copied
        self._copied: dict[int, int] = {}
        self._deleted: list[int] = []
        self._closing = Event()
        self._thread: Thread | None = None

    @property
    def status(self) -> PrivateStatus:
        """The state now; safe in any thread."""
        pending = sum(len(rows.sizes) for rows in list(self._pending.values()))
        return PrivateStatus(self._private.description, self._state, pending, self._error)

    def begin(self, rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
        """Pass on the rows of the shared store; then copy, in a thread, what the private journal lacks."""
        present = self._open()
        if self._state == FAILED:
            yield from rows
            return
        for row in rows:
            pending = self._pending.get(row.segment)
            if pending is None:
                pending = self._pending[row.segment] = SegmentRows(is_carry=row.positions is not None)
            pending.add(row)
            yield row
        for segment, found in present.items():
            if self._pending.get(segment) == found:
                del self._pending[segment]
            else:
                self._deleted.append(segment)
        self._thread = Thread(target=self._copy_all, name="private-journal", daemon=True)
        self._thread.start()

    def _open(self) -> dict[int, SegmentRows]:
        """Acquire the private journal; returns what it contains."""
        present: dict[int, SegmentRows] = {}
        try:
            former = self._private.acquire(self._holder, _LEASE_S, force=True)
            for row in self._private.rows():
                if row.segment not in present:
                    present[row.segment] = SegmentRows(is_carry=row.positions is not None)
                present[row.segment].add(row)
            if present and former.tag != self._grant.tag:
                self._end(
                    JournalFailed(
                        f"{self._private.description} is no copy of {self._shared.description}, but of "
                        "another journal; `mom journal replace-private` sets it aside"
                    )
                )
                return {}
            self._private.adopt(self._grant)
            self._private.put_note(NOTE, self._mark)
        except JournalError as error:
            self._fail(error)
        return present

    @property
    def _mark(self) -> bytes:
        return CopyMark(self._shared.description, self._grant.tag).encode()

    def _end(self, error: JournalError) -> None:
        self._state, self._error = FAILED, str(error)
        self._pending.clear()
        log.error("the private journal is not written until this broker starts again: %s", error)

    def _fail(self, error: JournalError) -> None:
        self._end(error)
        try:
            self._private.put_note(NOTE, self._mark)
        except JournalError:
            log.error("the private journal could not be marked as incomplete: do not use it")

    # ---------------------------------------------------------------------------- changes

    def append(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """The shared store has these batches."""
        with self._lock:
            if self._state == IN_STEP:
                self._write(lambda: self._private.append_all(segment, batches))
            elif self._state == COPYING:
                pending = self._pending.setdefault(segment, SegmentRows(is_carry=False))
                for first_position, count, frame in batches:
                    if not pending.first_positions or pending.first_positions[-1] < first_position:
                        pending.add(StoredRow(segment, first_position, count, len(frame), None))

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """The shared store has a carry segment instead of its sources."""
        with self._lock:
            if self._state == IN_STEP:
                self._write(lambda: self._private.carry(segment, carried, sources))
            elif self._state == COPYING:
                pending = self._pending[segment] = SegmentRows(is_carry=True)
                for first_position, positions, frame in carried:
                    pending.add(StoredRow(segment, first_position, len(positions), len(frame), positions))
                self._forget(sources)

    def delete(self, segments: Sequence[int]) -> None:
        """The shared store has deleted segments."""
        with self._lock:
            if self._state == IN_STEP:
                self._write(lambda: self._private.delete(segments))
            elif self._state == COPYING:
                self._forget(segments)

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """The shared store has another snapshot."""
        with self._lock:
            if self._state == IN_STEP:  # else the newest is copied at the end
                self._write(lambda: self._private.put_snapshot(position, parts))

    def _forget(self, segments: Sequence[int]) -> None:
        for segment in segments:
            self._pending.pop(segment, None)
            self._deleted.append(segment)

    def _write(self, work: Callable[[], None]) -> None:
        try:
            work()
        except JournalError as error:
            self._fail(error)

    # ---------------------------------------------------------------------------- copying

    def _copy_all(self) -> None:
        """In a thread of its own: copy until the private journal is in step."""
        try:
            while not self._closing.is_set():
                with self._lock:
                    self._delete_marked()
                    if not self._pending:
                        self._finish()
                        return
                    segment = min(self._pending)
                with self.deleting:
                    self._copy_run(segment)
        except JournalError as error:
            if not self._closing.is_set():
                with self._lock:
                    self._fail(error)

    def _delete_marked(self) -> None:
        if self._deleted:
            self._private.delete(self._deleted)
            for segment in self._deleted:
                self._copied.pop(segment, None)
            self._deleted.clear()

    def _finish(self) -> None:
        snapshot = self._shared.snapshot()
        if snapshot is not None:
            self._private.put_snapshot(snapshot[0], [snapshot[1]])
        self._private.drop_note(NOTE)
        self._state = IN_STEP
        log.info("the private journal in %s is in step", self._private.description)

    def _copy_run(self, segment: int) -> None:
        """Copy the next frames of a segment; a carry segment whole."""
        with self._lock:
            rows = self._pending.get(segment)
            if rows is None:
                return
            done = self._copied.get(segment, 0)
            end = len(rows.sizes) if rows.is_carry else _run_end(rows.sizes, done)
            numbers = range(done, end)
        found = self._shared.load([(segment, rows.first_positions[number]) for number in numbers])
        frames = [found.get((segment, rows.first_positions[number])) for number in numbers]
        with self._lock:
            if None in frames:
                raise JournalFailed(f"{self._shared.description}: frames of segment {segment} are missing")
            whole = [frame for frame in frames if frame is not None]
            if rows.is_carry:
                self._private.carry(segment, _carried(rows, whole), [])
            else:
                self._private.append_all(segment, _batches(rows, numbers, whole))
            self._copied[segment] = end
            if end == len(rows.sizes):
                # Batches that are appended to it later are pending again, from the first of them.
                del self._pending[segment], self._copied[segment]

    def close(self) -> None:
        """Release the private journal; an unfinished copy stays marked as incomplete."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._private.release()


def _run_end(sizes: Sequence[int], begin: int) -> int:
    size, end = 0, begin
    while end < len(sizes) and end - begin < _RUN_FRAMES and size < _RUN_BYTES:
        size += sizes[end]
        end += 1
    return end


def _carried(rows: SegmentRows, frames: Sequence[bytes]) -> list[Carried]:
    return [
        Carried(first, positions, frame)
        for first, positions, frame in zip(rows.first_positions, rows.positions, frames, strict=True)
    ]


def _batches(rows: SegmentRows, numbers: range, frames: Sequence[bytes]) -> list[LogBatch]:
    return [
        LogBatch(rows.first_positions[number], rows.records[number], frame)
        for number, frame in zip(numbers, frames, strict=True)
    ]
