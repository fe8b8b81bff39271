"""Segment files in stock: the next one to be written, made ready before it is needed, and spare ones.

Files are used again rather than deleted: their blocks exist already, which makes the sync of each batch
cheaper, and deleting 64 MiB can hold up a file system for a long time.
"""

import time
from collections.abc import Callable
from functools import partial
from threading import Event

from broker_app.journal import codec
from broker_app.journal.errors import JournalError, NoSpace
from broker_app.journal.files import File, Files
from broker_app.journal.log.reserve import Reserve
from broker_app.journal.log.segment import Segment, draw_segment_id, index_name
from broker_app.journal.worker import CallSoon, Worker

_PIECE = 256 * 1024  # bytes filled between two pauses
_ZEROS = bytes(_PIECE)
_QUIET_TICKS = 10  # without a new segment for so long, spare files are deleted, one each tick
_FILL_PAUSE = 2.0  # filling rests so many times as long as it works: at most a third of the disk's time


class SegmentPool:
    """Owns the segment files that are not in use, the numbers of those to come, and the reserve.

    `starved`: the next segment could not be made ready because there is no space for it.

    `taken` is called with bytes that are about to be allocated, `failed` with errors of background work; the
    log does not need it to go on.
    """

    def __init__(
        self,
        files: Files,
        segment_bytes: int,
        spare_segments: int,
        call_soon_threadsafe: CallSoon | None,
        *,
        taken: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._files = files
        self._segment_bytes = segment_bytes
        self.max_spares = spare_segments
        self._threaded = call_soon_threadsafe is not None
        self._taken = taken
        self._failed = failed
        self._worker = Worker("journal-prepare", call_soon_threadsafe)
        self._reserve = Reserve(files, segment_bytes // 4)
        self._quiet = 0  # ticks since a segment was taken
        self._spares: list[str] = []
        self._expected_spares = 0  # those that are being given back, too
        self._sequence = 1
        self._next: Segment | None = None
        self._preparing = self._closed = self.starved = False
        self._used = 0  # of the segment being written, bytes
        self._prepare_from = segment_bytes // 4
        self._hurry = Event()
        self.returned = 0  # segments given back so far

    def stock(self, reusable: list[str], next_sequence: int) -> None:
        """Take up what recovery found."""
        self._spares = reusable
        self._expected_spares = len(reusable)
        self._sequence = next_sequence
        self._reserve.find()

    @property
    def reusable(self) -> int:
        """The number of files that wait to be used again."""
        return len(self._spares)

    @property
    def ready(self) -> bool:
        """True if `take` would return a segment."""
        return self._next is not None

    @property
    def ready_bytes(self) -> int:
        """Bytes that the segment which is ready has."""
        return 0 if self._next is None else self._next.allocated

    @property
    def allocated(self) -> int:
        """Bytes that segments to come have already."""
        return self.ready_bytes + len(self._spares) * self._segment_bytes

    @property
    def reserved(self) -> int:
        """Bytes reserved for when the disk is full."""
        return self._reserve.size

    def draw_sequence(self) -> int:
        """The number of a new segment file."""
        self._sequence += 1
        return self._sequence - 1

    def first(self) -> Segment:
        """A segment at once, for a log that has none: reserved, not filled, to save time.

        Without space for a whole one, it is as small as can be and grows.
        """
        sequence = self.draw_sequence()
        try:
            return prepare_log(self._files, None, sequence, self._segment_bytes, None)
        except NoSpace:
            return prepare_log(self._files, None, sequence, codec.SEGMENT_HEADER_BYTES, None)

    def watch(self, used: int) -> None:
        """Have the next segment made ready in time; `used` is how far the present one is written."""
        self._used = used
        if used >= self._prepare_from and self._next is None and not self._preparing and not self._closed:
            self._prepare(self._segment_bytes)
        if self._preparing and used * 4 >= self._segment_bytes * 3:
            self._hurry.set()

    def tick(self, used: int, free: int) -> None:
        """Ask again for what could not be had, now that `free` bytes are free."""
        if self.starved and self._next is None:
            self._prepare_from = 0
        self.watch(used)
        self._quiet += 1
        if self._quiet > _QUIET_TICKS and self._spares:
            self._expected_spares -= 1
            self._worker.submit(partial(_release, self._files, self._spares.pop(), False), self._released)
        wanted = self._reserve.wanted
        if (
            self._reserve.size < wanted
            and free > 2 * wanted
            and not self._reserve.filling
            and not self._closed
        ):
            self._reserve.filling = True
            self._worker.submit(self._reserve.fill, self._filled)

    def release_reserve(self, needed: int) -> bool:
        """Free a spare segment or a part of the reserve for `needed` bytes elsewhere; False if none is
        left."""
        if self._spares:
            self._expected_spares -= 1
            self._files.remove(self._spares.pop())
            return True
        return not self._reserve.filling and self._reserve.free(needed)

    def prepare_small(self) -> None:
        """Prepare a small segment from the reserve, because there is no space for another."""
        if self._next is None and not self._preparing and not self._closed:
            size = self._reserve.wanted // 2
            self._reserve.free(size)
            self._prepare(size)

    def take(self) -> Segment | None:
        """The next segment to be written, or None if it is not ready."""
        segment, self._next = self._next, None
        if segment is not None:
            self._prepare_from = self._segment_bytes // 4
            self._quiet = 0
        return segment

    def write_index(self, segment: Segment) -> None:
        """Have the index file of a segment written that is full."""
        self._worker.submit(partial(_write_index, self._files, segment), self._done)

    def recycle(self, segment: Segment) -> None:
        """Keep the file of a segment that nothing needs any more, or delete it if there are enough."""
        self.returned += 1
        fits = segment.kind == codec.LOG and segment.end <= self._segment_bytes
        keep = fits and self._expected_spares < self.max_spares
        self._expected_spares += keep
        self._worker.submit(partial(_release, self._files, segment.name, keep), self._released)

    def close(self) -> None:
        """Finish what is under way."""
        self._closed = True
        self._hurry.set()
        self._worker.close()
        if self._next is not None and self._next.file is not None:
            self._next.file.close()
            self._next = None

    def _prepare(self, size: int) -> None:
        self._preparing = True
        self._hurry.clear()
        spare = self._spares.pop() if self._spares else None
        if spare is None:
            self._taken(size)
        else:
            self._expected_spares -= 1
        left = size // 2 if size == self._segment_bytes else 0
        job = partial(prepare_log, self._files, spare, self.draw_sequence(), size, self._pause, left)
        self._worker.submit(job, self._prepared)

    def _pause(self, worked: float) -> bool:
        """In the worker's thread: leave the disk to the commits; False if there is no time for that."""
        return self._threaded and not self._hurry.wait(worked * _FILL_PAUSE)

    def _prepared(self, segment: Segment | None, error: Exception | None) -> None:
        self._preparing = False
        starved, self.starved = self.starved, isinstance(error, NoSpace)
        if not (starved and self.starved):  # reported once
            self._done(None, error)
        if segment is None:
            self._prepare_from = self._used + self._segment_bytes // 4  # try again, but not at once
        elif self._closed:
            assert segment.file is not None
            segment.file.close()
        else:
            self._next = segment

    def _filled(self, size: int | None, error: Exception | None) -> None:
        self._reserve.filling = False
        if size is not None:
            self._reserve.size = size
        self._done(None, error)

    def _released(self, spare: str | None, error: Exception | None) -> None:
        if spare is not None:
            self._spares.append(spare)
        self._done(None, error)

    def _done(self, _: object, error: Exception | None) -> None:
        if error is not None:
            self._failed(error)


def set_free(files: Files, name: str) -> str:
    """Rename a segment file that is free for another use. Returns the new name."""
    files.remove(index_name(name))
    free = f"free-{name.rpartition('-')[2]}"
    if free != name:
        files.rename(name, free)
    return free


def _write_index(files: Files, segment: Segment) -> None:
    files.replace(index_name(segment.name), segment.encode_index())


def _release(files: Files, name: str, keep: bool) -> str | None:
    if keep:
        return set_free(files, name)
    files.remove(name)
    files.remove(index_name(name))
    return None


def prepare_log(
    files: Files,
    free: str | None,
    sequence: int,
    segment_bytes: int,
    pause: Callable[[float], bool] | None,
    left: int = 0,
) -> Segment:
    """An empty LOG segment, ready to be written: blocks reserved, header and name durable.

    `free` is a file to use again. With `pause`, new blocks are filled with zeros in small steps: syncing
    an overwrite is cheaper than syncing a first write. `pause` is called with the seconds of a step; once
    it answers False the rest is only reserved. Raises NoSpace if not `left` bytes would be left to others.
    """
    if free is None and files.free_bytes() < segment_bytes + left:
        raise NoSpace(f"{files.directory}: there is no space for another segment of {segment_bytes} bytes")
    header = codec.SegmentHeader(codec.LOG, draw_segment_id(), sequence)
    segment = Segment(header)
    draft = free or f"{segment.name}.new"
    file = files.open(draft, write=True, create=free is None)
    try:
        file.write((codec.encode_segment_header(header),), 0)
        if file.size() > segment_bytes:
            file.truncate(segment_bytes)
        if pause is not None:
            _fill(file, segment_bytes, pause)
        file.reserve(segment_bytes)
        file.sync()
        files.rename(draft, segment.name)
        files.sync_directory()
    except JournalError:
        file.close()
        files.discard(draft)
        raise
    file.path = files.directory / segment.name
    segment.file = file
    segment.allocated = segment_bytes
    return segment


def _fill(file: File, end: int, pause: Callable[[float], bool]) -> None:
    for at in range(file.size(), end, len(_ZEROS)):
        since = time.monotonic()
        file.write((_ZEROS[: end - at],), at)
        file.sync()
        if not pause(time.monotonic() - since):
            return
