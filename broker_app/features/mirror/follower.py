"""A broker that follows a shared log: its state is as that of the broker that serves, a moment later."""

from __future__ import annotations

import time
from collections.abc import Callable

from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import Recovery
from broker_app.core.message import MessageIds
from broker_app.core.policy import Policies
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.port import FIRST_POSITION, OpenResult
from broker_app.journal.shared.shared_journal import SharedJournal, missing_batch, stored_batch
from broker_app.journal.store import Store

#: seconds for which batches are applied before the caller has its turn
_SLICE_S = 0.2


class Follower:
    """Applies the journal's batches as they are stored. `make_broker` returns a new, empty broker. `progress`
    is called when the journal is taken over, and after each batch of it then; what it raises ends that.
    `dedup_ids` as of `Recovery`.

    Belongs to one thread.
    """

    def __init__(
        self,
        store: Store,
        make_broker: Callable[[], Broker],
        progress: Callable[[], None] = lambda: None,
        *,
        dedup_ids: bool = True,
    ) -> None:
        self._progress = progress
        self._dedup_ids = dedup_ids
        self._store = store
        self._make_broker = make_broker
        self._broker: Broker
        self._recovery: Recovery
        #: everything before this position is applied
        self.position = 0
        #: records that were applied and that the store has lost since
        self.records_lost = 0
        #: whether the last `catch_up` has applied everything
        self.has_all = False
        self._began_at = time.monotonic()
        #: `time.monotonic` when everything that was stored had been applied; None before the first time
        self._in_step_at: float | None = None

    @property
    def lag_s(self) -> float:
        """Seconds since everything that was stored had been applied, or since it began to follow."""
        return time.monotonic() - (self._began_at if self._in_step_at is None else self._in_step_at)

    @property
    def was_in_step(self) -> bool:
        """True if everything that was stored had been applied at some time."""
        return self._in_step_at is not None

    def catch_up(self) -> bool:
        """Apply what is stored by now, for a fifth of a second at most; return True if that was all.

        Raises JournalDamaged and Unreachable.
        """
        until = time.monotonic() + _SLICE_S
        self.has_all = False
        if not self.position:
            self._begin()
        began_at = time.monotonic()
        for content in self._store.frames(self.position):
            batch = stored_batch(content)
            if batch is None:
                raise missing_batch(self._store, self.position)
            if batch.first_position != self.position:
                self._begin()  # the log was compacted beyond this position
                return False
            self._recovery.apply(batch.destinations, batch.first_position, batch.records)
            self.position += batch.count
            if time.monotonic() > until:
                return False
        self._recovery.index()
        self.has_all, self._in_step_at = True, began_at
        return True

    def take_over(self, journal: SharedJournal, policies: Policies, *, force: bool = False) -> Broker:
        """Open the journal, apply the rest, and return the broker. Raises what `open` raises."""
        if not self.position:
            opened = journal.open(force=force)
            self._progress()
            self._apply_all(opened, journal)
        else:
            opened = journal.take_over(self.position, force=force)
            self._progress()
            self.records_lost = max(0, self.position - opened.next_position)
            if self.records_lost or not self._continues(journal):
                # What was applied may have been compacted away since, or was lost by a store that had not
                # made it durable.
                self._apply_all(journal.rewind(), journal)
        self._broker.turn.ids = MessageIds(journal.tag)
        return self._finished(policies, opened.next_position)

    def rehearse(self, policies: Policies) -> Broker:
        """The broker that `take_over` would return if nothing more were stored. This follower is of no use
        afterwards."""
        return self._finished(policies, self.position)

    def _finished(self, policies: Policies, next_position: int) -> Broker:
        self._recovery.apply_policies(policies)
        self._recovery.finish(next_position)
        return self._broker

    def _continues(self, journal: SharedJournal) -> bool:
        """Apply the rest of the log; return False if it does not continue where this broker has stopped."""
        try:
            self._apply_rest(journal)
        except JournalDamaged:
            return False
        return True

    def _apply_all(self, opened: OpenResult, journal: SharedJournal) -> None:
        """Apply the snapshot and the whole log behind it."""
        self._reset()
        if opened.snapshot is not None:
            self._recovery.load(opened.snapshot)
        self._apply_rest(journal)

    def _apply_rest(self, journal: SharedJournal) -> None:
        for batch in journal.replay():
            self._recovery.apply(batch.destinations, batch.first_position, batch.records)
            self._progress()

    def _begin(self) -> None:
        """Begin with the newest snapshot."""
        self._reset()
        snapshot = self._store.snapshot()
        self.position = FIRST_POSITION
        if snapshot is not None:
            self.position, content = snapshot
            self._recovery.load(content)

    def _reset(self) -> None:
        self._broker = self._make_broker()
        self._recovery = Recovery(self._broker, dedup_ids=self._dedup_ids)
