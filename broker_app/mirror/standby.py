"""The standby: follows the journal while another broker serves, and takes it over when that ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.journal.errors import JournalError
from broker_app.journal.shared import SharedJournal
from broker_app.journal.store import LeaseHeld, LeaseState, Store, Unreachable
from broker_app.mirror import takeovers
from broker_app.mirror.follower import Follower
from broker_app.mirror.membership import Membership
from broker_app.mirror.takeovers import Takeover
from broker_app.net.rest.mirrors import EXPIRED, FORCED, FORMER_STOPPED, STARTED, STOPPED, SWITCHOVER

log = logging.getLogger(__name__)

#: seconds between two reads of the journal
POLL_S: Final = 0.03
#: seconds for which the others wait for the broker that an operator has chosen
_PREFERRED_WAIT_S: Final = 3.0


class Order(NamedTuple):
    """A forced takeover that an operator ordered. `epoch` is the one that the operator has seen."""

    epoch: int
    reason: str


class Taken(NamedTuple):
    """A journal that was taken over, with the broker that was rebuilt from it."""

    journal: SharedJournal
    broker: Broker
    takeover: Takeover
    #: this is a mirror, and no main broker was there to follow
    without_main: bool


class Standby:
    """Runs in a thread of its own until it has taken over, or is stopped.

    `store` is for this thread and the journal that follows; `make_journal` returns it, not open yet.
    `policies` returns those of destinations as configured now. `before` is called before the journal is taken
    over, and may block.
    """

    def __init__(
        self,
        store: Store,
        membership: Membership,
        follower: Follower,
        *,
        member_id: str,
        role: int,
        make_journal: Callable[[], SharedJournal],
        policies: Callable[[], Policies],
    ) -> None:
        self._store = store
        self._membership = membership
        self._follower = follower
        self._member_id = member_id
        self._role = role
        self._make_journal = make_journal
        self._policies = policies
        self._stopping = Event()
        self._order: Order | None = None
        #: the lease as it was read last; None while it was never held
        self.lease: LeaseState | None = None
        #: another broker was active since this one has run
        self.has_followed = False
        self._free_since: float | None = None

    @property
    def is_free(self) -> bool:
        """True if no broker held the lease when it was read last."""
        return self.lease is None or self.lease.left_s <= 0

    def run(self) -> Taken | None:
        """Follow until this broker has taken over; None if it was stopped before. Blocks.

        Raises JournalDamaged and JournalFailed.
        """
        reachable = True
        while not self._stopping.is_set():
            try:
                taken = self._step()
                reachable = True
            except Unreachable as error:
                if reachable:
                    log.warning("the journal cannot be followed now: %s", error)
                reachable, taken = False, None
            if taken is not None:
                return taken
        return None

    def stop(self) -> None:
        """Have `run` return."""
        self._stopping.set()

    def order(self, order: Order) -> None:
        """Take over by force, at once."""
        self._order = order

    def _step(self) -> Taken | None:
        self.lease = self._store.lease()
        if not self.is_free:
            self.has_followed, self._free_since = True, None
        elif self._free_since is None:
            self._free_since = time.monotonic()
        if self._order is not None or (self.is_free and self._is_next()):
            return self._take()
        if self._follower.catch_up():
            self._stopping.wait(POLL_S)
        return None

    def _is_next(self) -> bool:
        """True unless an operator has chosen another broker, which runs and has had no time yet."""
        chosen = self._membership.successor
        if chosen in ("", self._member_id):
            return True
        member = self._membership.find(chosen)
        assert self._free_since is not None
        return member is None or not member.alive or time.monotonic() - self._free_since > _PREFERRED_WAIT_S

    def _take(self) -> Taken | None:
        """Take the journal over; None if another broker was faster. Raises the errors of its opening."""
        order, self._order = self._order, None
        lease = self._store.lease()
        if order is not None and lease is not None and lease.epoch != order.epoch:
            log.warning("the forced takeover was not carried out: epoch %d has ended already", order.epoch)
            return None
        free_at = time.monotonic() if lease is None else time.monotonic() + min(0.0, lease.left_s)
        journal = self._make_journal()
        try:
            broker = self._follower.take_over(journal, self._policies(), force=order is not None)
        except LeaseHeld:
            return None
        taken = self._describe(lease, journal, order, time.monotonic() - free_at)
        self._note(taken)
        return Taken(journal, broker, taken, self._role < 0 and not self.has_followed)

    def _describe(
        self, lease: LeaseState | None, journal: SharedJournal, order: Order | None, took_s: float
    ) -> Takeover:
        self._refresh()
        former = self._membership.find(lease.holder.name) if lease is not None else None
        if order is not None:
            cause = FORCED
        elif lease is None or not self.has_followed:
            cause = STARTED
        elif self._membership.successor == self._member_id:
            cause = SWITCHOVER
        elif former is not None and former.state == STOPPED:
            cause = FORMER_STOPPED
        else:
            cause = EXPIRED
        return Takeover(
            journal.epoch,
            time.time(),
            cause,
            self._member_id,
            self._role,
            former=lease.holder.name if lease is not None else "",
            position=journal.statistics()["next_position"],
            took_s=round(took_s, 3),
            non_persistent_lost=former.non_persistent if former is not None else None,
            records_lost=self._follower.records_lost,
            reason=order.reason if order is not None else "",
        )

    def _refresh(self) -> None:
        """Read the last notes of the former holder and of operators."""
        try:
            self._membership.beat()
        except JournalError as error:
            log.warning("the notes of other brokers cannot be read: %s", error)

    def _note(self, takeover: Takeover) -> None:
        log.warning("%s", takeover.sentence)
        try:
            takeovers.keep(self._store, takeover)
            if self._membership.successor == self._member_id:
                self._membership.order("")
        except JournalError as error:
            log.warning("the takeover could not be noted in the journal: %s", error)
