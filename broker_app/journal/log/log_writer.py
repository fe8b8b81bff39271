"""The log writer: batches go into the active segment, and into the next one when it is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker_app.journal import codec
from broker_app.journal.errors import JournalFailed, NoSpace
from broker_app.journal.files import File
from broker_app.journal.log.free_space import FreeSpace
from broker_app.journal.log.reader import Reader
from broker_app.journal.log.segment import Segment
from broker_app.journal.log.segment_pool import SegmentPool
from broker_app.journal.port import FIRST_POSITION, Batch
from broker_app.journal.worker import CallSoon, Worker

#: bytes from which on a batch is encoded and written in the thread that syncs it: less takes a few ms
LARGE_BYTES: Final = 4 * 1024 * 1024
#: called when a batch is durable, with None twice; with the error of a disk that had no space for it, and it
#: may be written again; or with the error that lost it
Synced = Callable[[NoSpace | None, Exception | None], None]


@dataclass(slots=True)
class Written:
    """A batch of `length` bytes in a segment; a large one is yet to be written, by `write`."""

    segment: Segment
    length: int
    write: Callable[[], None] | None = None


class LogWriter:
    """`segment_bytes` is where a new segment begins, not a limit of a batch.

    A batch of at most `inline_sync_bytes` is synced in the caller's thread (lower latency), a larger one in a
    thread of its own, which also writes those of `LARGE_BYTES`.
    """

    def __init__(
        self,
        reader: Reader,
        pool: SegmentPool,
        free_space: FreeSpace,
        *,
        segment_bytes: int,
        inline_sync_bytes: int,
        call_soon_threadsafe: CallSoon | None,
    ) -> None:
        self._reader = reader
        self._pool = pool
        self._free_space = free_space
        self.segment_bytes = segment_bytes
        self._inline_sync_bytes = inline_sync_bytes
        self._syncer = Worker("journal-sync", call_soon_threadsafe)
        #: the segment that is written; None while the journal is closed
        self.active: Segment | None = None
        #: batches that were synced in the caller's thread
        self.syncs_inline = 0
        self._idle_from = FIRST_POSITION  # where the log ended at the last check

    def write(self, batch: Batch, epoch: int) -> Written:
        """Write a batch, unless it is large. Raises JournalFailed."""
        table = codec.encode_table(batch.destinations)
        size = codec.FRAME_HEADER_BYTES + len(table) + sum(map(len, batch.parts))
        segment = self._segment_for(size)
        assert segment.file is not None
        if segment.end + size > segment.allocated:
            self._grow(segment, segment.end + size)
        numbers = segment.segment_id, epoch, batch.first_position, batch.time_us, batch.count
        if size > LARGE_BYTES:
            encode = partial(codec.encode_frame, *numbers, table, batch.parts, is_large=True)
            return Written(segment, size, partial(_write, segment.file, encode, segment.end))
        segment.file.write(codec.encode_frame(*numbers, table, batch.parts), segment.end)
        return Written(segment, size)

    def sync(self, written: Written, synced: Synced) -> None:
        """Make a batch durable, then call `synced`."""
        file = written.segment.file
        assert file is not None
        if written.write is not None:
            self._syncer.submit(partial(_write_and_sync, written.write, file), synced)
            return
        if written.length > self._inline_sync_bytes:
            self._syncer.submit(file.sync, synced)
            return
        self.syncs_inline += 1
        try:
            file.sync()
        except JournalFailed as error:
            synced(None, error)
        else:
            synced(None, None)

    def _segment_for(self, size: int) -> Segment:
        """The active segment if `size` bytes fit, else the next one, if that is ready.

        If it is not, the active one grows beyond its size: slower syncs are better than waiting.
        """
        assert self.active is not None
        if self.active.end > self.segment_bytes - size and len(self.active) > 0:
            self.roll()
        return self.active

    def _grow(self, segment: Segment, end: int) -> None:
        """Allocate blocks up to byte `end`, before anything is written there. Raises NoSpace."""
        assert segment.file is not None
        size = end + self.segment_bytes // 16
        while True:
            try:
                segment.file.reserve(size)
            except NoSpace:
                if size == end:
                    raise
                size = end  # at least what is needed
            else:
                self._free_space.take(size - segment.allocated)
                segment.allocated = size
                return

    def roll(self) -> None:
        """Continue in the next segment, if it is ready."""
        assert self.active is not None
        if (following := self._pool.take()) is not None:
            self._reader.adopt(self.active)
            self._pool.write_index(self.active)
            self.active = following

    def renew(self) -> None:
        """Continue in another segment, because most of the active one could be given back."""
        if self._pool.ready:
            self.roll()
        else:
            self._pool.prepare_small()

    def is_idle(self, position: int) -> bool:
        """True if the log ended at `position` at the last call, too."""
        idle, self._idle_from = self._idle_from == position, position
        return idle

    def close(self) -> None:
        """Finish the sync in progress."""
        self._syncer.close()


def _write(file: File, encode: Callable[[], Sequence[bytes]], offset: int) -> None:
    file.write(encode(), offset)


def _write_and_sync(write: Callable[[], None], file: File) -> NoSpace | None:
    """Make a large batch durable; returns the error if there was no space to write it."""
    try:
        write()
    except NoSpace as error:
        return error
    file.sync()
    return None
