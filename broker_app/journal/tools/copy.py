"""Copies a journal to another backend: its frames as they are, with their positions, its snapshot, its notes.

A frame is never taken apart; only the number of the segment that it is in is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from broker_app.journal.copy_mark import CopyMark
from broker_app.journal.errors import JournalFailed
from broker_app.journal.log.segment import SegmentIndex
from broker_app.journal.shared.shared_journal import segments_of
from broker_app.journal.store import StoredRow
from broker_app.journal.tools.content import JournalContent
from broker_app.journal.tools.copy_target import RUN_BYTES, CopyTarget, StoredFrame

#: rows that are read at a time
_RUN_ROWS = 256

#: the positions of the records that are still needed, in chunks
Live = Callable[[JournalContent], Iterable[Sequence[int]]]
#: called with the records that are copied, and those that there are
Progress = Callable[[int, int], None]


class Copied(NamedTuple):
    """The result: counts of the copy, and of the notes that its backend cannot keep."""

    segments: int
    batches: int
    records: int
    bytes: int
    live_records: int
    notes: int
    notes_left_out: int


class _Totals(NamedTuple):
    segments: int
    batches: int
    records: int
    bytes: int


class _Counter:
    """Reports the records of frames that pass."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def count(self, frames: Iterator[StoredFrame]) -> Iterator[StoredFrame]:
        for frame in frames:
            yield frame
            self._done += frame.row.records
            self._progress(self._done, self._total)


def copy(source: JournalContent, target: CopyTarget, live: Live, progress: Progress) -> Copied:
    """Copy a journal and check the copy. `live` reads a journal as a broker does that starts.

    Raises JournalDamaged for a source that no broker could start with, JournalExists, JournalFailed and
    Unreachable. After an error while it copies, the target is marked as incomplete; a repeated copy begins
    again.
    """
    mark = CopyMark(source.description, source.identity.tag)
    target.check(mark)
    totals = _totals(source.rows())
    live_records = sum(map(len, live(source)))
    target.begin(mark, source.identity)
    counter = _Counter(progress, totals.records)
    for segment, rows in groupby(source.rows(), key=lambda row: row.segment):
        target.write(segment, counter.count(_frames(source, rows)))
    notes = source.notes()
    left_out = target.finish(source.snapshot(), notes)
    _check(source, target.content(), live, live_records)
    target.complete()
    return Copied(*totals, live_records, len(notes) - left_out, left_out)


def _totals(rows: Iterator[StoredRow]) -> _Totals:
    segments, batches, records, size, last = 0, 0, 0, 0, -1
    for row in rows:
        segments += row.segment != last
        last = row.segment
        batches += 1
        records += row.records
        size += row.size
    return _Totals(segments, batches, records, size)


def _frames(source: JournalContent, rows: Iterator[StoredRow]) -> Iterator[StoredFrame]:
    """The frames of a segment, of which no more than a run is in memory."""
    for run in _runs(rows):
        for row, content in zip(run, source.frames(run), strict=True):
            yield StoredFrame(row, content)


def _runs(rows: Iterator[StoredRow]) -> Iterator[list[StoredRow]]:
    run: list[StoredRow] = []
    size = 0
    for row in rows:
        run.append(row)
        size += row.size
        if size >= RUN_BYTES or len(run) == _RUN_ROWS:
            yield run
            run, size = [], 0
    if run:
        yield run


def _check(source: JournalContent, copied: JournalContent, live: Live, live_records: int) -> None:
    """Raise JournalFailed unless the copy has what the original has."""
    for one, other in zip_longest(source.rows(), copied.rows()):
        if one is None or other is None or not _is_same(one, other):
            position = next(row for row in (one, other) if row is not None).first_position
            raise _different(copied, f"differs from position {position} on")
    if source.snapshot() != copied.snapshot():
        raise _different(copied, "has another snapshot")
    if source.identity[1:] != copied.identity[1:] or copied.identity.epoch < source.identity.epoch:
        raise _different(copied, "has another tag or epoch")
    index = SegmentIndex()
    for segment in segments_of(copied.rows()):
        index.add(segment)
    found = 0
    for chunk in live(copied):
        missing = index.mark(chunk)
        if missing is not None:
            raise _different(copied, f"has no record at position {missing}, which is needed")
        found += len(chunk)
    if found != live_records:
        raise _different(copied, f"has {found} live records instead of {live_records}")


def _is_same(one: StoredRow, other: StoredRow) -> bool:
    places = [None if row.positions is None else list(row.positions) for row in (one, other)]
    return one[:4] == other[:4] and places[0] == places[1]


def _different(copied: JournalContent, difference: str) -> JournalFailed:
    return JournalFailed(
        f"{copied.description}: the copy {difference}; it stays marked as incomplete, and the original is "
        "unchanged. Repeat the copy"
    )
