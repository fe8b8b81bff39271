"""The snapshot writer: one snapshot at a time, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broker_app.journal.errors import NoSpace
from broker_app.journal.files import Files
from broker_app.journal.log import snapshots
from broker_app.journal.log.segment_pool import SegmentPool
from broker_app.journal.port import FIRST_POSITION, Done
from broker_app.journal.worker import CallSoon, Worker


class SnapshotWriter:
    """`written` is called when a snapshot is durable, `failed` with the error of one that is not."""

    def __init__(
        self,
        files: Files,
        pool: SegmentPool,
        call_soon_threadsafe: CallSoon | None,
        *,
        written: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._files = files
        self._pool = pool
        self._written = written
        self._failed = failed
        self._worker = Worker("journal-snapshot", call_soon_threadsafe)
        self._running = self._closed = False
        #: the position of the newest snapshot
        self.position = FIRST_POSITION
        #: no replay reads before it, even if the newest snapshot is damaged
        self.replay_start = FIRST_POSITION
        #: snapshots written so far
        self.count = 0

    def recovered(self, position: int, replay_start: int) -> None:
        """Take over what recovery found."""
        self.position, self.replay_start = position, replay_start
        self._closed = False

    def write(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """Write the state before `position`. Raises ValueError while another one is being written."""
        if self._running:
            raise ValueError("a snapshot is being written already")
        self._running = True
        self._submit(position, parts, done)

    def _submit(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        self._worker.submit(
            partial(snapshots.write_snapshot, self._files, position, parts),
            partial(self._finish, position, parts, done),
        )

    def _finish(
        self,
        position: int,
        parts: Sequence[bytes],
        done: Done,
        replay_start: int | None,
        error: Exception | None,
    ) -> None:
        needed = 2 * sum(map(len, parts))
        if isinstance(error, NoSpace) and not self._closed and self._pool.release_reserve(needed):
            self._submit(position, parts, done)
            return
        self._running = False
        if replay_start is not None:
            self.position, self.replay_start = position, replay_start
            self.count += 1
            self._written()
        elif error is not None:
            self._failed(error)
        done(error)

    def close(self) -> None:
        """Finish the snapshot in progress."""
        self._closed = True
        self._worker.close()
