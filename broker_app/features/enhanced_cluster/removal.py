"""Deletes journals that none needs any more, with their notes: under their leases, so that no member can take
them over meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from broker_app.base.refused import Refused
from broker_app.features.cluster.report import RemovalReport
from broker_app.features.enhanced_cluster.leases import Leases, is_over
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, Seen
from broker_app.journal.errors import JournalError
from broker_app.journal.log.cursors import Cursors, NoteDocument
from broker_app.journal.store import ErasableStore, Holder, LeaseHeld

log = logging.getLogger(__name__)

#: seconds until a journal that could not be deleted is tried again, and one that has readers
_TRY_AGAIN_S: Final = 10.0
_LOOK_AGAIN_S: Final = 600.0


class Removal:
    """Belongs to the thread of the watch. `make_store` makes the store of a journal."""

    def __init__(
        self,
        registry: Registry,
        leases: Leases,
        make_store: Callable[[str], ErasableStore],
        holder: Holder,
        lease_s: float,
    ) -> None:
        self._registry = registry
        self._leases = leases
        self._make_store = make_store
        self._holder = holder
        self._lease_s = lease_s
        #: when a journal that was not deleted is looked at again
        self._again_at: dict[str, float] = {}

    def prune(self, journals: Iterable[Seen]) -> None:
        """Delete one of the journals that are `superseded`: all members try. What was left in between is
        deleted by the next attempt."""
        now = time.monotonic()
        self._again_at = {journal: at for journal, at in self._again_at.items() if at > now}
        note = next((one for one in superseded(journals) if one.journal not in self._again_at), None)
        if note is None:
            return
        self._again_at[note.journal] = now + _TRY_AGAIN_S
        try:
            if self._has_readers(note.journal):
                self._again_at[note.journal] = now + _LOOK_AGAIN_S
                return
            self._delete([note])
        except LeaseHeld:  # by another member, which does the same
            return
        except JournalError as error:
            log.warning("the journal %s is drained, and cannot be deleted now: %s", note.journal, error)
            return
        log.info("the journal %s is deleted: it was drained, as was a newer one", note.journal)

    def _has_readers(self, journal: str) -> bool:
        """Return whether a cursor keeps the log of a journal, for a program that has not read all of it."""
        store = self._make_store(journal)
        try:
            cursors = Cursors(NoteDocument(store), None, moved=lambda: None)
            cursors.recover()
            first, extent = cursors.first, store.extent()
        finally:
            store.release()
        return first is not None and extent is not None and first < extent.end

    def remove(self, notes: Sequence[JournalNote], *, force: bool) -> RemovalReport:
        """Delete all journals of a member that is gone for good; with `force` although messages are lost
        then. Raises Refused and JournalError."""
        member = notes[0].member
        left = [note for note in notes if note.state != "drained"]
        messages = sum(note.messages for note in left)
        for note in left:
            lease = self._leases.of(note.journal) if note.holder == member else None
            if lease is not None and not is_over(lease):
                raise Refused(
                    "conflict",
                    f"{member} may be alive: its lease lasts {lease.left_s:.1f} s more. Shut it down first",
                )
        if left and not force:
            raise Refused(
                "conflict",
                f"{', '.join(note.journal for note in left)} may have messages ({messages} as was last "
                f"noted): have {member} taken over until they are delivered, or remove it by force: they are "
                "lost then",
                messages=messages,
            )
        self._delete(notes, force=force)
        return RemovalReport(member=member, journals=[note.journal for note in notes], messages=messages)

    def _delete(self, notes: Sequence[JournalNote], *, force: bool = False) -> None:
        """Delete journals of one member, which uses none of them again; with `force` those too that another
        member serves. Raises LeaseHeld, when all are still there, and JournalError."""
        with ExitStack() as stack:
            stores = []
            for note in notes:
                store = self._make_store(note.journal)
                stack.callback(store.release)
                store.acquire(self._holder, self._lease_s, force=force and note.holder != note.member)
                stores.append(store)
            newest = max(notes, key=lambda note: note.generation)
            self._registry.set_generation(newest.member, newest.generation + 1)
            for store in stores:
                store.erase()
        for note in notes:
            self._registry.forget(note.journal)


def superseded(journals: Iterable[Seen]) -> Iterator[JournalNote]:
    """The journals that are drained, but the newest such one of each member, which shows what became of
    it."""
    newest: dict[str, JournalNote] = {}
    for note, _ in journals:
        if note.state != "drained":
            continue
        other = newest.get(note.member)
        if other is not None:
            yield min(note, other, key=lambda one: one.generation)
        if other is None or note.generation > other.generation:
            newest[note.member] = note
