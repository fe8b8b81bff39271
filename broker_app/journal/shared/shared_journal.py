"""The journal in a shared store: a database that keeps the log, and grants it to one broker at a time.

The loop's thread owns every index. Threads commit, read, copy, write snapshots and renew the lease, each with
a connection of its own, and report back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Event
from typing import NamedTuple

from broker_app.journal import codec
from broker_app.journal.copy_mark import mark_in_store, refuse_incomplete
from broker_app.journal.errors import JournalDamaged, JournalFailed
from broker_app.journal.log import log_reader
from broker_app.journal.log.cursors import KEPT_BYTES, KEPT_S, Cursors, NoteDocument
from broker_app.journal.log.frame_loader import APART_BYTES, BodyAt
from broker_app.journal.log.retention import NOTHING_KEPT, Retention
from broker_app.journal.log.segment import Segment, SegmentIndex
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
from broker_app.journal.shared.frame_reader import FrameReader
from broker_app.journal.shared.lease import LeaseKeeper, seconds
from broker_app.journal.shared.paired_store import PairedStore
from broker_app.journal.shared.private_journal import PrivateStatus
from broker_app.journal.shared.shared_space import SharedSpace
from broker_app.journal.shared.upkeep import Upkeep
from broker_app.journal.store import Fenced, Holder, Store, StoredRow, StoreFull, Unreachable
from broker_app.journal.worker import CallSoon, Worker

log = logging.getLogger(__name__)

SEGMENT_BYTES = 16 * 1024 * 1024
CACHE_BYTES = 32 * 1024 * 1024
LEASE_S = 3.0
#: the longest delay between attempts to reach the store
_RETRY_S = 0.25


class _Stored(NamedTuple):
    """The length of a frame that was stored, and the frame unless it is large."""

    length: int
    frame: bytes | None


class SharedJournal:
    """See `port.Journal` for the promises.

    Space is reclaimed in units of `segment_bytes`; `retention_bytes` of log are kept although nothing in them
    is wanted any more, and up to `cursor_bytes` from the smallest cursor on that was reported in the last
    `cursor_s`. Without `call_soon_threadsafe` there are no threads: everything happens at once in
    the caller's, `done` included, and the lease is not renewed. `private` is the store of a private journal,
    which becomes a copy of this one. `body_at` is for large bodies (`FrameReader`).
    """

    def __init__(
        self,
        store: Store,
        holder: Holder,
        *,
        lease_s: float = LEASE_S,
        segment_bytes: int = SEGMENT_BYTES,
        retention_bytes: int = 0,
        cursor_bytes: int = KEPT_BYTES,
        cursor_s: float = KEPT_S,
        cache_bytes: int = CACHE_BYTES,
        call_soon_threadsafe: CallSoon | None = None,
        private: Store | None = None,
        body_at: BodyAt | None = None,
    ) -> None:
        self._pair = PairedStore(store, private) if private is not None else None
        store = self._pair or store
        self.epoch = self.tag = self.created_us = 0
        self.wants_snapshot = False
        self._store = store
        self._holder = holder
        self._lease_s = lease_s
        self._segment_bytes = segment_bytes
        self._renews = call_soon_threadsafe is not None
        self._index = SegmentIndex()
        self._reader = FrameReader(store, self._index, cache_bytes, call_soon_threadsafe, body_at)
        self._log_reader = log_reader.of_store(store, self._index, call_soon_threadsafe)
        self._committer = Worker("journal-commit", call_soon_threadsafe)
        self._keeper = LeaseKeeper(store, lease_s, self._lease_lost)
        self._call_soon = call_soon_threadsafe
        self._cursors = Cursors(
            NoteDocument(store), call_soon_threadsafe, kept_s=cursor_s, moved=self._reclaim
        )
        self._retention = Retention(retention_bytes, cursor_bytes)
        self._upkeep = Upkeep(
            store,
            self._index,
            self._reader,
            segment_bytes=segment_bytes,
            retention=self._kept,
            draw_sequence=self._draw_sequence,
            call_soon_threadsafe=call_soon_threadsafe,
        )
        self._active: Segment | None = None
        self._sequence = 0
        self._next_position = FIRST_POSITION
        self._replay_from = FIRST_POSITION
        self._failure: JournalFailed | None = None
        self._on_failure: Callable[[JournalFailed], None] = _ignore
        self._closing = Event()
        # A takeover of a directory copies a segment.
        keep = segment_bytes + segment_bytes // 2
        self._space = SharedSpace(store, keep, call_soon_threadsafe, self._reclaim)
        self._counters = dict.fromkeys(("commits", "records", "bytes_written"), 0)

    # -------------------------------------------------------------------------- opening

    def open(self, *, force: bool = False) -> OpenResult:
        """See `port.Journal.open`; raises LeaseHeld while another broker holds the lease, unless `force`d."""
        return self._take(force=force, warm=None)

    def take_over(self, position: int, *, force: bool = False) -> OpenResult:
        """Open for a standby that has applied every batch before `position`: replay begins there, and the
        snapshot is not returned. `force` takes the lease from its holder. Raises LeaseHeld."""
        return self._take(force=force, warm=position)

    def _take(self, *, force: bool, warm: int | None) -> OpenResult:
        if self._active is not None:
            raise ValueError("the journal is open already")
        asked_at = seconds()
        grant = self._store.acquire(self._holder, self._lease_s, force=force)
        self.epoch, self.tag, self.created_us = grant
        if self._renews:
            self._keeper.start(asked_at)
        try:
            opened = self._recover(warm)
        except BaseException:
            self.close()
            raise
        self._space.start()
        return opened

    def _recover(self, warm: int | None) -> OpenResult:
        refuse_incomplete(mark_in_store(self._store), self._store.description)
        for segment in segments_of(self._store.rows()):
            self._index.add(segment)
            self._sequence = max(self._sequence, segment.sequence)
            self._next_position = max(self._next_position, segment.next_position)
        self._active = self._new_segment()
        report = self._cursors.recover()
        if warm is None:
            opened = self.rewind()
            opened.report.extend(report)
            return opened
        self._replay_from = warm
        self._begin_behind(self._store.snapshot_position() or FIRST_POSITION)
        return OpenResult(None, warm, self._next_position, report)

    def rewind(self) -> OpenResult:
        """Have replay begin at the newest snapshot, which is returned, for a standby that has taken over and
        whose state the log does not continue. The lease is kept. Assumes: nothing was committed yet."""
        snapshot = self._store.snapshot()
        position, content = snapshot if snapshot is not None else (FIRST_POSITION, None)
        self._replay_from = position
        self._begin_behind(position)
        return OpenResult(content, position, self._next_position)

    def _begin_behind(self, snapshot_position: int) -> None:
        self._upkeep.position = snapshot_position
        self._next_position = max(self._next_position, snapshot_position)

    def replay(self) -> Iterator[StoredBatch]:
        """See `port.Journal.replay`."""
        expected = self._replay_from
        for content in self._store.frames(expected):
            batch = stored_batch(content)
            if batch is None or batch.first_position != expected:
                raise missing_batch(self._store, expected)
            expected += batch.count
            yield batch
        if expected < self._next_position:
            raise missing_batch(self._store, expected)

    def set_live_positions(self, positions: Iterable[Sequence[int]]) -> None:
        """See `port.Journal.set_live_positions`."""
        for chunk in positions:
            missing = self._index.mark(chunk)
            if missing is not None:
                raise JournalDamaged(
                    f"{self._store.description}: the record at position {missing} is wanted, not stored"
                )
        self._upkeep.enabled = True
        self._upkeep.run()

    def on_lease_lost(self, failed: Callable[[JournalFailed], None]) -> None:
        """Call `failed`, in the loop, when another broker has taken over, or the store could not be reached
        while the lease lasted; also if that has happened already."""
        self._on_failure = failed
        if self._failure is not None:
            failed(self._failure)

    def put_note(self, key: str, content: bytes) -> None:
        """Write a note that only the active broker writes. Blocks. Raises Fenced and Unreachable."""
        self._store.put_holder_note(key, content)

    def note(self, key: str) -> bytes | None:
        """A note as it was written last; None if there is none. Blocks. Raises Unreachable."""
        found = self._store.notes(key).get(key)
        return found.content if found is not None else None

    @property
    def lease_left_s(self) -> float:
        """Seconds for which the lease is certainly held."""
        return self._keeper.left_s

    @property
    def private(self) -> PrivateStatus | None:
        """The state of the private journal; None without one."""
        return self._pair.status if self._pair is not None else None

    def _lease_lost(self, error: JournalFailed) -> None:
        """In the lease's thread: nothing more may be served."""
        assert self._call_soon is not None
        self._call_soon(self._fail, error)

    def _fail(self, error: JournalFailed) -> None:
        self._failure = self._failure or error
        self._on_failure(error)

    # ------------------------------------------------------------------------ committing

    def commit(self, batch: Batch, done: Done) -> None:
        """See `port.Journal.commit`. A batch waits while the store is unreachable and the lease lasts."""
        if self._failure is not None:
            done(JournalFailed(f"the journal takes nothing more since it failed: {self._failure}"))
            return
        if self._active is None:
            raise ValueError("the journal is not open")
        if batch.count < 1 or batch.first_position != self._next_position:
            raise ValueError(
                f"a batch from {self._next_position} is expected, not from {batch.first_position}"
            )
        if self._active.end >= self._segment_bytes:
            self._active = self._new_segment()
        segment = self._active
        self._next_position += batch.count
        self._committer.submit(
            partial(self._append, segment.sequence, batch), partial(self._appended, segment, batch, done)
        )

    def _append(self, segment: int, batch: Batch) -> _Stored:
        """In the committer's thread: store a batch, however often that has to be tried."""
        frame = self._frame(segment, batch)
        first_position, count = batch.first_position, batch.count
        delay_s = 0.01
        while True:
            try:
                self._store.append(segment, first_position, count, frame)
                self._space.stored()
                return _Stored(len(frame), frame if len(frame) <= APART_BYTES else None)
            except Fenced as error:
                # A broker that was paused ends because its lease has expired, and not because of this.
                log.error("%d records from position %d on were not stored: %s", count, first_position, error)
                raise
            except (StoreFull, Unreachable) as error:
                if isinstance(error, StoreFull):
                    self._space.refused(error)
                if self._keeper.left_s <= 0 or self._closing.wait(delay_s):
                    raise JournalFailed(
                        f"a batch could not be stored while the lease lasted: {error}"
                    ) from error
                delay_s = min(2 * delay_s, _RETRY_S)

    def _frame(self, segment: int, batch: Batch) -> bytes:
        return b"".join(
            codec.encode_frame(
                segment_id=segment,
                epoch=self.epoch,
                first_position=batch.first_position,
                time_us=batch.time_us,
                count=batch.count,
                table=codec.encode_table(batch.destinations),
                parts=batch.parts,
                is_large=sum(map(len, batch.parts)) > APART_BYTES,
            )
        )

    def _appended(
        self, segment: Segment, batch: Batch, done: Done, stored: _Stored | None, error: Exception | None
    ) -> None:
        if stored is None:
            self._failure = error if isinstance(error, JournalFailed) else JournalFailed(str(error))
            done(self._failure)
            return
        if not len(segment):
            segment.first_position = batch.first_position
            self._index.add(segment)
        segment.append(batch.first_position, batch.count, stored.length, batch.published)
        self._upkeep.active = segment
        if batch.published and stored.frame is not None:
            self._reader.add(segment, batch.first_position, stored.frame)
        self._counters["commits"] += 1
        self._counters["records"] += batch.count
        self._counters["bytes_written"] += stored.length
        self._space.take(stored.length)
        if self._index.free(batch.freed):
            self._upkeep.run()
            self.wants_snapshot = self._upkeep.would_free(self._next_position)
        done(None)

    def available_bytes(self) -> int:
        """See `port.Journal.available_bytes`."""
        return 0 if self._active is None else self._space.available_bytes()

    # --------------------------------------------------------------- reading and the rest

    @property
    def is_held(self) -> bool:
        """See `port.Journal.is_held`."""
        return not self._renews or self._keeper.left_s > 0

    @property
    def background_error(self) -> Exception | None:
        """The last failure that the journal lives with."""
        return self._upkeep.error

    def read(self, positions: Sequence[int], found: Found) -> None:
        """See `port.Journal.read`."""
        self._reader.read(positions, found)

    def measure(self, positions: Sequence[int], max_bytes: int) -> Run:
        """See `port.Journal.measure`."""
        return self._index.measure(positions, max_bytes)

    def span(self) -> Span:
        """See `port.Journal.span`."""
        # `_next_position` counts the batch that is being stored, too.
        end = max(self._index.end, self._upkeep.position)
        return Span(self._index.low(end), end)

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
        if self._active is None:
            raise ValueError("the journal is not open")

    def _kept(self) -> Retention:
        return NOTHING_KEPT if self._space.is_short else self._retention._replace(first=self._cursors.first)

    def _reclaim(self) -> None:
        """Less of the log has to be kept: a cursor has moved, or the store is short of space."""
        self._upkeep.run()

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """See `port.Journal.snapshot`."""
        if not self._upkeep.position <= position <= self._next_position or not self._starts_batch(position):
            raise ValueError(
                f"position {position} is not the start of a committed batch after the last snapshot"
            )
        self.wants_snapshot = False
        self._upkeep.snapshot(position, parts, done)

    def _starts_batch(self, position: int) -> bool:
        segment = self._index.find(position)
        if segment is None or segment.kind == codec.CARRY:
            return position in (self._next_position, self._upkeep.position)
        return segment.batch_positions[segment.batch_of(position)] == position

    def statistics(self) -> dict[str, int]:
        """See `port.Journal.statistics`; sizes in bytes."""
        segments = list(self._index)
        stored = sum(segment.end for segment in segments)
        return {
            **self._counters,
            **self._upkeep.counters,
            **self._store.statistics(),
            "epoch": self.epoch,
            "next_position": self._next_position,
            "first_position": segments[0].first_position if segments else self._next_position,
            "snapshot_position": self._upkeep.position,
            "segments": len(segments),
            "live_records": sum(segment.live_count for segment in segments),
            "bytes_stored": stored,
            "bytes_on_disk": stored,
            "short_of_space": int(self._space.is_short),
            **({} if self._space.free is None else {"bytes_free": self._space.free}),
            "batches_loaded": self._reader.loads,
        }

    def close(self) -> None:
        """See `port.Journal.close`: the lease is released, so that another broker may take over at once."""
        if not self.epoch:
            self._store.release()
            return
        self._closing.set()
        if not self.is_held:
            self._store.interrupt()  # a network without answers must not hold up the end
        for part in (
            self._space,
            self._committer,
            self._upkeep,
            self._reader,
            self._log_reader,
            self._cursors,
            self._keeper,
        ):
            part.close()
        self._store.release()
        self._active, self.epoch = None, 0

    def _new_segment(self) -> Segment:
        sequence = self._draw_sequence()
        return Segment(codec.SegmentHeader(codec.LOG, sequence, sequence, 0, 0), end=0)

    def _draw_sequence(self) -> int:
        self._sequence += 1
        return self._sequence


def _ignore(error: JournalFailed) -> None:
    """The next commit fails with it."""


def segments_of(rows: Iterator[StoredRow]) -> Iterator[Segment]:
    """The segments that rows describe; none of their records is counted as wanted."""
    segment: Segment | None = None
    for row in rows:
        if segment is None or segment.sequence != row.segment:
            if segment is not None:
                yield segment
            kind = codec.LOG if row.positions is None else codec.CARRY
            segment = Segment(codec.SegmentHeader(kind, row.segment, row.segment, 0, 0), end=0)
        if row.positions is None:
            segment.append(row.first_position, row.records, row.size)
        else:
            if not len(segment):
                segment.first_position = row.positions[0]
            segment.append_carried(row.first_position, row.positions, row.size)
            segment.next_position = row.positions[-1] + 1
    if segment is not None:
        yield segment


def missing_batch(store: Store, position: int) -> JournalDamaged:
    """The error of a log that has no whole batch at `position`."""
    return JournalDamaged(
        f"{store.description}: the batch at position {position} is missing or damaged; "
        "restore the store from a backup, or start with an empty journal"
    )


def stored_batch(content: bytes) -> StoredBatch | None:
    """The batch of a frame; None if it is damaged."""
    frame = codec.decode_frame(content, 0)
    if frame is None or not codec.is_whole(content, 0, frame):
        return None
    return StoredBatch(
        frame.first_position,
        frame.time_us,
        frame.epoch,
        codec.decode_table(content[codec.FRAME_HEADER_BYTES : frame.records_at]),
        frame.count,
        content[frame.records_at : frame.length],
    )
