"""The watch over the journals of other members: one whose holder has failed is taken over by the first that
can."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Event, Thread
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.cluster.report import (
    DiscoveryReport,
    EnhancedReport,
    RemovalReport,
    TakeoverReport,
    TakeoverTotals,
)
from broker_app.features.enhanced_cluster.client_refusal import ClientRefusal
from broker_app.features.enhanced_cluster.failure_detection import FailureDetector, Timing
from broker_app.features.enhanced_cluster.leases import Leases, is_over
from broker_app.features.enhanced_cluster.members import members_of
from broker_app.features.enhanced_cluster.read_ahead import ReadAhead
from broker_app.features.enhanced_cluster.registry import (
    JournalNote,
    JournalState,
    Registry,
    RegistryContent,
    Seen,
    registry_name,
)
from broker_app.features.enhanced_cluster.removal import Removal
from broker_app.features.enhanced_cluster.takeover import (
    OwnBroker,
    Reason,
    Stopping,
    TakenJournal,
    Takeover,
)
from broker_app.journal.errors import JournalError
from broker_app.journal.store import Holder, Unreachable
from broker_app.journal.worker import CallSoon
from broker_app.storage.factory import store_at

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

#: seconds in which a broker that has stopped in good order may come back, and one that restarts
STOPPED_S: Final = 3.0
RESTARTING_S: Final = 60.0
#: seconds until a journal that could not be taken over is tried again
_TRY_AGAIN_S: Final = 10.0
#: seconds between attempts at the first heart-beat
_RETRY_S: Final = 0.2
#: orders of operators that wait
_MOST_ORDERS: Final = 8


class Order(NamedTuple):
    """Something that an operator has ordered, and what waits for its result."""

    carry_out: Callable[[], Any]
    done: Future[Any]


class JournalWatch:
    """Notes this broker in the registry, reads those of the others, and takes over, in a thread of its own.

    `taken`, `found` and `gone` are called in the loop: with a journal that was taken over, with the addresses
    of the other brokers, and with the name of a member that was removed. `make_broker`, `policies` and
    `may_take` are called in the thread.
    """

    def __init__(
        self,
        config: Config,
        member: OwnBroker,
        call_soon_threadsafe: CallSoon,
        *,
        make_broker: Callable[[], Broker],
        policies: Callable[[], Policies],
        may_take: Callable[[], bool],
        taken: Callable[[TakenJournal], None],
        found: Callable[[list[str]], None],
        gone: Callable[[str], None],
    ) -> None:
        assert config.cluster_id is not None and config.journal is not None
        self._config = config
        self._cluster_id = config.cluster_id
        self._member = member
        self._call_soon = call_soon_threadsafe
        self._make_broker = make_broker
        self._policies = policies
        self._may_take = may_take
        self._taken = taken
        self._found = found
        self._gone = gone
        #: the names of all members
        self._names: set[str] = set()
        self._make_store = partial(store_at, config.journal)
        self._registry = Registry(self._make_store(registry_name(config.cluster_id)))
        self._timing = Timing.of(config)
        self._detector = FailureDetector(self._timing)
        #: the journals that this broker serves, its own first
        self.serving: dict[str, JournalNote] = {}
        #: the state of this broker towards clients, and how many messages each journal has that it serves
        self.state = ""
        self.messages: Mapping[str, int] = {}
        #: of new clients, while this broker takes over
        self.refusal = ClientRefusal()
        self._content = RegistryContent([], [])
        self._orders: deque[Order] = deque()
        self._leases = Leases(self._make_store)
        self._closing = Event()
        self._due = Event()
        self._thread: Thread | None = None
        #: why the registry cannot be read now; empty while it can
        self._unreachable = ""
        #: which other member has the address of this one; empty if none has
        self._shared_address = ""
        self._totals = TakeoverTotals()
        self._noted_at = 0.0
        #: when a journal that could not be taken over is tried again
        self._again_at: dict[str, float] = {}
        self._ahead = ReadAhead(self._takeover_of)
        holder = Holder(member.name, ",".join(member.uris))
        self._removal = Removal(self._registry, self._leases, self._make_store, holder, config.lease_s)

    # ------------------------------------------------------------------ the loop

    def start(self, epoch: int) -> None:
        """Note that this broker serves its own journal, and watch the others. Blocks until that is noted:
        what clients send to a member that no other knows of would be taken over by none. Raises
        JournalError."""
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
        self._note_first()
        self._thread = Thread(target=self._run, name="cluster-journals", daemon=True)
        self._thread.start()

    def _note_first(self) -> None:
        """Write the first heart-beat, within the time of a lease."""
        until = time.monotonic() + self._timing.lease_s
        while True:
            try:
                self._note_own()
                return
            except Unreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(_RETRY_S)

    def serve(self, note: JournalNote) -> None:
        """Note a journal that this broker serves."""
        self.serving = {**self.serving, note.journal: note}
        self._due.set()

    def forget(self, journal: str) -> None:
        """Write no more notes about a journal that another broker serves."""
        self.serving = {name: note for name, note in self.serving.items() if name != journal}

    def release(self, journal: str, state: JournalState, messages: int) -> None:
        """Note a journal that this broker serves no longer, and that has so many messages."""
        note = self.serving.get(journal)
        if note is not None:
            self.forget(journal)
            try:
                self._registry.write(msgspec.structs.replace(note, state=state, messages=messages))
            except JournalError as error:
                log.warning("the other brokers do not know that %s is %s: %s", journal, state, error)

    def order(self, member: str, user: str, *, force: bool) -> Future[TakeoverReport]:
        """Have this broker take over from a member. The future fails with Refused or JournalError."""
        return self._enqueue(lambda: self._take_by_order(member, user, force=force))

    def order_removal(self, member: str, *, force: bool) -> Future[RemovalReport]:
        """Have this broker remove a member that is gone for good. The future fails with Refused or
        JournalError."""
        return self._enqueue(
            lambda: self._removal.remove([seen.note for seen in self._journals_of(member)], force=force)
        )

    def _enqueue(self, carry_out: Callable[[], _Result]) -> Future[_Result]:
        if len(self._orders) >= _MOST_ORDERS:
            raise Refused("busy", "other orders of operators wait here: try again in a moment")
        done: Future[_Result] = Future()
        self._orders.append(Order(carry_out, done))
        self._due.set()
        return done

    def report(self) -> EnhancedReport:
        """The members as this broker saw them last."""
        suspicions = self._detector.suspicions  # first: the notes that follow them may be newer, not older
        journals, takeovers = self._content
        timing = self._timing
        return EnhancedReport(
            cluster_id=self._cluster_id,
            **timing._asdict(),
            worst_case_s=timing.worst_case_s,
            taking_over=self.refusal.member,
            totals=msgspec.structs.replace(self._totals, refused_s=round(self.refusal.total_s, 3)),
            members=members_of(self._member.name, journals, takeovers, suspicions),
            takeovers=[seen.takeover for seen in takeovers],
        )

    def discovery(self) -> DiscoveryReport:
        """The registry as a way in which brokers find each other."""
        return DiscoveryReport(
            way="registry", place=self._cluster_id, error=self._unreachable or self._shared_address
        )

    def close(self) -> None:
        """Take over nothing more, and end. Blocks."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        while self._orders:
            self._orders.popleft().done.set_exception(_not_active())

    def close_stores(self) -> None:
        """Close the connections. Blocks."""
        self._leases.close()
        self._registry.close()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                self._beat()
                self._unreachable = ""
            except JournalError as error:
                if not self._unreachable:
                    log.warning("the journals of the cluster cannot be read now: %s", error)
                self._unreachable = str(error)
            except Exception as error:  # or no member would be taken over any more
                internal_errors.note("the watch over the journals of the cluster", error)
            if self._ahead.is_behind:
                self._detector.look_in(0.0)
            self._due.wait(self._detector.wait_s(begun))
            self._due.clear()
        self._ahead.close()

    def _beat(self) -> None:
        self._note_own()
        self._content = content = self._registry.read()
        others = [seen for seen in content.journals if seen.note.journal not in self.serving]
        self._detector.look(others)
        addresses = {seen.note.address for seen in content.journals if seen.note.holder != self._member.name}
        self._call_soon(self._found, sorted(addresses))
        names = {seen.note.member for seen in content.journals}
        for name in self._names - names:
            self._call_soon(self._gone, name)
        self._names = names
        self._check_own_address(others)
        if self._orders:
            while self._orders and not self._closing.is_set():
                _carry_out(self._orders.popleft())
            self._due.set()  # they have changed what was read
            return
        for seen in others:
            if not self._closing.is_set() and self._may_take():
                self._take_if_free(seen)
        self._read_ahead(others)
        self._forget_others({seen.note.journal for seen in others if self._is_awaited(seen.note)})
        if not self._closing.is_set():
            self._removal.prune(others)

    def _is_awaited(self, note: JournalNote) -> bool:
        """Return whether the holder of a journal is suspect, or has stopped and may come back."""
        return note.state in ("stopped", "restarting") or note.journal in self._detector.suspicions

    def _forget_others(self, journals: set[str]) -> None:
        """Forget all journals but these: each takeover is followed by a new one."""
        self._leases.keep(journals)
        self._again_at = {journal: at for journal, at in self._again_at.items() if journal in journals}

    def _check_own_address(self, others: list[Seen]) -> None:
        """Report a member that has the address of this one: the two are never linked."""
        own, fault = self._member, ""
        for seen in others:
            holder = seen.note.holder
            is_alive = holder != own.name and seen.age_s < self._timing.suspect_s
            if is_alive and seen.note.address == own.address:
                fault = (
                    f"{holder} has the address of this broker, {own.address}: set cluster_host of each "
                    "member to the name by which the others reach it"
                )
        if fault and not self._shared_address:
            log.warning("members of the cluster cannot find each other: %s", fault)
        self._shared_address = fault

    def _read_ahead(self, others: list[Seen]) -> None:
        """Read some of the journals that may have to be taken over soon."""
        notes = [seen.note for seen in others if self._may_be_taken_soon(seen.note)]
        self._ahead.keep(notes)
        for note in notes:
            self._note_if_due()
            self._ahead.read(note)

    def _may_be_taken_soon(self, note: JournalNote) -> bool:
        """Return whether the holder of a journal is suspect, or has stopped, and this broker may take it."""
        is_doubtful = note.state == "stopped" or note.journal in self._detector.suspicions
        is_possible = note.journal not in self.serving and note.journal not in self._again_at
        return is_doubtful and is_possible and self._may_take() and not self._closing.is_set()

    def _note_own(self) -> None:
        """Send a heart-beat."""
        self._noted_at = time.monotonic()
        for journal, note in self.serving.items():
            messages = self.messages.get(journal, note.messages)
            self._registry.write(
                msgspec.structs.replace(
                    note, holder_state=self.state, messages=messages, suspects=list(self._detector.suspicions)
                )
            )

    def _between(self) -> None:
        """Send heart-beats while a takeover runs, and end it if this broker stops."""
        if self._closing.is_set():
            raise Stopping("this broker stops")
        self._note_if_due()

    def _note_if_due(self) -> None:
        """Send a heart-beat if the last one was sent some time ago."""
        if time.monotonic() - self._noted_at > self._timing.heartbeat_s:
            self._note_own()

    def _take_if_free(self, seen: Seen) -> None:
        """Take a journal over that has no holder. One that cannot be taken, as a damaged one, keeps this
        broker from no other."""
        journal = seen.note.journal
        try:
            reason = self._reason(seen)
            if reason is not None and time.monotonic() > self._again_at.get(journal, 0.0):
                self._take(seen.note, reason)
                self._again_at.pop(journal, None)
        except Unreachable:
            raise
        except JournalError as error:
            if journal not in self._again_at:
                log.error("the journal %s of %s cannot be taken over: %s", journal, seen.note.member, error)
            self._again_at[journal] = time.monotonic() + _TRY_AGAIN_S
        except Stopping:
            return
        except Exception as error:  # or the others would stay without a holder
            internal_errors.note("a takeover of a journal", error)

    def _reason(self, seen: Seen) -> Reason | None:
        """The reason to take a journal over; None if it has a holder, or is to have none."""
        note, age_s = seen
        if note.state == "serving":
            if not self._detector.is_failed(note.journal):
                return None
            found = self._detector.suspicions[note.journal]
            why = f"no heart-beat of {note.holder} for {age_s:.1f} s, and none in {found.looks} looks at it"
            reason = Reason(why, found.since)
        else:
            waits_s = {"stopped": STOPPED_S, "restarting": RESTARTING_S}.get(note.state)
            if waits_s is None or age_s < waits_s:
                return None
            reason = Reason(f"{note.holder} has stopped in good order {age_s:.0f} s ago ({note.state})")
        lease = self._leases.of(note.journal)
        if lease is None:
            self._forget_deleted(note)
            return None
        if is_over(lease):
            return reason
        self._detector.look_in(lease.left_s)
        return None

    def _forget_deleted(self, note: JournalNote) -> None:
        """Forget a journal that is not there, if its member has a later one: a former holder that was paused
        has noted it once more."""
        if self._registry.generation(note.member) > note.generation:
            self._registry.forget(note.journal)

    def _take(self, note: JournalNote, reason: Reason) -> TakeoverReport | None:
        """Take a journal over, unless another broker is faster."""
        self.refusal.begin(note.member)
        try:
            taken = self._ahead.takeover(note).take(self._policies, reason)
        except JournalError:
            self._totals = self._totals.with_failure()
            raise
        finally:
            self.refusal.end()
        if taken is None:
            return None
        self._totals = self._totals.with_one(taken.takeover)
        self.serve(taken.note)
        log.warning(
            "broker %s is taken over (%s): this broker serves its journal %s after %.2f s, epoch %d",
            *(note.member, reason.why, note.journal, taken.takeover.took_s, taken.takeover.epoch),
        )
        self._call_soon(self._taken, taken)
        return taken.takeover

    def _takeover_of(self, note: JournalNote) -> Takeover:
        return Takeover(
            *(self._config, self._member, self._registry, self._call_soon, note, self._make_broker),
            between=self._between,
        )

    # ------------------------------------------------------------------ orders of operators

    def _take_by_order(self, member: str, user: str, *, force: bool) -> TakeoverReport:
        note = self._takeable(member, force=force)
        by = f" by {user}, by force" if force else f" by {user}"
        report = self._take(note, Reason(f"ordered{by}", force=force))
        if report is None:
            raise Refused("conflict", f"another broker has taken over {member} in this moment")
        return report

    def _takeable(self, member: str, *, force: bool) -> JournalNote:
        """The journal of a member that is to be taken over. Raises Refused, and JournalError."""
        note, age_s = self._journals_of(member)[-1]
        if note.holder != member:
            raise Refused("conflict", f"{note.holder} has taken over {member} already")
        lease = self._leases.of(note.journal)
        if lease is not None and not is_over(lease) and not force:
            raise Refused(
                "conflict",
                f"{member} may be alive: its last heart-beat was {age_s:.1f} s ago, and its lease lasts "
                f"{lease.left_s:.1f} s more. Shut it down, or order it by force: then it stops to serve",
                seen_s=round(age_s, 1),
            )
        return note

    def _journals_of(self, member: str) -> list[Seen]:
        """The journals of another member, the newest last. Raises Refused if there is none."""
        journals = self._content.journals
        if member == self._member.name:
            raise Refused("conflict", f"this is {member} itself: give the order to another member")
        found = [seen for seen in journals if seen.note.member == member]
        if not found:
            known = ", ".join(sorted({seen.note.member for seen in journals}))
            raise Refused("not-found", f"there is no member {member}; there are {known}")
        return sorted(found, key=lambda seen: seen.note.generation)


def _carry_out(order: Order) -> None:
    try:
        order.done.set_result(order.carry_out())
    except Stopping:
        order.done.set_exception(_not_active())
    except Exception as error:
        order.done.set_exception(error)


def _not_active() -> Refused:
    return Refused("not-active", "this broker stops: give the order to another member")
