"""A shared store and a private journal, for the broker that holds both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from broker_app.journal.shared.private_journal import PrivateJournal, PrivateStatus
from broker_app.journal.store import Carried, Grant, Holder, LogBatch, Store, StoredRow


class PairedStore:
    """See `store.Store` for the promises, which are those of the shared store: what it raises is raised, and
    errors of the private journal are reported by `status`."""

    def __init__(self, shared: Store, private: Store) -> None:
        self.description = shared.description
        self._shared = shared
        self._private = private
        self._copy: PrivateJournal | None = None
        # What the private journal has no part in.
        self.adopt, self.renew, self.interrupt = shared.adopt, shared.renew, shared.interrupt
        self.lease, self.tag = shared.lease, shared.tag
        self.frames, self.load = shared.frames, shared.load
        self.extent, self.batch_start = shared.extent, shared.batch_start
        self.snapshot, self.snapshot_position = shared.snapshot, shared.snapshot_position
        self.put_note, self.drop_note, self.notes = shared.put_note, shared.drop_note, shared.notes
        self.put_holder_note = shared.put_holder_note
        self.free_bytes, self.statistics = shared.free_bytes, shared.statistics

    @property
    def status(self) -> PrivateStatus | None:
        """The state of the private journal; None before `acquire`."""
        return self._copy.status if self._copy is not None else None

    def acquire(self, holder: Holder, lease_s: float, *, force: bool = False) -> Grant:
        """See `store.Store.acquire`."""
        grant = self._shared.acquire(holder, lease_s, force=force)
        self._copy = PrivateJournal(self._shared, self._private, holder, grant)
        return grant

    def release(self) -> None:
        """See `store.Store.release`."""
        if self._copy is not None:
            self._copy.close()
        self._shared.release()

    def rows(self) -> Iterator[StoredRow]:
        """See `store.Store.rows`. The private journal is opened when they are read, and copied after that."""
        return self._shared.rows() if self._copy is None else self._copy.begin(self._shared.rows())

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        """See `store.Store.append`."""
        self._shared.append(segment, first_position, count, frame)
        if self._copy is not None:
            self._copy.append(segment, (LogBatch(first_position, count, frame),))

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """See `store.Store.append_all`."""
        self._shared.append_all(segment, batches)
        if self._copy is not None:
            self._copy.append(segment, batches)

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """See `store.Store.carry`."""
        with self._deleting():
            self._shared.carry(segment, carried, sources)
            if self._copy is not None:
                self._copy.carry(segment, carried, sources)

    def delete(self, segments: Sequence[int]) -> None:
        """See `store.Store.delete`."""
        with self._deleting():
            self._shared.delete(segments)
            if self._copy is not None:
                self._copy.delete(segments)

    def _deleting(self) -> AbstractContextManager[object]:
        return nullcontext() if self._copy is None else self._copy.deleting

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """See `store.Store.put_snapshot`."""
        self._shared.put_snapshot(position, parts)
        if self._copy is not None:
            self._copy.put_snapshot(position, parts)
