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

from broker_app.journal import codec, meta, recovery, snapshots
from broker_app.journal.compaction import Compactor
from broker_app.journal.errors import JournalDamaged, JournalFailed, NoSpace, ways_out
from broker_app.journal.files import File, Files
from broker_app.journal.free_space import FreeSpace, Watch
from broker_app.journal.port import FIRST_POSITION, Batch, Damaged, Done, Recovery, StoredBatch
from broker_app.journal.reader import Reader, load_frame
from broker_app.journal.segment import Segment, SegmentIndex
from broker_app.journal.segment_pool import SegmentPool
from broker_app.journal.worker import CallSoon, Worker

SEGMENT_BYTES = 16 * 1024 * 1024
SPARE_SEGMENTS = 4  # as much as a snapshot lets go at once under load
INLINE_SYNC_BYTES = 4 * 1024  # up to here the thread costs more (0.1 ms) than it gives (a free loop)
CACHE_BYTES = 32 * 1024 * 1024


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
        self._inline_sync_bytes = inline_sync_bytes
        self._spare_segments = spare_segments
        self._reader = Reader(self._files, cache_bytes)
        self._catalogue = SegmentIndex()
        self._syncer = Worker("journal-sync", call_soon_threadsafe)
        self._snapshotter = Worker("journal-snapshot", call_soon_threadsafe)
        self._room = FreeSpace(segment_bytes // 2)
        self._supply = SegmentPool(
            self._files,
            segment_bytes,
            spare_segments,
            call_soon_threadsafe,
            taken=self._room.take,
            failed=self._background_failed,
        )
        self._reclaimer = Compactor(
            self._files,
            self._catalogue,
            self._reader,
            self._supply,
            segment_bytes=segment_bytes,
            retention_bytes=retention_bytes,
            call_soon_threadsafe=call_soon_threadsafe,
            failed=self._background_failed,
        )
        self._watch = Watch(self._files, call_soon_threadsafe, self._tick)
        self._active: Segment | None = None
        self._next_position = FIRST_POSITION
        self._snapshot_position = FIRST_POSITION
        self._horizon = FIRST_POSITION  # no replay reads before it, even if the newest snapshot is damaged
        self._in_flight = self._snapshotting = self._retained = False
        self._failure: JournalFailed | None = None
        self._idle_from = FIRST_POSITION  # where the log ended a tick ago
        self.wants_snapshot = False
        self._postponed: tuple[Batch, Done] | None = None  # it found no space
        self._lock: File | None = None
        self._counters = dict.fromkeys(
            (
                "commits",
                "records",
                "bytes_written",
                "syncs_inline",
                "snapshots",
                "background_failures",
                "postponed",
            ),
            0,
        )
        self.background_error: Exception | None = None  # the last failure that the journal lives with

    # -------------------------------------------------------------------------- opening

    def open(self) -> Recovery:
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

    def _recover(self) -> Recovery:
        former = meta.read_meta(self._files)
        found = recovery.survey(self._files)
        if former is None and found.segments:
            found.report.append(f"{self._files.directory / meta.META} was missing; the journal has a new tag")
        if former is not None:
            recovery.note_what_may_be_cut(self._files, found, former.segment_bytes)
        exempt = recovery.repair(self._files, found, self._spare_segments)
        self._supply.stock(exempt, found.next_sequence)
        now = self._advance(former, found.epoch)
        if found.last is not None:
            recovery.allocate(found.last, self._segment_bytes)
        self._active = found.last or self._supply.first()
        self.epoch, self.tag, self.created_us = now.epoch, now.tag, now.created_us
        self._next_position = found.next_position
        self._snapshot_position, self._horizon = found.snapshot_position, found.horizon
        for segment in found.segments:
            self._catalogue.add(segment)
        self._watch.start()
        return Recovery(found.snapshot, found.snapshot_position, found.next_position, found.report)

    def _advance(self, former: meta.Meta | None, epoch_seen: int) -> meta.Meta:
        while True:
            try:
                now_us = time.time_ns() // 1000
                return meta.advance(
                    self._files, former, epoch_seen, now_us, segment_bytes=self._segment_bytes
                )
            except NoSpace:
                if not self._supply.give_way(self._segment_bytes):
                    raise

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
                    f" {ways_out(self._files.directory)}"
                )
        self._retained = True
        self._reclaim()

    def missing(self, positions: Iterable[Sequence[int]]) -> list[int]:
        """Those of the positions that are stored nowhere; before `retain`, which would raise for them."""
        lost = []
        for chunk in positions:
            for position in chunk:
                segment = self._catalogue.find(position)
                if segment is None or segment.slot(position) < 0:
                    lost.append(position)
        return lost

    def roll(self) -> None:
        """Begin another segment, so that the present one may be reclaimed too; without a loop, at once."""
        assert self._active is not None
        self._supply.watch(self._segment_bytes)
        if len(self._active):
            self._roll()

    def _reclaim(self) -> None:
        if self._retained and self._active is not None:
            self._reclaimer.run(self._active, self._horizon)

    # ------------------------------------------------------------------------ committing

    def commit(self, batch: Batch, done: Done) -> None:
        """See `port.Journal.commit`."""
        if self._failure is not None:
            done(JournalFailed(f"the journal takes nothing more since it failed: {self._failure}"))
            return
        self._check(batch)
        try:
            segment, length = self._write(batch)
        except NoSpace:
            self._room.measured(0)  # others took what was measured; it will be measured again
            if self._supply.give_way(sum(map(len, batch.parts))):
                self.commit(batch, done)
            else:
                self._postpone(batch, done)
            return
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
        length = len(pieces[0]) + len(pieces[1])
        if segment.end + length > segment.allocated:
            self._grow(segment, segment.end + length)
        segment.file.write(pieces, segment.end)
        return segment, length

    def _grow(self, segment: Segment, end: int) -> None:
        """Have blocks up to byte `end`, before anything is written there. Raises NoSpace."""
        assert segment.file is not None
        size = end + self._segment_bytes // 16
        while True:
            try:
                segment.file.reserve(size)
            except NoSpace:
                if size == end:
                    raise
                size = end  # what is needed, then
            else:
                self._room.take(size - segment.allocated)
                segment.allocated = size
                return

    def _segment_with(self, room: int) -> Segment:
        """The active segment if it ends before byte `room`, else the next one, if that is ready.

        If it is not, the active one grows beyond its size: slower syncs are better than waiting.
        """
        assert self._active is not None
        full = self._active.end > room and len(self._active) > 0
        if full:
            self._roll()
        return self._active

    def _roll(self) -> None:
        """Go on in the next segment, if it is ready."""
        assert self._active is not None
        if (following := self._supply.take()) is not None:
            self._reader.adopt(self._active)
            self._supply.write_index(self._active)
            self._active = following

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
            self.wants_snapshot = self.wants_snapshot or self._room.short
        self._supply.watch(segment.end)
        done(None)

    def _postpone(self, batch: Batch, done: Done) -> None:
        """Keep a batch that found no space. Nobody was told of it: it can as well be written later."""
        self._postponed = batch, done
        self._in_flight = True
        self._counters["postponed"] += 1

    # ----------------------------------------------------------------------------- space

    def room(self) -> int:
        """See `port.Journal.room`."""
        active = self._active
        if active is None or self._postponed is not None:
            return 0
        rest = max(0, active.allocated - active.end)
        supply = self._supply
        largest = max(rest, supply.ready_bytes)
        return self._room.left(rest + supply.allocated, largest, starved=supply.starved)

    def tick(self) -> None:
        """Look how much space there is, and try again what found none. With a loop, every second does."""
        self._watch.look()

    def _tick(self, free: int | None) -> None:
        if self._active is None:
            return
        measured = free or 0
        self._files.keep_spare_descriptors()
        self._room.measured(measured)
        self._supply.tick(self._active.end, measured)
        self._see_to_space()
        if self._postponed is not None:
            (batch, done), self._postponed = self._postponed, None
            self._in_flight = False
            self.commit(batch, done)

    def _see_to_space(self) -> None:
        """What the log holds in vain is given up when space is short, and when there is time."""
        assert self._active is not None
        self.room()  # it finds out whether space is short
        short = self._room.short
        idle, self._idle_from = self._idle_from == self._next_position, self._next_position
        worn = self._active.end > self._room.keep and self._active.is_mostly_dead()
        if short and worn and not self._in_flight:
            self._renew()
        if short != self._reclaimer.history_yields:
            self._reclaimer.history_yields = short
            self._reclaim()
        if (short or idle) and self._retained:
            self.wants_snapshot = self._reclaimer.would_free(self._active, self._next_position)

    def _renew(self) -> None:
        """Go on in another segment, because most of the present one could be given back."""
        if self._supply.ready:
            self._roll()
        else:
            self._supply.make_do()

    def _fail(self, error: Exception, done: Done) -> None:
        self._failure = error if isinstance(error, JournalFailed) else JournalFailed(str(error))
        done(self._failure)

    # --------------------------------------------------------------------------- reading

    def read(self, positions: Sequence[int]) -> list[bytes | Damaged]:
        """See `port.Journal.read`."""
        return self._reader.read(self._catalogue, positions)

    # ------------------------------------------------------------------------- snapshots

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """See `port.Journal.snapshot`."""
        if self._snapshotting:
            raise ValueError("a snapshot is under way already")
        if not self._snapshot_position <= position <= self._next_position or not self._starts_batch(position):
            raise ValueError(
                f"position {position} is not the start of a committed batch after the last snapshot"
            )
        self._snapshotting = True
        self.wants_snapshot = False
        self._write_snapshot(position, parts, done)

    def _write_snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        self._snapshotter.submit(
            partial(snapshots.write_snapshot, self._files, position, parts),
            partial(self._snapshot_done, position, parts, done),
        )

    def _starts_batch(self, position: int) -> bool:
        segment = self._catalogue.find(position)
        if segment is None or segment.kind == codec.CARRY:
            return position in (self._next_position, self._snapshot_position)
        return segment.batch_positions[segment.batch_of(position)] == position

    def _snapshot_done(
        self, position: int, parts: Sequence[bytes], done: Done, horizon: int | None, error: Exception | None
    ) -> None:
        needed = 2 * sum(map(len, parts))
        if isinstance(error, NoSpace) and self._lock is not None and self._supply.give_way(needed):
            self._write_snapshot(position, parts, done)
            return
        self._snapshotting = False
        if horizon is not None:
            self._snapshot_position, self._horizon = position, horizon
            self._counters["snapshots"] += 1
            self._reclaim()
        elif error is not None:
            self._background_failed(error)
        done(error)

    def _background_failed(self, error: Exception) -> None:
        """Work that no batch waits for has failed. The log still holds everything: go on, but tell."""
        self.background_error = error
        self._counters["background_failures"] += 1

    # -------------------------------------------------------------------------- the rest

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
            "free_segments": self._supply.exempt,
            "next_segment_ready": int(self._supply.ready),
            "segments_recycled": self._supply.returned,
            "segments_copied": self._reclaimer.segments_copied,
            "bytes_copied": self._reclaimer.bytes_copied,
            "live_records": sum(segment.live_count for segment in segments),
            "bytes_stored": sum(segment.end for segment in segments),
            "bytes_on_disk": self._bytes_on_disk(segments),
            "short_of_space": int(self._room.short),
            "index_bytes": sum(map(_index_bytes, segments)),
            "batches_loaded": self._reader.loads,
        }

    def _bytes_on_disk(self, segments: Sequence[Segment]) -> int:
        """What the files take, with what is allocated and not written yet; but for indexes and snapshots."""
        used = sum(max(segment.end, segment.allocated) for segment in segments)
        if self._active is not None and not len(self._active):
            used += self._active.allocated  # nothing in it yet: not among the segments
        return used + self._supply.allocated + self._supply.reserved

    def close(self) -> None:
        """See `port.Journal.close`."""
        if self._lock is None:
            return
        for part in (self._watch, self._reclaimer, self._supply, self._snapshotter, self._syncer):
            part.close()
        self._release()
        self._active = None

    def _release(self) -> None:
        self._reader.close()
        self._files.release_spare_descriptors()
        for segment in (*self._catalogue, self._active):
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
