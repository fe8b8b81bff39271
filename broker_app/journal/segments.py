"""The journal in segment files: the embedded default.

A directory holds log segments (batches one after the other), carry files (survivors of reclaimed
stretches), snapshots, and spare files waiting to be used again. The loop's thread owns every index
and writes the batches; threads only sync, prepare, copy and write snapshots, and report back.
"""

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event

from broker_app.journal import codec, meta, recovery, snapshots, space
from broker_app.journal.errors import JournalDamaged, JournalError, JournalFailed
from broker_app.journal.files import File, Files
from broker_app.journal.port import FIRST_POSITION, Batch, Done, Recovery, StoredBatch
from broker_app.journal.reader import Reader, load_frame
from broker_app.journal.segment import Catalogue, Segment, index_name
from broker_app.journal.worker import CallSoon, Worker

SEGMENT_BYTES = 64 * 1024 * 1024
SPARE_SEGMENTS = 2
INLINE_SYNC_BYTES = 4 * 1024  # up to here the thread costs more (0.1 ms) than it gives (a free loop)
CACHE_BYTES = 32 * 1024 * 1024
_COPY_PAUSE = 3.0  # copying survivors rests so many times as long as it works
_FILL_PAUSE = 2.0  # filling the next segment likewise: at most a third of the disk's time


class SegmentJournal:
    """See `port.Journal` for the promises.

    `segment_bytes` is where a new segment is begun, not a limit of a batch. `retention_bytes` of log
    are kept although nothing in them is wanted any more. A batch of at most `inline_sync_bytes` is
    synced in the caller's thread (lower latency), a larger one in a thread of its own. `cache_bytes`
    bounds the batches held taken apart for `read`. Without `call_soon_threadsafe` there are no
    threads: everything happens at once in the caller's, `done` included.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        retention_bytes: int = 0,
        inline_sync_bytes: int = INLINE_SYNC_BYTES,
        spare_segments: int = SPARE_SEGMENTS,
        cache_bytes: int = CACHE_BYTES,
        call_soon_threadsafe: CallSoon | None = None,
        files: Files | None = None,
    ) -> None:
        self.epoch = self.tag = self.created_us = 0
        self._files = files or Files(Path(directory))
        self._segment_bytes = segment_bytes
        self._retention_bytes = retention_bytes
        self._inline_sync_bytes = inline_sync_bytes
        self._spare_segments = spare_segments
        self._call_soon = call_soon_threadsafe
        self._reader = Reader(self._files, cache_bytes)
        self._catalogue = Catalogue()
        self._active: Segment | None = None
        self._prepared: Segment | None = None
        self._preparing = False
        self._prepare_from = 0  # byte of the active segment from which on the next one is wanted
        self._free: list[str] = []
        self._sequence = 0
        self._next_position = FIRST_POSITION
        self._snapshot_position = FIRST_POSITION
        self._in_flight = self._snapshotting = self._copying = self._retained = False
        self._failure: JournalFailed | None = None
        self._lock: File | None = None
        self._workers: list[Worker] = []
        self._stopping = Event()
        self._hurry = Event()  # the next segment is wanted sooner than it can be filled
        self._counters = dict.fromkeys(
            ("commits", "records", "bytes_written", "syncs_inline", "segments_recycled", "segments_copied",
             "bytes_copied", "snapshots", "background_failures"), 0
        )  # fmt: skip
        self.background_error: Exception | None = None  # the last failure that the journal lives with

    # -------------------------------------------------------------------------- opening

    def open(self) -> Recovery:
        """See `port.Journal.open`."""
        if self._lock is not None:
            raise ValueError("the journal is open already")
        self._files.create_directory()
        self._lock = meta.lock(self._files)
        try:
            return self._recover()
        except BaseException:
            self._release()
            raise

    def _recover(self) -> Recovery:
        former = meta.read_meta(self._files)
        found = recovery.survey(self._files)
        if former is None and found.segments:
            found.report.append(f"{self._files.directory / meta.META} was missing; the journal has a new tag")
        self._free = recovery.repair(self._files, found, self._segment_bytes, self._spare_segments)
        now = meta.advance(self._files, former, found.epoch, time.time_ns() // 1000)
        self.epoch, self.tag, self.created_us = now.epoch, now.tag, now.created_us
        for segment in found.segments:
            self._catalogue.add(segment)
        self._sequence = found.next_sequence
        self._next_position = found.next_position
        self._snapshot_position = found.snapshot_position
        self._active = found.last or self._first_segment()
        self._prepare_from = self._segment_bytes // 4
        self._syncer, self._preparer, self._copier = (
            Worker(f"journal-{work}", self._call_soon) for work in ("sync", "prepare", "copy")
        )
        self._workers = [self._syncer, self._preparer, self._copier]
        return Recovery(found.snapshot, found.snapshot_position, found.next_position, found.report)

    def _first_segment(self) -> Segment:
        # Reserved, not filled with zeros: a broker that just starts should not have to wait for that.
        return space.prepare_log(self._files, None, self._draw_sequence(), self._segment_bytes, None)

    def _draw_sequence(self) -> int:
        self._sequence += 1
        return self._sequence - 1

    def replay(self) -> Iterator[StoredBatch]:
        """See `port.Journal.replay`."""
        for segment in list(self._catalogue):
            if segment.kind == codec.LOG and segment.next_position > self._snapshot_position:
                yield from self._replay_segment(segment)

    def _replay_segment(self, segment: Segment) -> Iterator[StoredBatch]:
        file = self._reader.file(segment)
        for number in range(len(segment.batch_positions)):
            if segment.batch_positions[number] < self._snapshot_position:
                continue
            frame, content = load_frame(file, segment, number)
            yield StoredBatch(
                frame.first_position,
                frame.time_us,
                frame.epoch,
                codec.decode_table(content[codec.FRAME_HEADER_BYTES : frame.records_at]),
                frame.count,
                content[frame.records_at :],
            )

    def retain(self, positions: Iterable[Sequence[int]]) -> None:
        """See `port.Journal.retain`."""
        for chunk in positions:
            lost = self._catalogue.mark(chunk)
            if lost is not None:
                raise JournalDamaged(
                    f"{self._files.directory}: the record at position {lost} is wanted but stored nowhere;"
                    " `mom journal verify` says what is lost"
                )
        self._retained = True
        self._reclaim()

    # ------------------------------------------------------------------------ committing

    def commit(self, batch: Batch, done: Done) -> None:
        """See `port.Journal.commit`."""
        if self._failure is not None:
            done(JournalFailed(f"the journal takes nothing more since it failed: {self._failure}"))
            return
        self._check(batch)
        try:
            segment, length = self._write(batch)
        except JournalFailed as error:
            self._fail(error, done)
            return
        assert segment.file is not None
        self._in_flight = True
        finish = partial(self._finish, batch, segment, length, done)
        if length <= self._inline_sync_bytes:
            self._counters["syncs_inline"] += 1
            try:
                segment.file.sync()
            except JournalFailed as error:
                finish(None, error)
            else:
                finish(None, None)
        else:
            self._syncer.submit(segment.file.sync, finish)

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

    def _write(self, batch: Batch) -> tuple[Segment, int]:
        """The segment written to and the bytes written. Raises JournalFailed."""
        table = codec.encode_table(batch.destinations)
        room = self._segment_bytes - codec.FRAME_HEADER_BYTES - len(table) - sum(map(len, batch.parts))
        segment = self._segment_with(room)
        assert segment.file is not None
        pieces = codec.encode_frame(
            segment_id=segment.segment_id,
            epoch=self.epoch,
            first_position=batch.first_position,
            time_us=batch.time_us,
            count=batch.count,
            table=table,
            parts=batch.parts,
        )
        segment.file.write(pieces, segment.end)
        return segment, len(pieces[0]) + len(pieces[1])

    def _segment_with(self, room: int) -> Segment:
        """The active segment if it ends before byte `room`, else the next one, if that is ready.

        If it is not, the active one grows beyond its size: slower syncs are better than waiting.
        """
        assert self._active is not None
        if self._active.end > room and len(self._active) and self._prepared is not None:
            closed, self._active, self._prepared = self._active, self._prepared, None
            self._reader.adopt(closed)
            self._prepare_from = self._segment_bytes // 4
            self._preparer.submit(partial(_close_segment, self._files, closed), self._background_done)
        return self._active

    def _finish(
        self, batch: Batch, segment: Segment, length: int, done: Done, _: None, error: Exception | None
    ) -> None:
        """The batch is durable, or lost."""
        self._in_flight = False
        if error is not None:
            self._fail(error, done)
            return
        if not len(segment):
            segment.first_position = batch.first_position
            self._catalogue.add(segment)
        segment.append(batch.first_position, batch.count, length, batch.published)
        self._next_position = segment.next_position
        self._counters["commits"] += 1
        self._counters["records"] += batch.count
        self._counters["bytes_written"] += length
        # Only now: a segment must not be used again because of an acknowledgement that may still be lost.
        if self._catalogue.free(batch.freed):
            self._reclaim()
        if segment.end >= self._prepare_from:
            self._prepare_next()
        if self._preparing and segment.end * 4 >= self._segment_bytes * 3:
            self._hurry.set()
        done(None)

    def _fail(self, error: Exception, done: Done) -> None:
        self._failure = error if isinstance(error, JournalFailed) else JournalFailed(str(error))
        done(self._failure)

    # --------------------------------------------------------------------------- reading

    def read(self, positions: Sequence[int]) -> list[bytes]:
        """See `port.Journal.read`."""
        return self._reader.read(self._catalogue, positions)

    # ------------------------------------------------------------------------- snapshots

    def snapshot(self, position: int, blob: bytes, done: Done) -> None:
        """See `port.Journal.snapshot`."""
        if self._snapshotting:
            raise ValueError("a snapshot is under way already")
        if not self._snapshot_position <= position <= self._next_position or not self._starts_batch(position):
            raise ValueError(
                f"position {position} is not the start of a committed batch after the last snapshot"
            )
        self._snapshotting = True
        self._copier.submit(
            partial(snapshots.write_snapshot, self._files, position, blob),
            partial(self._snapshot_done, position, done),
        )

    def _starts_batch(self, position: int) -> bool:
        segment = self._catalogue.find(position)
        if segment is None or segment.kind == codec.CARRY:
            return position in (self._next_position, self._snapshot_position)
        return segment.batch_positions[segment.batch_of(position)] == position

    def _snapshot_done(self, position: int, done: Done, _: list[int] | None, error: Exception | None) -> None:
        self._snapshotting = False
        if error is None:
            self._snapshot_position = position
            self._counters["snapshots"] += 1
            self._reclaim()
        else:
            self._background_done(None, error)
        done(error)

    # ----------------------------------------------------------------------------- space

    def _prepare_next(self) -> None:
        if self._prepared is not None or self._preparing or self._lock is None:
            return
        self._preparing = True
        free = self._free.pop() if self._free else None
        self._hurry.clear()
        job = partial(
            space.prepare_log,
            self._files,
            free,
            self._draw_sequence(),
            self._segment_bytes,
            self._pause_filling,
        )
        self._preparer.submit(job, self._prepare_done)

    def _prepare_done(self, segment: Segment | None, error: Exception | None) -> None:
        self._preparing = False
        if segment is None:
            self._background_done(None, error)
            assert self._active is not None
            self._prepare_from = self._active.end + self._segment_bytes // 4  # try again, but not at once
        elif self._lock is None:  # closed meanwhile
            _close_file(segment)
        else:
            self._prepared = segment

    def _reclaim(self) -> None:
        """Free what is dead, start copying what is mostly dead; looks at segments, not at positions."""
        if not self._retained or self._lock is None or self._active is None:
            return
        segments = list(self._catalogue)
        settled = space.settled(segments, self._active, self._snapshot_position, self._retention_bytes)
        for segment in settled:
            if segment.live_count == 0 and not segment.busy:
                self._give_up(segment)
        if not self._copying:
            self._copy_survivors([segment for segment in settled if segment.live_count])

    def _give_up(self, segment: Segment) -> None:
        self._catalogue.remove(segment)
        self._reader.forget(segment)
        self._counters["segments_recycled"] += 1
        fits = segment.kind == codec.LOG and segment.end <= self._segment_bytes
        keep = fits and len(self._free) < self._spare_segments
        job = partial(_release_segment, self._files, segment, keep)
        self._preparer.submit(job, self._released)

    def _released(self, free: str | None, error: Exception | None) -> None:
        if free is not None:
            self._free.append(free)
        self._background_done(None, error)

    def _copy_survivors(self, settled: Sequence[Segment]) -> None:
        sources = space.choose_sources(list(self._catalogue), settled, self._segment_bytes)
        if not sources:
            return
        self._copying = True
        for segment in sources:
            segment.busy = True
        taken = [space.Source(segment, bytes(segment.live)) for segment in sources]
        carrying = space.Carrying(self._files, taken, self._draw_sequence(), self._pause_copying)
        self._copier.submit(carrying.run, partial(self._copied, sources))

    def _pause_filling(self, worked: float) -> bool:
        """In the preparing thread: leave the disk to the commits; False if there is no time for that."""
        return self._call_soon is not None and not self._hurry.wait(worked * _FILL_PAUSE)

    def _pause_copying(self, worked: float) -> None:
        """In the copying thread: leave the processor and the disk to the loop."""
        if self._call_soon is not None and self._stopping.wait(worked * _COPY_PAUSE):
            raise JournalError("copying was given up because the journal is being closed")

    def _copied(self, sources: Sequence[Segment], carry: Segment | None, error: Exception | None) -> None:
        self._copying = False
        for segment in sources:
            segment.busy = False
        self._background_done(None, error)
        if error is not None or self._lock is None:
            return
        if carry is None:
            for segment in sources:
                segment.spared = segment.live_count
        else:
            space.take_over(carry, sources)
            for segment in sources:
                self._give_up(segment)
            self._catalogue.add(carry)
            self._counters["segments_copied"] += len(sources)
            self._counters["bytes_copied"] += carry.end
        self._reclaim()

    def _background_done(self, _: object, error: Exception | None) -> None:
        """Work nobody waits for is done. If it failed, the log still holds everything: go on, but tell."""
        if error is not None:
            self.background_error = error
            self._counters["background_failures"] += 1

    # -------------------------------------------------------------------- the rest

    def statistics(self) -> dict[str, int]:
        """See `port.Journal.statistics`; sizes in bytes."""
        segments = list(self._catalogue)
        return self._counters | {
            "epoch": self.epoch,
            "next_position": self._next_position,
            "first_position": segments[0].first_position if segments else self._next_position,
            "snapshot_position": self._snapshot_position,
            "segments": len(segments),
            "carry_files": sum(segment.kind == codec.CARRY for segment in segments),
            "free_segments": len(self._free),
            "live_records": sum(segment.live_count for segment in segments),
            "bytes_stored": sum(segment.end for segment in segments),
            "index_bytes": sum(map(_index_bytes, segments)),
            "batches_loaded": self._reader.loads,
        }

    def close(self) -> None:
        """See `port.Journal.close`."""
        if self._lock is None:
            return
        self._stopping.set()
        self._hurry.set()
        for worker in self._workers:
            worker.close()
        self._release()

    def _release(self) -> None:
        self._reader.close()
        for segment in (*self._catalogue, self._active, self._prepared):
            if segment is not None:
                _close_file(segment)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _close_segment(files: Files, segment: Segment) -> None:
    """A segment that is written to its end gets its index file."""
    files.replace(index_name(segment.name), segment.encode_index())


def _release_segment(files: Files, segment: Segment, keep: bool) -> str | None:
    """Keep the file for another use (its name is returned) or delete it."""
    if keep:
        return recovery.set_free(files, segment.name)
    files.remove(segment.name)
    files.remove(index_name(segment.name))
    return None


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
