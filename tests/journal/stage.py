"""Helpers of the journal's tests: batches made of small records, a journal's life in one object."""

import os
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, Literal, TypeVar

import pytest

from broker_app.core.outcome import Outcome
from broker_app.journal import codec
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.port import Batch, Damaged, Journal, LogRun, OpenResult, StoredBatch
from broker_app.journal.shared.shared_journal import stored_batch
from broker_app.journal.store import Store

Result = TypeVar("Result")
#: lets a journal work until a condition is true
Wait = Callable[[Callable[[], bool]], None]

SETTLED = 2  # a record type that means nothing to the journal


def published(body: bytes) -> bytes:
    """A PUBLISHED record."""
    return codec.encode_record(codec.PUBLISHED, body)


def batch_of(
    first: int, records: Sequence[bytes], *, keep: Sequence[int] = (), free: Sequence[int] = ()
) -> Outcome:
    """A batch of these records; `keep` and `free` are positions."""
    batch = Outcome(first, 1_700_000_000_000_000 + first)
    batch.destinations = ["/queue/orders", "/queue/größen"]
    batch.parts = list(records)
    batch.count = len(records)
    batch.published = list(keep)
    batch.freed = list(free)
    return batch


class Reports:
    """Stands for the loop of a journal with threads: what they report is called in `wait`."""

    def __init__(self) -> None:
        self._due: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def call_soon_threadsafe(self, report: Callable[..., object], *arguments: object) -> None:
        """Have `report` called."""
        self._due.put(partial(report, *arguments))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Call what is reported until the condition is true. Raises Empty when nothing more comes."""
        while not condition():
            self._due.get(timeout=20)()


class Answer(Generic[Result]):
    """The one answer of a journal, for the thread that waits for it."""

    def __init__(self) -> None:
        self._asked_in = threading.get_ident()
        self._found: list[tuple[Result | None, BaseException | None]] = []

    def found(self, result: Result | None, error: BaseException | None) -> None:
        """The callback of `Journal.read`."""
        if threading.get_ident() != self._asked_in:
            error = AssertionError(f"answered in {threading.current_thread().name}")
        self._found.append((result, error))

    def done(self, error: BaseException | None) -> None:
        """The callback of `Journal.commit` and `Journal.snapshot`."""
        self.found(None, error)

    def is_there(self) -> bool:
        return bool(self._found)

    @property
    def error(self) -> BaseException | None:
        ((_, error),) = self._found
        return error

    @property
    def result(self) -> Result:
        """The result. Raises the error that came instead."""
        ((result, error),) = self._found
        if error is not None:
            raise error
        assert result is not None
        return result


def read_now(journal: Journal, positions: Sequence[int]) -> list[bytes | Damaged]:
    """The records at these positions, of a journal that reads at once. Raises what reading reports."""
    answer = Answer[list[bytes | Damaged]]()
    journal.read(positions, answer.found)
    return answer.result


def _at_once(condition: Callable[[], bool]) -> None:
    """Wait for a journal without threads."""
    assert condition(), "a journal without threads has not answered"


def log_now(journal: Journal, position: int, max_bytes: int = 1 << 20, wait: Wait = _at_once) -> LogRun:
    """Frames of the log. Raises what reading reports."""
    answer = Answer[LogRun]()
    journal.read_log(position, max_bytes, answer.found)
    wait(answer.is_there)
    return answer.result


def batches_of(run: LogRun) -> list[StoredBatch]:
    """The batches of a run, whose frames are whole and follow each other."""
    found, position = [], run.position
    for at, frame in codec.frames_of(run.frames):
        batch = stored_batch(run.frames[at : at + frame.length])
        assert batch is not None and batch.first_position == position
        position += batch.count
        found.append(batch)
    assert position == run.next_position
    return found


def whole_log(journal: Journal, max_bytes: int = 1 << 20, wait: Wait = _at_once) -> list[StoredBatch]:
    """All batches of the span, read in runs."""
    found: list[StoredBatch] = []
    position, end = journal.span()
    while position < end:
        run = log_now(journal, position, max_bytes, wait)
        assert run.position == position < run.next_position
        found += batches_of(run)
        position = run.next_position
    assert position == end
    return found


def set_now(journal: Journal, name: str, position: int, wait: Wait = _at_once) -> None:
    """Set a cursor. Raises what storing reports."""
    answer = Answer[None]()
    journal.set_cursor(name, position, answer.done)
    wait(answer.is_there)
    if answer.error is not None:
        raise answer.error


class Life:
    """One holder of a journal from open to close, committing synchronously.

    `wait` lets the journal work until a condition is true.
    """

    def __init__(self, journal: Journal, wait: Wait = _at_once) -> None:
        self.journal = journal
        self.wait = wait
        self.recovery: OpenResult = journal.open()
        self.next = self.recovery.next_position

    def restore(self, wanted: Sequence[int] = ()) -> list[StoredBatch]:
        """Replay everything, then retain `wanted`."""
        replayed = list(self.journal.replay())
        self.journal.set_live_positions([array("Q", wanted)])
        return replayed

    def try_commit(self, batch: Batch) -> BaseException | None:
        """Commit; the error."""
        answer = Answer[None]()
        self.journal.commit(batch, answer.done)
        self.wait(answer.is_there)
        return answer.error

    def commit(self, batch: Batch) -> None:
        """Commit and see it succeed."""
        assert self.try_commit(batch) is None
        self.next = batch.first_position + batch.count

    def ask(self, positions: Sequence[int]) -> Answer[list[bytes | Damaged]]:
        """Ask for the records at these positions; the answer may come later."""
        answer = Answer[list[bytes | Damaged]]()
        self.journal.read(positions, answer.found)
        return answer

    def read(self, positions: Sequence[int]) -> list[bytes | Damaged]:
        """The records at these positions. Raises what reading reports."""
        answer = self.ask(positions)
        self.wait(answer.is_there)
        return answer.result

    def log_from(self, position: int, max_bytes: int = 1 << 20) -> LogRun:
        """Frames of the log. Raises what reading reports."""
        return log_now(self.journal, position, max_bytes, self.wait)

    def whole_log(self, max_bytes: int = 1 << 20) -> list[StoredBatch]:
        """All batches of the log, read in runs."""
        return whole_log(self.journal, max_bytes, self.wait)

    def publish(self, *bodies: bytes) -> list[int]:
        """Commit PUBLISHED records; their positions."""
        positions = list(range(self.next, self.next + len(bodies)))
        self.commit(batch_of(self.next, [published(body) for body in bodies], keep=positions))
        return positions

    def settle(self, *positions: int) -> None:
        """Commit one record that frees positions."""
        self.commit(batch_of(self.next, [codec.encode_record(SETTLED, b"")], free=positions))

    def try_snapshot(self, blob: bytes = b"state", position: int | None = None) -> BaseException | None:
        """Store a snapshot; the error."""
        answer = Answer[None]()
        self.journal.snapshot(self.next if position is None else position, [blob], answer.done)
        self.wait(answer.is_there)
        return answer.error

    def snapshot(self, blob: bytes = b"state", position: int | None = None) -> None:
        """Store a snapshot and see it succeed."""
        assert self.try_snapshot(blob, position) is None

    def set_cursor(self, name: str, position: int) -> None:
        """Set a cursor. Raises what storing reports."""
        set_now(self.journal, name, position, self.wait)

    def drop_cursor(self, name: str) -> None:
        """Drop a cursor and see it succeed."""
        answer = Answer[None]()
        self.journal.drop_cursor(name, answer.done)
        self.wait(answer.is_there)
        assert answer.error is None

    def settle_much(self, rounds: int, size: int = 300) -> None:
        """Publish and settle messages, with a snapshot now and then: nothing of that is needed any more."""
        for number in range(rounds):
            self.settle(*self.publish(bytes(size)))
            if number % 16 == 15:
                self.snapshot()

    def wait_until_let_go(self) -> None:
        """Wait until no segment is left but the one that is being written."""
        self.wait(lambda: self.journal.statistics().get("segments", 1) == 1)

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()


class QuickSystem:
    """`os` without the waiting: nothing is synced (the tests never cut the power)."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fdatasync(self, fd: int) -> None: ...

    def fsync(self, fd: int) -> None: ...


def quick_journal(directory: Path, **options: Any) -> SegmentJournal:
    """A segment journal with small segments that does not wait for the disk."""
    options.setdefault("segment_bytes", 8192)
    options.setdefault("files", Files(directory, QuickSystem()))
    return SegmentJournal(directory, **options)


#: stores with servers, which are fixtures of these names
SERVERS = [pytest.param(kind, marks=pytest.mark.process) for kind in ("postgres", "redis")]
OLDER_SERVERS = [pytest.param(kind, marks=pytest.mark.process) for kind in ("older_postgres", "older_redis")]

Open = Callable[[], Life]
#: lets a kind of work of a journal fail for the length of a `with` block
Broken = Callable[[Life, Literal["commits", "snapshots", "reads"]], AbstractContextManager[None]]


def content_of(store: Store) -> tuple[object, ...]:
    """Everything that the holder of a store reads from it."""
    rows = list(store.rows())
    frames = store.load([(row.segment, row.first_position) for row in rows])
    shown = [(row.segment, row.first_position, row.records, tuple(row.positions or ())) for row in rows]
    return shown, frames, store.snapshot()
