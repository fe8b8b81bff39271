"""A takeover of a journal: its lease is the lock, and then the broker is rebuilt from it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import live_positions
from broker_app.core.policy import Policies
from broker_app.features.cluster.report import TakeoverReport, TakeoverResult
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry
from broker_app.features.mirror.follower import Follower
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, LeaseHeld, Store
from broker_app.journal.worker import CallSoon
from broker_app.members.membership import members_in
from broker_app.storage.factory import make_shared, store_at

log = logging.getLogger(__name__)

#: seconds between two notes about a takeover that runs
_NOTE_S: Final = 2.0


class OwnBroker(NamedTuple):
    """This broker for the others: its name, the address of its cluster port, and where clients connect."""

    name: str
    address: str
    uris: tuple[str, ...]


class Reason(NamedTuple):
    """The reason of a takeover: `why` as a sentence, `suspected` as a time (seconds since 1970); with
    `force` although its lease lasts."""

    why: str
    suspected: float | None = None
    force: bool = False


class TakenJournal(NamedTuple):
    """A journal of another member that this broker holds now, with the broker that was rebuilt from it, whose
    positions it knows."""

    note: JournalNote
    journal: SharedJournal
    broker: Broker
    takeover: TakeoverReport


class Stopping(Exception):
    """This broker stops, and gives back what it was taking over."""


class Takeover:
    """One takeover of the journal of `note`, in the thread of the watch: what is stored may be read before it
    (`read_ahead`), and then it is taken, or left alone. `between` is called again and again while it is
    taken."""

    def __init__(
        self,
        config: Config,
        member: OwnBroker,
        registry: Registry,
        call_soon: CallSoon,
        note: JournalNote,
        make_broker: Callable[[], Broker],
        between: Callable[[], None],
    ) -> None:
        assert config.journal is not None
        self._member = member
        self._registry = registry
        self._note = note
        self._reason = Reason("")
        self._between = between
        self._store = store_at(config.journal, note.journal)
        self._follower = Follower(self._store, make_broker, self._progress, dedup_ids=False)
        holder = Holder(member.name, ",".join(member.uris))
        config = replace(config, private_journal=None)
        self._journal = make_shared(config, self._store, holder, call_soon)
        self._began = self._noted = 0.0
        #: None until the lease is held
        self._report: TakeoverReport | None = None

    def is_of(self, note: JournalNote) -> bool:
        """Return whether this is about the journal as its present holder has it."""
        return (self._note.journal, self._note.epoch) == (note.journal, note.epoch)

    def read_ahead(self) -> None:
        """Read what is stored by now, for a fifth of a second at most. Raises JournalError."""
        self._follower.catch_up()

    @property
    def has_read_all(self) -> bool:
        """True if what was stored has been read."""
        return self._follower.has_all

    def leave(self) -> None:
        """Take nothing, since the holder of the journal is there again, or another one has taken it."""
        self._store.release()

    def take(self, policies: Callable[[], Policies], reason: Reason) -> TakenJournal | None:
        """The broker, rebuilt; None if another one was faster, or holds the journal. Raises JournalError, and
        what `between` raises: then the journal is free again."""
        self._began, self._reason = time.monotonic(), reason
        try:
            broker = self._follower.take_over(self._journal, policies(), force=reason.force)
            self._journal.set_live_positions(live_positions(broker))
            return self._complete(broker)
        except LeaseHeld:
            self.leave()
            return None
        except BaseException as error:
            self._failed(error)
            (self._journal.close if self._journal.epoch else self._store.release)()
            raise

    def _progress(self) -> None:
        """Note that the lease is held, and do what else is due."""
        if self._report is None:
            self._report = TakeoverReport(
                member=self._note.member,
                journal=self._note.journal,
                taker=self._member.name,
                epoch=self._journal.epoch,
                why=self._reason.why,
                began=time.time(),
                suspected=self._reason.suspected,
            )
        if time.monotonic() - self._noted > _NOTE_S:
            self._noted = time.monotonic()
            self._registry.write_takeover(self._report)
        self._between()

    def _complete(self, broker: Broker) -> TakenJournal:
        """Note that this broker serves the journal, and that its member is to begin with another one."""
        note = self._note
        taken = JournalNote(
            journal=note.journal,
            member=note.member,
            generation=note.generation,
            holder=self._member.name,
            address=self._member.address,
            state="serving",
            epoch=self._journal.epoch,
            took_s=round(time.monotonic() - self._began, 3),
            messages=stored_messages(broker),
        )
        self._registry.set_generation(note.member, note.generation + 1)
        self._registry.write(taken)
        lost_messages = _lost_messages(self._store)
        report = self._noted_end(
            "complete",
            messages=taken.messages,
            lost=_lost(lost_messages, note.member),
            lost_messages=lost_messages,
        )
        return TakenJournal(taken, self._journal, broker, report)

    def _failed(self, error: BaseException) -> None:
        """Note that nothing came of it, if that is possible."""
        if self._report is not None:
            with suppress(JournalError):
                self._noted_end("failed", error=str(error) or type(error).__name__)

    def _noted_end(self, result: TakeoverResult, **facts: Any) -> TakeoverReport:
        assert self._report is not None
        took_s = round(time.monotonic() - self._began, 3)
        report = msgspec.structs.replace(self._report, result=result, took_s=took_s, **facts)
        self._registry.write_takeover(report)
        return report


def stored_messages(broker: Broker) -> int:
    """The number of messages that a broker has, delayed ones apart."""
    return sum(queue.depth + queue.unsettled for queue in broker.destinations.queues.values())


def _lost_messages(store: Store) -> int | None:
    """The number of messages that a member had only in memory, by its last note; None if it has left none."""
    former = next(iter(members_in(store)), None)
    return former.non_persistent if former is not None else None


def _lost(messages: int | None, member: str) -> str:
    """The loss by the end of a member, as a sentence."""
    if messages == 0:
        return "no message; transactions that were open are rolled back"
    number = "an unknown number of" if messages is None else messages
    return (
        f"nothing that was persistent; {number} messages that were only in the memory of {member}; "
        "transactions that were open are rolled back"
    )
