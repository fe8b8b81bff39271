"""Helpers of the journal's tests: batches made of small records, a journal's life in one object."""

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker_app.journal import codec
from broker_app.journal.files import Files
from broker_app.journal.port import Batch, Damaged, Journal, OpenResult, StoredBatch
from broker_app.journal.segments import SegmentJournal

SETTLED = 2  # a record type that means nothing to the journal


def published(body: bytes) -> bytes:
    """A PUBLISHED record."""
    return codec.encode_record(codec.PUBLISHED, body)


def batch_of(
    first: int, records: Sequence[bytes], *, keep: Sequence[int] = (), free: Sequence[int] = ()
) -> Batch:
    """A batch of these records; `keep` and `free` are positions."""
    batch = Batch(first, 1_700_000_000_000_000 + first)
    batch.destinations = ["/queue/orders", "/queue/größen"]
    batch.parts = list(records)
    batch.count = len(records)
    batch.published = list(keep)
    batch.freed = list(free)
    return batch


def read_now(journal: Journal, positions: Sequence[int]) -> list[bytes | Damaged]:
    """The records at these positions, of a journal that reads at once. Raises what reading reports."""
    answers: list[tuple[list[bytes | Damaged] | None, Exception | None]] = []
    journal.read(positions, lambda found, error: answers.append((found, error)))
    ((found, error),) = answers
    if error is not None:
        raise error
    assert found is not None
    return found


class Life:
    """One holder of a journal from open to close, committing synchronously."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.recovery: OpenResult = journal.open()
        self.next = self.recovery.next_position

    def restore(self, wanted: Sequence[int] = ()) -> list[StoredBatch]:
        """Replay everything, then retain `wanted`."""
        replayed = list(self.journal.replay())
        self.journal.set_live_positions([array("Q", wanted)])
        return replayed

    def commit(self, batch: Batch) -> None:
        """Commit and see it succeed."""
        answers: list[BaseException | None] = []
        self.journal.commit(batch, answers.append)
        assert answers == [None]
        self.next = batch.first_position + batch.count

    def read(self, positions: Sequence[int]) -> list[bytes | Damaged]:
        """The records at these positions."""
        return read_now(self.journal, positions)

    def publish(self, *bodies: bytes) -> list[int]:
        """Commit PUBLISHED records; their positions."""
        positions = list(range(self.next, self.next + len(bodies)))
        self.commit(batch_of(self.next, [published(body) for body in bodies], keep=positions))
        return positions

    def settle(self, *positions: int) -> None:
        """Commit one record that frees positions."""
        self.commit(batch_of(self.next, [codec.encode_record(SETTLED, b"")], free=positions))

    def snapshot(self, blob: bytes = b"state", position: int | None = None) -> None:
        """Store a snapshot and see it succeed."""
        answers: list[BaseException | None] = []
        self.journal.snapshot(self.next if position is None else position, [blob], answers.append)
        assert answers == [None]

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


Open = Callable[[], Life]
