"""The watch over the journals of other members: one without a holder is taken over by the first that can."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Final, NamedTuple

from broker_app.base.internal_errors import internal_errors
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, Seen, registry_name
from broker_app.features.mirror.follower import Follower
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, LeaseHeld, LeaseState, Store, Unreachable
from broker_app.journal.worker import CallSoon
from broker_app.storage.factory import make_shared, store_at

log = logging.getLogger(__name__)

#: seconds between two notes of a broker, and two looks at the others
BEAT_S: Final = 1.0
#: seconds in which a broker that has stopped in good order may come back, and one that restarts
STOPPED_S: Final = 3.0
RESTARTING_S: Final = 60.0


class TakenJournal(NamedTuple):
    """A journal of another member that this broker holds now, with the broker that was rebuilt from it."""

    note: JournalNote
    journal: SharedJournal
    broker: Broker


class OwnBroker(NamedTuple):
    """This broker for the others: its name, the address of its cluster port, and where clients connect."""

    name: str
    address: str
    uri: str


class JournalWatch:
    """Notes this broker in the registry, reads those of the others, and takes over, in a thread of its own.

    `taken` and `found` are called in the loop: with a journal that was taken over, and with the addresses of
    the other brokers. `make_broker` and `policies` are called in the thread.
    """

    def __init__(
        self,
        config: Config,
        member: OwnBroker,
        call_soon_threadsafe: CallSoon,
        *,
        make_broker: Callable[[], Broker],
        policies: Callable[[], Policies],
        taken: Callable[[TakenJournal], None],
        found: Callable[[list[str]], None],
    ) -> None:
        assert config.cluster_id is not None and config.journal is not None
        self._config = config
        self._member = member
        self._call_soon = call_soon_threadsafe
        self._make_broker = make_broker
        self._policies = policies
        self._taken = taken
        self._found = found
        self._make_store = partial(store_at, config.journal)
        self._registry = Registry(self._make_store(registry_name(config.cluster_id)))
        #: the journals that this broker serves, its own first
        self.serving: dict[str, JournalNote] = {}
        #: all journals, as they were read last
        self.seen: list[Seen] = []
        self._stores: dict[str, Store] = {}
        self._closing = Event()
        self._due = Event()
        self._thread: Thread | None = None
        self._is_reachable = True
        #: journals that could not be taken over when that was tried last
        self._failed: set[str] = set()

    def start(self, epoch: int) -> None:
        """Note that this broker serves its own journal, and watch the others."""
        member, config = self._member, self._config
        self.serve(
            JournalNote(
                journal=config.journal_name,
                member=member.name,
                generation=config.journal_generation,
                holder=member.name,
                address=member.address,
                state="serving",
                epoch=epoch,
            )
        )
        self._thread = Thread(target=self._run, name="cluster-journals", daemon=True)
        self._thread.start()

    def serve(self, note: JournalNote) -> None:
        """Note a journal that this broker serves."""
        self.serving = {**self.serving, note.journal: note}
        self._due.set()

    def forget(self, journal: str) -> None:
        """Write no more notes about a journal that another broker serves."""
        self.serving = {name: note for name, note in self.serving.items() if name != journal}

    def release(self, journal: str, state: str) -> None:
        """Note a journal that this broker serves no longer: "stopped", "restarting", "kept" or "drained"."""
        note = self.serving.get(journal)
        if note is not None:
            self.serving = {name: one for name, one in self.serving.items() if name != journal}
            try:
                self._registry.write(replace_state(note, state))
            except JournalError as error:
                log.warning("the other brokers do not know that %s is %s: %s", journal, state, error)

    def close(self) -> None:
        """Take over nothing more, and end. Blocks."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close_stores(self) -> None:
        """Close the connections. Blocks."""
        for store in self._stores.values():
            store.release()
        self._registry.close()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                self._beat()
                self._is_reachable = True
            except JournalError as error:
                if self._is_reachable:
                    log.warning("the journals of the cluster cannot be read now: %s", error)
                self._is_reachable = False
            except Exception as error:  # or no member would be taken over any more
                internal_errors.note("the watch over the journals of the cluster", error)
            self._due.wait(max(0.05, BEAT_S - (time.monotonic() - begun)))
            self._due.clear()

    def _beat(self) -> None:
        for note in self.serving.values():
            self._registry.write(note)
        self.seen = self._registry.journals()
        addresses = sorted({seen.note.address for seen in self.seen if seen.note.holder != self._member.name})
        self._call_soon(self._found, addresses)
        for seen in self.seen:
            if seen.note.journal not in self.serving and not self._closing.is_set():
                self._take_if_free(seen)

    def _take_if_free(self, seen: Seen) -> None:
        """Take a journal over that has no holder. One that cannot be taken, as a damaged one, keeps this
        broker from no other."""
        journal = seen.note.journal
        try:
            if self._is_free(seen):
                self._take(seen.note)
            self._failed.discard(journal)
        except Unreachable:
            raise
        except JournalError as error:
            if journal not in self._failed:
                log.error("the journal %s of %s cannot be taken over: %s", journal, seen.note.member, error)
            self._failed.add(journal)
        except Exception as error:  # or the others would stay without a holder
            internal_errors.note("a takeover of a journal", error)

    def _is_free(self, seen: Seen) -> bool:
        """Return whether a journal has no holder, and is to have one."""
        note, age_s = seen
        waits_s = {"serving": 0.0, "stopped": STOPPED_S, "restarting": RESTARTING_S}.get(note.state)
        if waits_s is None or age_s < waits_s:
            return False
        lease = self._store(note.journal).lease()
        return lease is not None and _is_over(lease)

    def _store(self, journal: str) -> Store:
        store = self._stores.get(journal)
        if store is None:
            store = self._stores[journal] = self._make_store(journal)
        return store

    def _take(self, note: JournalNote) -> None:
        """Take a journal over, unless another broker is faster."""
        began = time.monotonic()
        store = self._make_store(note.journal)
        try:
            opened = self._open(store)
        except BaseException:
            store.release()
            raise
        if opened is None:
            store.release()
            return
        journal, broker = opened
        took_s = round(time.monotonic() - began, 3)
        try:
            taken = self._note_taken(note, journal.epoch, took_s)
        except JournalError:
            journal.close()  # another broker, or a later attempt, takes it
            raise
        log.warning(
            "broker %s has failed: this broker has taken over its journal %s in %.2f s, epoch %d",
            *(note.holder, note.journal, took_s, journal.epoch),
        )
        self._call_soon(self._taken, TakenJournal(taken, journal, broker))

    def _open(self, store: Store) -> tuple[SharedJournal, Broker] | None:
        """The journal in a store, opened, and its broker; None if another broker was faster, or this one
        stops."""
        follower = Follower(store, self._make_broker)
        while not follower.catch_up():
            if self._closing.is_set():
                return None
        holder = Holder(self._member.name, self._member.uri)
        config = replace(self._config, private_journal=None)
        journal = make_shared(config, store, holder, self._call_soon)
        try:
            return journal, follower.take_over(journal, self._policies())
        except LeaseHeld:
            return None

    def _note_taken(self, note: JournalNote, epoch: int, took_s: float) -> JournalNote:
        """Note that this broker serves a journal, and that its member is to begin with another one."""
        self._registry.set_generation(note.member, note.generation + 1)
        taken = JournalNote(
            journal=note.journal,
            member=note.member,
            generation=note.generation,
            holder=self._member.name,
            address=self._member.address,
            state="serving",
            epoch=epoch,
            took_s=took_s,
        )
        self._registry.write(taken)
        self.serve(taken)
        return taken


def _is_over(lease: LeaseState) -> bool:
    """Return whether the holder of a lease has lost it, or has given it back."""
    return lease.is_released or lease.left_s <= 0


def replace_state(note: JournalNote, state: str) -> JournalNote:
    """The same note with another state."""
    return JournalNote(**{name: getattr(note, name) for name in note.__struct_fields__} | {"state": state})
