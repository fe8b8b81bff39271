"""Reading records back by position: one read a batch, the last few batches kept taken apart.

What is small is read at once. More is read in a thread, with a descriptor of its own: the others, the index
and what is kept belong to the loop's thread.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from broker_app.journal.errors import Busy, NoSuchPosition
from broker_app.journal.files import File, Files
from broker_app.journal.log.frame_loader import BodyAt, FrameLoader, LoadedBatch, Unreadable, reclaimed
from broker_app.journal.log.segment import Segment, SegmentIndex, StoredFrame
from broker_app.journal.port import Damaged, Found
from broker_app.journal.worker import CallSoon, Worker

OPEN_FILES = 64
#: bytes of frames that are read at once: a thread costs more (0.1 ms) than it gives (a free loop)
AT_ONCE_BYTES = 64 * 1024
_NO_LIMIT = 1 << 62


class _TooMuch(Exception):
    """Raised where so much has to be read that the thread does it."""


class _Step(NamedTuple):
    """Positions of one frame, which is loaded already or not."""

    stored: StoredFrame
    batch: LoadedBatch | None
    positions: list[int]


class _Answer(NamedTuple):
    """The records that the thread has read, and the frames that they are in."""

    records: list[bytes | Damaged]
    loaded: list[tuple[StoredFrame, LoadedBatch]]


class _OwnFile:
    """The descriptor of a thread: that of the segment that it read last."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: File | None = None
        self._segment: Segment | None = None

    def open(self, segment: Segment) -> File:
        """The file of a segment."""
        if self._file is None or self._segment is not segment:
            self.close()
            self._file, self._segment = self._files.open(segment.name), segment
        return self._file

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


class Reader:
    """Owns the files opened for reading and the cache of batches. Without `call_soon_threadsafe` there is no
    thread, and everything is read at once."""

    def __init__(
        self,
        files: Files,
        index: SegmentIndex,
        cache_bytes: int,
        call_soon_threadsafe: CallSoon | None,
        body_at: BodyAt | None = None,
    ) -> None:
        self._files = files
        self._index = index
        self._loader = FrameLoader(files, body_at)
        self._worker = Worker("journal-read", call_soon_threadsafe)
        self._at_once = _NO_LIMIT if call_soon_threadsafe is None else AT_ONCE_BYTES
        self._cache_bytes = cache_bytes
        self._cached: OrderedDict[tuple[int, int], LoadedBatch] = OrderedDict()
        self._cached_bytes = 0
        self._open: OrderedDict[str, File] = OrderedDict()
        self.loads = 0

    def read(self, positions: Sequence[int], found: Found) -> None:
        """See `Journal.read`."""
        try:
            records = self._read_at_once(positions)
        except _TooMuch:
            self._read_in_thread(positions, found)
        except Exception as error:
            found(None, error)
        else:
            found(records, None)

    # --------------------------------------------------------------------------- at once

    def _read_at_once(self, positions: Sequence[int]) -> list[bytes | Damaged]:
        found: list[bytes | Damaged] = []
        add = found.append
        left = self._at_once
        batch: LoadedBatch | None = None
        first = following = 0
        for position in positions:
            if batch is None or not first <= position < following:
                stored = self._find(position)
                batch = self._kept(stored)
                if batch is None:
                    left -= stored.length
                    if left < 0:
                        raise _TooMuch
                    try:
                        batch = self._load(stored)
                    except Unreadable as error:
                        add(error.at(position))
                        continue
                first, following, content, starts = batch.first, batch.following, batch.content, batch.starts
            if batch.places is None:
                at = position - first
                add(content[starts[at] : starts[at + 1]])
            elif (place := batch.places.get(position)) is not None:
                add(content[place[0] : place[1]])
            else:
                raise reclaimed(position)
        return found

    def _find(self, position: int) -> StoredFrame:
        stored = self._index.frame_of(position)
        if stored is None:
            raise NoSuchPosition(position, "nothing is stored there (never written, or freed and reclaimed)")
        return stored

    def _load(self, stored: StoredFrame) -> LoadedBatch:
        self.loads += 1
        try:
            batch = self._loader.load(stored, self.file)
        except Busy:
            self.forget(stored.segment)
            raise
        self._keep(stored, batch)
        return batch

    # ----------------------------------------------------------------------- in the thread

    def _read_in_thread(self, positions: Sequence[int], found: Found) -> None:
        try:
            steps = self._plan(positions)
        except NoSuchPosition as error:
            found(None, error)
            return
        self.loads += sum(step.batch is None for step in steps)
        self._worker.submit(
            partial(self._carry_out, steps), partial(self._carried_out, steps, positions, found)
        )

    def _plan(self, positions: Sequence[int]) -> list[_Step]:
        steps: list[_Step] = []
        first = following = 0
        run: list[int] = []
        for position in positions:
            if not first <= position < following:
                stored = self._find(position)
                first, following, run = stored.first, stored.following, []
                steps.append(_Step(stored, self._kept(stored), run))
            run.append(position)
        return steps

    def _carry_out(self, steps: list[_Step]) -> _Answer:
        """Read records; in the thread."""
        answer = _Answer([], [])
        with closing(_OwnFile(self._files)) as own:
            for stored, batch, positions in steps:
                if batch is None:
                    apart = self._loader.load_apart(stored, own.open)
                    if apart is not None:
                        answer.records.extend([apart] * len(positions))
                        continue
                    try:
                        batch = self._loader.load(stored, own.open)
                    except Unreadable as error:
                        answer.records.extend(map(error.at, positions))
                        continue
                    if batch.size <= self._cache_bytes // 4:  # a larger one would drive all others out
                        answer.loaded.append((stored, batch))
                answer.records.extend(batch.records(positions))
        return answer

    def _carried_out(
        self,
        steps: list[_Step],
        positions: Sequence[int],
        found: Found,
        answer: _Answer | None,
        error: Exception | None,
    ) -> None:
        """A segment is taken out of the index before its file is used again: so what was read is as it was
        stored if the segment is still there."""
        if any(self._index.find(step.stored.first) is not step.stored.segment for step in steps):
            self.read(positions, found)
        elif answer is None:
            found(None, error)
        else:
            for stored, batch in answer.loaded:
                self._keep(stored, batch)
            found(answer.records, None)

    # ------------------------------------------------------------------------- what is kept

    def _kept(self, stored: StoredFrame) -> LoadedBatch | None:
        key = (stored.segment.segment_id, stored.offset)
        batch = self._cached.get(key)
        if batch is not None:
            self._cached.move_to_end(key)
        return batch

    def _keep(self, stored: StoredFrame, batch: LoadedBatch) -> None:
        key = (stored.segment.segment_id, stored.offset)
        former = self._cached.get(key)
        self._cached_bytes += batch.size - (0 if former is None else former.size)
        self._cached[key] = batch
        while self._cached_bytes > self._cache_bytes and len(self._cached) > 1:
            _, evicted = self._cached.popitem(last=False)
            self._cached_bytes -= evicted.size

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
        """Finish what is read in the thread, and close all files."""
        self._worker.close()
        for file in self._open.values():
            file.close()
        self._open.clear()
        self._cached.clear()
        self._cached_bytes = 0
