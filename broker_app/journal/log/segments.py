"""The journal in segment files: the embedded default.

A directory holds log segments (batches one after the other), carry files (live records of reclaimed
segments), snapshots, and spare files waiting to be used again. The loop's thread owns every index
and writes the batches; threads only sync, prepare, copy and write snapshots, and report back.
"""

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from broker_app.journal import codec
from broker_app.journal.copy_mark import mark_in_files, refuse_incomplete
from broker_app.journal.errors import JournalDamaged, JournalFailed, NoSpace, remedies
from broker_app.journal.files import File, Files
from broker_app.journal.log import log_reader, meta, recovery
from broker_app.journal.log.compaction import Compactor
from broker_app.journal.log.cursors import KEPT_BYTES, KEPT_S, Cursors, FileDocument
from broker_app.journal.log.frame_loader import BodyAt, load_frame
from broker_app.journal.log.free_space import FreeSpace, SpaceMonitor, free_bytes
from broker_app.journal.log.log_writer import LogWriter, Written
from broker_app.journal.log.reader import Reader
from broker_app.journal.log.retention import Retention
from broker_app.journal.log.segment import Segment, SegmentIndex
from broker_app.journal.log.segment_pool import SegmentPool
from broker_app.journal.log.snapshot_writer import SnapshotWriter
from broker_app.journal.port import (
    FIRST_POSITION,
    Batch,
    CursorState,
    Done,
    Found,
    LogFound,
    OpenResult,
    Run,
    Span,
    StoredBatch,
)
from broker_app.journal.worker import CallSoon

SEGMENT_BYTES = 16 * 1024 * 1024
SPARE_SEGMENTS = 4  # as many as a snapshot frees at once under load
INLINE_SYNC_BYTES = 4 * 1024  # up to here the thread costs more (0.1 ms) than it gives (a free loop)
CACHE_BYTES = 32 * 1024 * 1024


class SegmentJournal:
    """See `port.Journal` for the guarantees.

    `segment_bytes` is where a new segment is begun, not a limit of a batch. `retention_bytes` of log
    are kept although nothing in them is wanted any more, and up to `cursor_bytes` from the smallest cursor on
    that was reported in the last `cursor_s`. A batch of at most `inline_sync_bytes` is
    synced in the caller's thread (lower latency), a larger one in a thread of its own. `cache_bytes`
    bounds the batches held taken apart for `read`; `body_at` finds the bodies of records that are large
    (`LargeRecord`), which are in no batch. Without `call_soon_threadsafe` there are no
    threads: everything happens at once in the caller's, `done` included.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        retention_bytes: int = 0,
        cursor_bytes: int = KEPT_BYTES,
        cursor_s: float = KEPT_S,
        inline_sync_bytes: int = INLINE_SYNC_BYTES,
        spare_segments: int = SPARE_SEGMENTS,
        cache_bytes: int = CACHE_BYTES,
        call_soon_threadsafe: CallSoon | None = None,
        files: Files | None = None,
        body_at: BodyAt | None = None,
    ) -> None:
        self.epoch = self.tag = self.created_us = 0
        self._files = files or Files(Path(directory))
        self._index = SegmentIndex()
        self._reader = Reader(self._files, self._index, cache_bytes, call_soon_threadsafe, body_at)
        self._log_reader = log_reader.of_files(self._files, self._index, call_soon_threadsafe)
        self._cursors = Cursors(
            FileDocument(self._files), call_soon_threadsafe, kept_s=cursor_s, moved=self._compact
        )
        self._retention = Retention(retention_bytes, cursor_bytes)
        self._free_space = FreeSpace(segment_bytes // 2)
        self._pool = SegmentPool(
            self._files,
            segment_bytes,
            spare_segments,
            call_soon_threadsafe,
            taken=self._free_space.take,
            failed=self._background_failed,
        )
        self._compactor = Compactor(
            self._files,
            self._index,
            self._reader,
            self._pool,
            segment_bytes=segment_bytes,
            retention=self._kept,
            call_soon_threadsafe=call_soon_threadsafe,
            failed=self._background_failed,
        )
        self._log = LogWriter(
            self._reader,
            self._pool,
            self._free_space,
            segment_bytes=segment_bytes,
            inline_sync_bytes=inline_sync_bytes,
            call_soon_threadsafe=call_soon_threadsafe,
        )
        self._snapshots = SnapshotWriter(
            self._files,
            self._pool,
            call_soon_threadsafe,
            written=self._compact,
            failed=self._background_failed,
        )
        self._monitor = SpaceMonitor(partial(free_bytes, self._files), call_soon_threadsafe, self._tick)
        self._next_position = FIRST_POSITION
        self._in_flight = False
        self._failure: JournalFailed | None = None
        self.wants_snapshot = False
        self._postponed: tuple[Batch, Done] | None = None  # it found no space
        self._lock: File | None = None
        self._counters = dict.fromkeys(
            (
                "commits",
                "records",
                "bytes_written",
                "background_failures",
                "postponed",
            ),
            0,
        )
        self.background_error: Exception | None = None  # the last failure that the journal lives with

    # -------------------------------------------------------------------------- opening

    def open(self) -> OpenResult:
        """See `port.Journal.open`."""
        if self._lock is not None:
            raise ValueError("the journal is open already")
        self._files.create_directory()
        self._lock = meta.lock(self._files)
        try:
            self._files.keep_spare_descriptors()
            return self._recover()
        except BaseException:
            self._release()
            raise

    def _recover(self) -> OpenResult:
        refuse_incomplete(mark_in_files(self._files), self._files.directory)
        former = meta.read_meta(self._files)
        found = recovery.scan_directory(self._files)
        if former is None and found.segments:
            found.report.append(f"{self._files.directory / meta.META} was missing; the journal has a new tag")
        if former is not None:
            recovery.report_short_file(self._files, found, former.segment_bytes)
        reusable = recovery.repair(self._files, found, self._pool.max_spares)
        self._pool.stock(reusable, found.next_sequence)
        now = self._advance(former, found.epoch)
        if found.last is not None:
            recovery.allocate(found.last, self._log.segment_bytes)
        self._log.active = found.last or self._pool.first()
        self.epoch, self.tag, self.created_us = now.epoch, now.tag, now.created_us
        self._next_position = found.next_position
        self._snapshots.recovered(found.snapshot_position, found.replay_start)
        for segment in found.segments:
            self._index.add(segment)
        found.report += self._cursors.recover()
        self._monitor.start()
        return OpenResult(found.snapshot, found.snapshot_position, found.next_position, found.report)

    def _advance(self, former: meta.Meta | None, epoch_seen: int) -> meta.Meta:
        while True:
            try:
                now_us = time.time_ns() // 1000
                return meta.advance(
                    self._files, former, epoch_seen, now_us, segment_bytes=self._log.segment_bytes
                )
            except NoSpace:
                if not self._pool.release_reserve(self._log.segment_bytes):
                    raise

    @property
    def is_held(self) -> bool:
        """See `port.Journal.is_held`: the lock of the directory is held until `close`."""
        return True

    def replay(self) -> Iterator[StoredBatch]:
        """See `port.Journal.replay`."""
        for segment in list(self._index):
            if segment.kind == codec.LOG and segment.next_position > self._snapshots.position:
                yield from self._replay_segment(segment)

    def _replay_segment(self, segment: Segment) -> Iterator[StoredBatch]:
        file = self._reader.file(segment)
        for number in range(len(segment.batch_positions)):
            if segment.batch_positions[number] < self._snapshots.position:
                continue
            frame, content = load_frame(file, segment.frame(number))
            yield StoredBatch(
                frame.first_position,
                frame.time_us,
                frame.epoch,
                codec.decode_table(content[codec.FRAME_HEADER_BYTES : frame.records_at]),
                frame.count,
                content[frame.records_at :],
            )

    def set_live_positions(self, positions: Iterable[Sequence[int]]) -> None:
        """See `port.Journal.set_live_positions`."""
        for chunk in positions:
            lost = self._index.mark(chunk)
            if lost is not None:
                raise JournalDamaged(
                    f"{self._files.directory}: the record at position {lost} is needed but not stored;"
                    f" {remedies(self._files.directory)}"
                )
        self._compactor.enabled = True
        self._compact()

    def missing(self, positions: Iterable[Sequence[int]]) -> list[int]:
        """The positions that are not stored; before `set_live_positions`, which would raise for them."""
        lost = []
        for chunk in positions:
            for position in chunk:
                segment = self._index.find(position)
                if segment is None or segment.slot(position) < 0:
                    lost.append(position)
        return lost

    def roll(self) -> None:
        """Begin another segment, so that the present one can be compacted, too; without a loop, at once."""
        assert self._log.active is not None
        self._pool.watch(self._log.segment_bytes)
        if len(self._log.active):
            self._log.roll()

    def _compact(self) -> None:
        if self._compactor.enabled and self._log.active is not None:
            self._compactor.run(self._log.active, self._snapshots.replay_start)

    # ------------------------------------------------------------------------ committing

    def commit(self, batch: Batch, done: Done) -> None:
        """See `port.Journal.commit`."""
        if self._failure is not None:
            done(JournalFailed(f"the journal takes nothing more since it failed: {self._failure}"))
            return
        self._check(batch)
        try:
            written = self._log.write(batch, self.epoch)
        except NoSpace:
            self._found_no_space(batch, done)
            return
        except JournalFailed as error:
            self._fail(error, done)
            return
        self._in_flight = True
        self._log.sync(written, partial(self._finish, batch, written, done))

    def _check(self, batch: Batch) -> None:
        if self._lock is None or self._in_flight:
            raise ValueError(
                "the journal is not open" if self._lock is None else "a batch is in flight already"
            )
        if batch.count < 1 or batch.first_position != self._next_position:
            raise ValueError(
                f"a batch of {batch.count} records from position {batch.first_position};"
                f" at least one from {self._next_position} is expected"
            )

    def _finish(
        self,
        batch: Batch,
        written: Written,
        done: Done,
        no_space: NoSpace | None,
        error: Exception | None,
    ) -> None:
        """The batch is durable, or lost, or found no space."""
        self._in_flight = False
        if error is not None:
            self._fail(error, done)
            return
        if no_space is not None:
            self._found_no_space(batch, done)
            return
        segment, length = written.segment, written.length
        if not len(segment):
            segment.first_position = batch.first_position
            self._index.add(segment)
        segment.append(batch.first_position, batch.count, length, batch.published)
        self._next_position = segment.next_position
        self._counters["commits"] += 1
        self._counters["records"] += batch.count
        self._counters["bytes_written"] += length
        # Only now: a segment must not be used again because of an acknowledgement that may still be lost.
        if self._index.free(batch.freed):
            self._compact()
            self.wants_snapshot = self.wants_snapshot or self._free_space.short
        self._pool.watch(segment.end)
        done(None)

    def _found_no_space(self, batch: Batch, done: Done) -> None:
        """Write the batch into the reserve, or later."""
        self._free_space.measured(0)  # others took what was measured; it will be measured again
        if self._pool.release_reserve(sum(map(len, batch.parts))):
            self.commit(batch, done)
        else:
            self._postpone(batch, done)

    def _postpone(self, batch: Batch, done: Done) -> None:
        """Keep a batch that found no space. It was not reported as stored, so it can be written later."""
        self._postponed = batch, done
        self._in_flight = True
        self._counters["postponed"] += 1

    # ----------------------------------------------------------------------------- space

    def available_bytes(self) -> int:
        """See `port.Journal.available_bytes`."""
        active = self._log.active
        if active is None or self._postponed is not None:
            return 0
        rest = max(0, active.allocated - active.end)
        pool = self._pool
        largest = max(rest, pool.ready_bytes)
        return self._free_space.left(rest + pool.allocated, largest, starved=pool.starved)

    def tick(self) -> None:
        """Measure the free space, and retry what found none. With a loop, this is done every second."""
        self._monitor.check()

    def _tick(self, free: int | None) -> None:
        if self._log.active is None:
            return
        measured = free or 0
        self._files.keep_spare_descriptors()
        self._free_space.measured(measured)
        self._pool.tick(self._log.active.end, measured)
        self._manage_space(self._log.active)
        if self._postponed is not None:
            (batch, done), self._postponed = self._postponed, None
            self._in_flight = False
            self.commit(batch, done)

    def _manage_space(self, active: Segment) -> None:
        """Reclaim the space of dead records when space is short, and when the log is idle."""
        self.available_bytes()  # updates whether space is short
        short = self._free_space.short
        idle = self._log.is_idle(self._next_position)
        worn = active.end > self._free_space.keep and active.is_mostly_dead()
        if short and worn and not self._in_flight:
            self._log.renew()
        if short != self._compactor.history_yields:
            self._compactor.history_yields = short
            self._compact()
        if (short or idle) and self._compactor.enabled:
            assert self._log.active is not None
            self.wants_snapshot = self._compactor.would_free(self._log.active, self._next_position)

    def _fail(self, error: Exception, done: Done) -> None:
        self._failure = error if isinstance(error, JournalFailed) else JournalFailed(str(error))
        done(self._failure)

    # --------------------------------------------------------------------------- reading

    def read(self, positions: Sequence[int], found: Found) -> None:
        """See `port.Journal.read`. What is small is read at once, as that is faster than asking a thread."""
        self._reader.read(positions, found)

    def measure(self, positions: Sequence[int], max_bytes: int) -> Run:
        """See `port.Journal.measure`."""
        return self._index.measure(positions, max_bytes)

    def span(self) -> Span:
        """See `port.Journal.span`."""
        return Span(self._index.low(self._next_position), self._next_position)

    def read_log(self, position: int, max_bytes: int, found: LogFound) -> None:
        """See `port.Journal.read_log`."""
        self._check_open()
        self._log_reader.read(self.span(), position, max_bytes, found)

    def cursors(self) -> dict[str, CursorState]:
        """See `port.Journal.cursors`."""
        return self._cursors.states(self.span().low)

    def set_cursor(self, name: str, position: int, done: Done) -> None:
        """See `port.Journal.set_cursor`."""
        self._check_open()
        self._cursors.set(name, position, self.span(), done)

    def drop_cursor(self, name: str, done: Done) -> None:
        """See `port.Journal.drop_cursor`."""
        self._check_open()
        self._cursors.drop(name, done)

    def _check_open(self) -> None:
        if self._lock is None:
            raise ValueError("the journal is not open")

    def _kept(self) -> Retention:
        return self._retention._replace(first=self._cursors.first)

    # ------------------------------------------------------------------------- snapshots

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """See `port.Journal.snapshot`."""
        first = self._snapshots.position
        if not first <= position <= self._next_position or not self._starts_batch(position):
            raise ValueError(
                f"position {position} is not the start of a committed batch after the last snapshot"
            )
        self.wants_snapshot = False
        self._snapshots.write(position, parts, done)

    def _starts_batch(self, position: int) -> bool:
        segment = self._index.find(position)
        if segment is None or segment.kind == codec.CARRY:
            return position in (self._next_position, self._snapshots.position)
        return segment.batch_positions[segment.batch_of(position)] == position

    def _background_failed(self, error: Exception) -> None:
        """Background work has failed. The log still holds everything: continue, and report it."""
        self.background_error = error
        self._counters["background_failures"] += 1

    # -------------------------------------------------------------------------- the rest

    def statistics(self) -> dict[str, int]:
        """See `port.Journal.statistics`; sizes in bytes."""
        segments = list(self._index)
        return self._counters | {
            "syncs_inline": self._log.syncs_inline,
            "snapshots": self._snapshots.count,
            "epoch": self.epoch,
            "next_position": self._next_position,
            "first_position": segments[0].first_position if segments else self._next_position,
            "snapshot_position": self._snapshots.position,
            "segments": len(segments),
            "carry_files": sum(segment.kind == codec.CARRY for segment in segments),
            "free_segments": self._pool.reusable,
            "next_segment_ready": int(self._pool.ready),
            "segments_recycled": self._pool.returned,
            "segments_copied": self._compactor.segments_copied,
            "bytes_copied": self._compactor.bytes_copied,
            "live_records": sum(segment.live_count for segment in segments),
            "bytes_stored": sum(segment.end for segment in segments),
            "bytes_on_disk": self._bytes_on_disk(segments),
            "short_of_space": int(self._free_space.short),
            "index_bytes": sum(map(_index_bytes, segments)),
            "batches_loaded": self._reader.loads,
        }

    def _bytes_on_disk(self, segments: Sequence[Segment]) -> int:
        """The size of the files, with allocated but unwritten blocks, without indexes and snapshots."""
        used = sum(max(segment.end, segment.allocated) for segment in segments)
        active = self._log.active
        if active is not None and not len(active):
            used += active.allocated  # it is empty, and not among the segments
        return used + self._pool.allocated + self._pool.reserved

    def close(self) -> None:
        """See `port.Journal.close`."""
        if self._lock is None:
            return
        parts = (
            self._monitor,
            self._compactor,
            self._pool,
            self._snapshots,
            self._log,
            self._log_reader,
            self._cursors,
        )
        for part in parts:
            part.close()
        self._release()
        self._log.active = None

    def _release(self) -> None:
        self._reader.close()
        self._files.release_spare_descriptors()
        for segment in (*self._index, self._log.active):
            if segment is not None:
                _close_file(segment)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _close_file(segment: Segment) -> None:
    if segment.file is not None:
        segment.file.close()
        segment.file = None


def _index_bytes(segment: Segment) -> int:
    arrays: tuple[array[int] | bytearray | None, ...]
    arrays = (segment.batch_positions, segment.batch_offsets, segment.positions, segment.live)
    return sum(
        len(each) * (1 if isinstance(each, bytearray) else each.itemsize)
        for each in arrays
        if each is not None
    )
