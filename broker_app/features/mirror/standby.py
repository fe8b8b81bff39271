"""The standby: follows the journal while another broker serves, and takes it over when that ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.mirror.follower import Follower
from broker_app.journal.errors import JournalError, JournalFailed
from broker_app.journal.shared.lease import seconds
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import LeaseHeld, LeaseState, Store, StoreFull, Unreachable
from broker_app.members import pause, takeovers
from broker_app.members.membership import Membership
from broker_app.members.takeovers import Takeover
from broker_app.net.rest.node.mirror_status import (
    EXPIRED,
    FORCED,
    FORMER_STOPPED,
    STANDBY,
    STARTED,
    STOPPED,
    SWITCHOVER,
)

log = logging.getLogger(__name__)

#: seconds between two reads of the journal
POLL_S: Final = 0.03
#: seconds between attempts to reach the store
_RETRY_S: Final = 0.25
#: seconds for which the others wait for the broker that an operator has chosen
_PREFERRED_WAIT_S: Final = 3.0
#: seconds for which one that is behind leaves the lease to others, which may be ahead
_AHEAD_WAIT_S: Final = 3.0


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
        #: a pause keeps this broker from taking the lease that is free
        self.is_paused = False
        #: until then, by the clock of this machine, the lease lasts that was read last and not given back
        self._held_until = 0.0
        self._is_reachable = True

    @property
    def is_free(self) -> bool:
        """True if no broker held the lease when it was read last."""
        lease = self.lease
        if lease is None or lease.is_released:
            return True
        # The clock of the store may have been set forward: then the holder still counts on its lease.
        return lease.left_s <= 0 and seconds() >= self._held_until

    def run(self) -> Taken | None:
        """Follow until this broker has taken over; None if it was stopped before. Blocks.

        Raises JournalDamaged and JournalFailed.
        """
        while not self._stopping.is_set():
            taken = None
            try:
                if self._follow():
                    taken = self._take()
            except (Unreachable, StoreFull) as error:  # a lease cannot be written without space
                self._wait(error)
            if taken is not None:
                return taken
        return None

    def stop(self) -> None:
        """Have `run` return."""
        self._stopping.set()

    def interrupt(self) -> None:
        """Have `run` return although the store does not answer."""
        self._store.interrupt()

    def order(self, order: Order) -> None:
        """Take over by force, at once."""
        self._order = order

    def _follow(self) -> bool:
        """Apply what is stored by now; return True if this broker is to take over. Raises Unreachable."""
        try:
            lease = self._store.lease()
            if lease is None and self.lease is not None:
                # A directory that is not mounted any more, or a database that was emptied.
                raise Unreachable(
                    "the journal has disappeared from its store; bring it back, or restart this broker to "
                    "begin with an empty one"
                )
            self._note_lease(lease)
            if self._order is not None or (self.is_free and self._may_take()):
                return True
            is_all = self._follower.catch_up()
        except JournalFailed as error:
            if self.lease is None:
                raise
            raise Unreachable(str(error)) from error  # it could be read before
        self._is_reachable = True
        if is_all:
            self._stopping.wait(POLL_S)
        return False

    def _note_lease(self, lease: LeaseState | None) -> None:
        self.lease = lease
        if lease is not None and lease.left_s > 0:
            self._held_until = seconds() + lease.left_s
        if not self.is_free:
            self.has_followed, self._free_since, self.is_paused = True, None, False
        elif self._free_since is None:
            self._free_since = time.monotonic()

    def _wait(self, error: JournalError) -> None:
        """Log why the journal cannot be followed, once, and try again a moment later."""
        if self._is_reachable:
            log.warning("the journal cannot be followed now: %s", error)
        self._is_reachable = False
        self._stopping.wait(_RETRY_S)

    def _may_take(self) -> bool:
        """True if this broker is to take the lease, which is free. Raises Unreachable."""
        return self._is_next() and not self._leaves_it and not self._heeds_pause()

    def _heeds_pause(self) -> bool:
        """True while an operator has paused takeovers, but for the last holder, and for the broker that an
        operator has chosen."""
        lease = self.lease
        if lease is None or self._member_id in (lease.holder.name, self._membership.successor):
            return False
        found = pause.find(self._store)
        if found is not None and not self.is_paused:
            log.warning("no broker is active, and this one does not take over: %s", found.sentence)
        self.is_paused = found is not None
        return self.is_paused

    def _is_next(self) -> bool:
        """True unless an operator has chosen another broker, which runs and has had no time yet."""
        chosen = self._membership.successor
        if chosen in ("", self._member_id):
            return True
        member = self._membership.find(chosen)
        return member is None or not member.alive or self._free_for_s > _PREFERRED_WAIT_S

    @property
    def _free_for_s(self) -> float:
        """Seconds for which the lease is free."""
        assert self._free_since is not None
        return time.monotonic() - self._free_since

    @property
    def _leaves_it(self) -> bool:
        """True while something is left to apply and another broker, which has had no time yet, may have less.
        The first that has applied everything takes over; while no broker serves, the journal does not grow.
        """
        if self._follower.has_all or self._free_for_s > _AHEAD_WAIT_S:
            return False
        others = (one for one in self._membership.alive if one.id != self._member_id)
        return any(one.state == STANDBY for one in others)

    def _take(self) -> Taken | None:
        """Take the journal over; None if another broker was faster. Raises the errors of its opening."""
        order, self._order = self._order, None
        lease = self._store.lease()
        if order is not None and lease is not None and lease.epoch != order.epoch:
            log.warning("the forced takeover was not carried out: epoch %d has ended already", order.epoch)
            return None
        free_at = self._free_at(lease)
        journal = self._make_journal()
        try:
            broker = self._follower.take_over(journal, self._policies(), force=order is not None)
        except LeaseHeld:
            return None
        taken = self._describe(lease, journal, order, time.monotonic() - free_at)
        self._note(taken)
        return Taken(journal, broker, taken, self._role < 0 and not self.has_followed)

    def _free_at(self, lease: LeaseState | None) -> float:
        """The time (`time.monotonic`) since which the lease is free, as far as that is known."""
        if lease is not None and lease.left_s < 0:
            return time.monotonic() - min(-lease.left_s, seconds() - self._held_until)
        return self._free_since if self._free_since is not None else time.monotonic()

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
        try:
            takeovers.keep(self._store, takeover)
            # Also an order to another broker: it would be obeyed when that one runs again.
            if self._membership.successor:
                self._membership.order("")
        except JournalError as error:
            log.warning("the takeover could not be noted in the journal: %s", error)
