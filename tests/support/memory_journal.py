"""The journal in memory, for tests: the same promises, kept as long as its `MemoryStorage` lives."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from broker_app.journal import codec
from broker_app.journal.errors import (
    JournalDamaged,
    JournalFailed,
    JournalInUse,
    NoSuchPosition,
)
from broker_app.journal.log.cursors import Cursors
from broker_app.journal.log.log_reader import outside
from broker_app.journal.log.meta import TAG_BITS
from broker_app.journal.port import (
    FIRST_POSITION,
    Batch,
    CursorState,
    Damaged,
    Done,
    Found,
    LogFound,
    LogRun,
    OpenResult,
    Run,
    Span,
    StoredBatch,
)


@dataclass
class MemoryStorage:
    """The content of a disk. Give it to the next MemoryJournal to reopen."""

    tag: int = field(default_factory=lambda: random.SystemRandom().getrandbits(TAG_BITS))
    created_us: int = field(default_factory=lambda: time.time_ns() // 1000)
    epoch: int = 0
    next_position: int = FIRST_POSITION
    batches: list[StoredBatch] = field(default_factory=list)
    contents: dict[int, bytes] = field(default_factory=dict)  # of PUBLISHED records that are wanted
    snapshot: bytes | None = None
    snapshot_position: int = FIRST_POSITION
    held: bool = False
    cursors: bytes | None = None
    damaged: dict[int, str] = field(default_factory=dict)  # positions that cannot be read back, and why


class _CursorDocument:
    """See `cursors.Document`."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def read(self) -> bytes | None:
        return self._storage.cursors

    def write(self, content: bytes) -> None:
        self._storage.cursors = content


class MemoryJournal:
    """See `port.Journal`.

    With `hold`, commits wait until `release` is called, as they would for a disk. `failure`, once set,
    is the error of the next commit, `snapshot_failure` and `read_failure` those of the next snapshot and
    read. `space` is the result of `available_bytes`.
    Closing without `release` loses the batch, as a power failure would.
    """

    def __init__(self, storage: MemoryStorage | None = None, *, hold: bool = False) -> None:
        self.storage = storage or MemoryStorage()
        self.tag, self.created_us, self.epoch = self.storage.tag, self.storage.created_us, 0
        self.hold = hold
        self.hold_reads = False
        self.background_error: Exception | None = None
        self.failure: Exception | None = None
        self.snapshot_failure: Exception | None = None
        self.read_failure: Exception | None = None
        self.space = 1 << 40
        self.wants_snapshot = False
        self._failed: Exception | None = None
        self._open = False
        self._pending: Callable[[], None] | None = None
        self._pending_reads: list[Callable[[], None]] = []
        self._cursors = Cursors(_CursorDocument(self.storage), None, moved=self._let_go)
        self._counters = {"commits": 0, "records": 0, "bytes_written": 0, "snapshots": 0}

    def open(self) -> OpenResult:
        """See `port.Journal.open`."""
        stored = self.storage
        if stored.held:
            raise JournalInUse("this storage is in use by another journal of this process")
        stored.held = self._open = True
        stored.epoch += 1
        self.epoch = stored.epoch
        report = self._cursors.recover()
        return OpenResult(stored.snapshot, stored.snapshot_position, stored.next_position, report)

    @property
    def is_held(self) -> bool:
        """See `port.Journal.is_held`."""
        return True

    def replay(self) -> Iterator[StoredBatch]:
        """See `port.Journal.replay`."""
        start = self.storage.snapshot_position
        yield from [batch for batch in self.storage.batches if batch.first_position >= start]

    def set_live_positions(self, positions: Iterable[Sequence[int]]) -> None:
        """See `port.Journal.set_live_positions`."""
        former, self.storage.contents = self.storage.contents, {}
        for chunk in positions:
            for position in chunk:
                if position not in former:
                    raise JournalDamaged(f"the record at position {position} is needed but not stored")
                self.storage.contents[position] = former[position]

    def commit(self, batch: Batch, done: Done) -> None:
        """See `port.Journal.commit`."""
        if self._failed is not None:
            done(JournalFailed(f"the journal takes nothing more since it failed: {self._failed}"))
            return
        if not self._open or self._pending is not None:
            raise ValueError("the journal is not open" if not self._open else "a batch is in flight already")
        if batch.count < 1 or batch.first_position != self.storage.next_position:
            raise ValueError(
                f"a batch from {self.storage.next_position} is expected, not from {batch.first_position}"
            )
        if self.failure is not None:
            self._failed, self.failure = self.failure, None
            done(JournalFailed(str(self._failed)))
            return
        self._pending = lambda: self._store(batch, done)
        if not self.hold:
            self.release()

    @property
    def is_committing(self) -> bool:
        """True while a batch waits for `release`."""
        return self._pending is not None

    def release(self) -> None:
        """Let the batch that waits become durable."""
        assert self._pending is not None, "no batch waits"
        store, self._pending = self._pending, None
        store()

    def _store(self, batch: Batch, done: Done) -> None:
        stored = self.storage
        records = b"".join(batch.parts)
        content = [record for _, record in codec.iterate_records(records)]
        if len(content) != batch.count:
            raise ValueError(f"the batch holds {len(content)} records, not {batch.count}")
        stored.batches.append(
            StoredBatch(
                batch.first_position,
                batch.time_us,
                self.epoch,
                list(batch.destinations),
                batch.count,
                records,
            )
        )
        for position in batch.published:
            stored.contents[position] = content[position - batch.first_position]
        for position in batch.freed:
            stored.contents.pop(position, None)
        stored.next_position += batch.count
        self._counters["commits"] += 1
        self._counters["records"] += batch.count
        self._counters["bytes_written"] += len(records)
        done(None)

    def available_bytes(self) -> int:
        """See `port.Journal.available_bytes`."""
        return self.space if self._open else 0

    def read(self, positions: Sequence[int], found: Found) -> None:
        """See `port.Journal.read`. With `hold_reads`, reads wait until `release_reads` is called."""
        if self.hold_reads:
            self._pending_reads.append(lambda: self._read(positions, found))
        else:
            self._read(positions, found)

    def measure(self, positions: Sequence[int], max_bytes: int) -> Run:
        """See `port.Journal.measure`."""
        size = 0
        for count, position in enumerate(positions):
            more = len(self.storage.contents.get(position, b""))
            if count and size + more > max_bytes:
                return Run(count, size)
            size += more
        return Run(len(positions), size)

    def span(self) -> Span:
        """See `port.Journal.span`: it begins with the snapshot, or with the smallest cursor before that."""
        stored = self.storage
        return Span(
            stored.batches[0].first_position if stored.batches else stored.next_position, stored.next_position
        )

    def read_log(self, position: int, max_bytes: int, found: LogFound) -> None:
        """See `port.Journal.read_log`. With `hold_reads`, reads wait until `release_reads` is called."""
        if self.hold_reads:
            self._pending_reads.append(lambda: self._read_log(position, max_bytes, found))
        else:
            self._read_log(position, max_bytes, found)

    def _read_log(self, position: int, max_bytes: int, found: LogFound) -> None:
        span = self.span()
        if not span.low <= position <= span.end:
            found(None, outside(position, span))
            return
        run: list[bytes] = []
        size, first, following = 0, position, position
        for batch in self.storage.batches:
            if batch.first_position + batch.count <= position:
                continue
            frame = _frame(batch)
            size += len(frame)
            if run and size > max_bytes:
                break
            first = first if run else batch.first_position
            following = batch.first_position + batch.count
            run.append(frame)
        found(LogRun(first, following, b"".join(run)), None)

    def cursors(self) -> dict[str, CursorState]:
        """See `port.Journal.cursors`."""
        return self._cursors.states(self.span().low)

    def set_cursor(self, name: str, position: int, done: Done) -> None:
        """See `port.Journal.set_cursor`."""
        self._cursors.set(name, position, self.span(), done)

    def drop_cursor(self, name: str, done: Done) -> None:
        """See `port.Journal.drop_cursor`."""
        self._cursors.drop(name, done)

    def release_reads(self) -> None:
        """Carry out the reads that wait."""
        pending, self._pending_reads = self._pending_reads, []
        for read in pending:
            read()

    def _read(self, positions: Sequence[int], found: Found) -> None:
        if self.read_failure is not None:
            error, self.read_failure = self.read_failure, None
            found(None, error)
            return
        records: list[bytes | Damaged] = []
        for position in positions:
            if position not in self.storage.contents:
                found(None, NoSuchPosition(position, "nothing is stored there (never written, or freed)"))
                return
            why = self.storage.damaged.get(position)
            records.append(self.storage.contents[position] if why is None else Damaged(position, why))
        found(records, None)

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """See `port.Journal.snapshot`."""
        stored = self.storage
        starts = {batch.first_position for batch in stored.batches} | {
            stored.next_position,
            stored.snapshot_position,
        }
        if position not in starts or position < stored.snapshot_position:
            raise ValueError(
                f"position {position} is not the start of a committed batch after the last snapshot"
            )
        self.wants_snapshot = False
        if self.snapshot_failure is not None:
            self.background_error, self.snapshot_failure = self.snapshot_failure, None
            done(self.background_error)
            return
        stored.snapshot, stored.snapshot_position = b"".join(parts), position
        self._let_go()
        self._counters["snapshots"] += 1
        done(None)

    def _let_go(self) -> None:
        """Drop the batches that neither a replay nor a cursor needs."""
        start, first = self.storage.snapshot_position, self._cursors.first
        kept = start if first is None else min(start, first)
        self.storage.batches = [
            batch for batch in self.storage.batches if batch.first_position + batch.count > kept
        ]

    def statistics(self) -> dict[str, int]:
        """See `port.Journal.statistics`."""
        stored = self.storage
        size = sum(map(len, stored.contents.values())) + sum(len(one.records) for one in stored.batches)
        return self._counters | {
            "bytes_stored": size,
            "bytes_on_disk": size,
            "epoch": self.epoch,
            "next_position": stored.next_position,
            "snapshot_position": stored.snapshot_position,
            "live_records": len(stored.contents),
        }

    def close(self) -> None:
        """See `port.Journal.close`."""
        if self._open:
            self._open = self.storage.held = False
            self._pending = None


def _frame(batch: StoredBatch) -> bytes:
    """The frame of a batch, as other journals store it."""
    pieces = codec.encode_frame(
        segment_id=0,
        epoch=batch.epoch,
        first_position=batch.first_position,
        time_us=batch.time_us,
        count=batch.count,
        table=codec.encode_table(batch.destinations),
        parts=[batch.records],
    )
    return b"".join(pieces)
