"""Snapshots of the broker's state: when one is due, made in small steps, written between two batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker_app.core.broker import Broker
from broker_app.core.durability.snapshot import SnapshotBuilder
from broker_app.journal.port import Journal

log = logging.getLogger(__name__)


class Snapshots:
    """At most one snapshot is being made; one is due after `every` written bytes, or four times its own size.

    `is_committed` returns whether everything that was decided is committed, `failed` is called with an error
    in the broker's state, `finished` when a snapshot was written, or was not.
    """

    def __init__(
        self,
        broker: Broker,
        journal: Journal,
        every: int,
        is_committed: Callable[[], bool],
        failed: Callable[[BaseException], None],
        finished: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._every = every
        self._is_committed = is_committed
        self._failed = failed
        self._finished = finished
        self._written = 0
        self._due = every
        self.is_running = False
        #: a complete snapshot that contains what is not committed yet
        self._early: SnapshotBuilder | None = None

    def count(self, size: int) -> None:
        """Count bytes that were written to the journal."""
        self._written += size

    def check(self) -> None:
        """Write the snapshot that waits, and begin one that is due; everything decided is committed now."""
        if self._early is not None:
            self._write(self._early)
        if not self.is_running and (self._written >= self._due or self._journal.wants_snapshot):
            self.begin()

    def begin(self) -> None:
        """Begin a snapshot: recovery reads less, and old segments can be deleted. Only between batches."""
        self.is_running = True
        self._written = 0
        self._loop.call_soon(self._step, SnapshotBuilder(self._broker))

    def _step(self, builder: SnapshotBuilder) -> None:
        """Work on a snapshot for a few milliseconds."""
        if not self.is_running:
            return
        try:
            complete = builder.step()
        except Exception as error:  # a bug: the state in memory cannot be trusted any more
            self._failed(error)
            return
        if not complete:
            self._loop.call_soon(self._step, builder)
        elif not self._is_committed():
            self._early = builder
        else:
            self._write(builder)

    def _write(self, builder: SnapshotBuilder) -> None:
        self._early = None
        parts = builder.parts()
        # A large state is written more rarely, so that snapshots stay a fraction of all writing.
        self._due = max(self._every, 4 * sum(map(len, parts)))
        self._journal.snapshot(builder.position, parts, self._done)

    def _done(self, error: BaseException | None) -> None:
        self.is_running = False
        if error is not None:  # the former one is kept; recovery will read more
            log.warning("the snapshot of the broker's state was not written: %s", error)
        self._finished()

    def stop(self) -> None:
        """Make no further steps."""
        self.is_running = False
