"""This broker among those that share its journal. Lives as long as the process, on standby and active."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.mirror.drill import Check, Drill
from broker_app.features.mirror.follower import Follower
from broker_app.features.mirror.standby import Order, Standby, Taken
from broker_app.features.mirror.unrecorded_count import UnrecordedCount
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Store
from broker_app.members import takeovers
from broker_app.members.addresses import Addresses
from broker_app.members.membership import Member, Membership
from broker_app.members.takeovers import Takeover
from broker_app.net.rest.node.mirror_status import (
    ACTIVE,
    DATABASE,
    STANDBY,
    STOPPED,
    UNREACHABLE,
    FailoverList,
    MirrorBroker,
    MirrorLease,
    Mirrors,
    PrivateJournalStatus,
)
from broker_app.net.rest.node.mirror_status import Takeover as TakeoverStatus
from broker_app.telemetry.component_health import MIRROR, health_of
from broker_app.telemetry.lag_samples import LagSamples

log = logging.getLogger(__name__)

#: for the question which broker has taken over
_LOOKUP_S: Final = 1.0


class Serving(Protocol):
    """The server of clients here while this broker is the active one; both are called in the loop."""

    def hold_input(self, on: bool) -> None:
        """Read nothing more from clients, or read again."""

    def hand_over(self, successor: Member) -> None:
        """End, since an operator has ordered that this broker takes over."""


class Mirror:
    """Owns the membership, and the standby or the journal of this broker, whichever it has now.

    Created and asked in the loop's thread. `make_store` returns a store with connections of its own.
    """

    def __init__(
        self,
        name: str,
        role: int,
        lease_s: float,
        addresses: Addresses,
        make_store: Callable[[], Store],
        *,
        configuration: str,
        needs_standby: bool = True,
    ) -> None:
        self.name = name
        self.role = role
        self.addresses = addresses
        self._lease_s = lease_s
        #: how the configuration is carried to the other brokers
        self._configuration = configuration
        #: False if other members of an enhanced cluster take the journal over
        self._needs_standby = needs_standby
        self._make_store = make_store
        self._store = make_store()  # for what operators ask
        self.membership = Membership(make_store(), self._member)
        self._standby: Standby | None = None
        self._follower: Follower | None = None
        self._journal: SharedJournal | None = None
        self._broker: Broker | None = None
        self._unrecorded: UnrecordedCount | None = None
        #: takeovers that are known, the newest first
        self.history: list[Takeover] = []
        #: counted by the loop, for the notes of this broker
        self._non_persistent: int | None = None
        self._next_position = 0
        self._lags = LagSamples(self._lags_now)
        self._has_stopped = False
        #: what is to end when an operator has ordered a switch-over; None on standby, and after that
        self._serving: Serving | None = None
        self._make_drill: Callable[[], Drill] | None = None
        #: the one that runs now
        self._drill: Drill | None = None

    # ---------------------------------------------------------------------------- phases

    def stand_by(
        self,
        make_broker: Callable[[], Broker],
        make_journal: Callable[[Store], SharedJournal],
        policies: Callable[[], Policies],
        configuration_failure: Callable[[], str],
    ) -> Standby:
        """Begin to follow. The caller runs the standby that is returned in a thread."""
        store = self._make_store()
        self._has_stopped = False
        self._follower = Follower(store, make_broker)
        self._standby = Standby(
            store,
            self.membership,
            self._follower,
            member_id=self.addresses.id,
            role=self.role,
            make_journal=lambda: make_journal(store),
            policies=policies,
        )
        self._make_drill = lambda: Drill(
            self._make_store(), self.membership, make_broker, policies, configuration_failure
        )
        return self._standby

    def serve(self, taken: Taken, serving: Serving) -> None:
        """This broker serves from now on, by `serving`."""
        self._journal, self._broker = taken.journal, taken.broker
        self._unrecorded = UnrecordedCount(taken.broker)
        self._serving = serving
        self._standby = self._follower = self._make_drill = None
        self.history.insert(0, taken.takeover)
        self.each_second()
        self.membership.announce()

    def each_second(self) -> None:
        """Count what the notes of an active broker contain, and carry out an order of an operator."""
        if self._broker is None or self._unrecorded is None:
            return
        self._unrecorded.step()
        self._note(self._broker, self._unrecorded)
        self._lags.pass_second()
        successor = self.membership.find(self.membership.successor)
        if successor is not None and successor.alive and successor.id != self.addresses.id:
            self._hand_over(successor)

    def _lags_now(self) -> dict[str, int]:
        """The records that each standby has not read."""
        return {one.id: max(0, self._next_position - one.position) for one in self.standbys}

    def _note(self, broker: Broker, unrecorded: UnrecordedCount) -> None:
        self._next_position = broker.turn.next_position
        self._non_persistent = unrecorded.total

    def _hand_over(self, successor: Member) -> None:
        if self._serving is not None:
            log.warning(
                "an operator has ordered that %s takes over; this broker stops to serve", successor.id
            )
            self._serving.hand_over(successor)
            self._serving = None

    # ---------------------------------------------------------------------------- status

    @property
    def place(self) -> str:
        """The store of the journal, without secrets."""
        return self._store.description

    def _member(self) -> Member:
        """This broker, for the others. Called in the thread of the membership."""
        follower, journal = self._follower, self._journal
        if journal is not None:
            state, epoch, position, lag_s = ACTIVE, journal.epoch, self._next_position, 0.0
        else:
            state, epoch = STOPPED if self._has_stopped else STANDBY, 0
            position = follower.position if follower is not None else self._next_position
            lag_s = follower.lag_s if follower is not None else 0.0
        return Member(
            self.addresses.id,
            self.role,
            state,
            self.addresses.web,
            self.addresses.uris,
            epoch=epoch,
            position=position,
            lag_s=round(lag_s, 3),
            was_in_step=follower is None or follower.was_in_step,
            # Who has handed over, and is a standby already, still reports what was lost with it.
            non_persistent=self._non_persistent,
            lease_s=self._lease_s,
            has_database=self._configuration == DATABASE,
        )

    @property
    def is_active(self) -> bool:
        """True while this broker serves."""
        return self._journal is not None

    @property
    def active(self) -> Member | None:
        """The broker that serves, as far as that is known; None while the lease is free."""
        if self.is_active:
            return self._member()
        if self._standby is None or self._standby.is_free:
            return None
        found = [member for member in self.membership.alive if member.state == ACTIVE]
        return max(found, key=lambda member: member.epoch, default=None)

    @property
    def other_active(self) -> Member | None:
        """Another broker that holds the lease, as far as that is known; None while this one does."""
        if self._journal is not None and self._journal.is_held:
            return None
        others = (one for one in self.membership.alive if one.id != self.addresses.id)
        return next((one for one in others if one.state == ACTIVE), None)

    @property
    def follows(self) -> bool:
        """True on standby."""
        return self._standby is not None

    @property
    def taker(self) -> Member | None:
        """The broker that takes over from this one when it ends, or has done so: the one that an operator has
        chosen, or else the standby that is nearest to the journal's end."""
        chosen = self.membership.find(self.membership.successor)
        if chosen is not None and chosen.alive and chosen.id != self.addresses.id:
            return chosen
        return self.other_active or min(self.standbys, key=_distance, default=None)

    @property
    def standbys(self) -> list[Member]:
        """The brokers that run, on standby."""
        # The last note of this broker may be from before it took over.
        own = self.addresses.id if self.is_active else ""
        return [one for one in self.membership.alive if one.state == STANDBY and one.id != own]

    @property
    def failover_uris(self) -> tuple[str, ...]:
        """The addresses of all brokers that run, those of the active one first."""
        # The notes of this broker and of the one before it may be from before it took over.
        own = self.addresses.uris if self.is_active else ()
        found = [uri for member in self.membership.alive for uri in member.uris]
        return tuple(dict.fromkeys((*own, *found))) or self.addresses.uris

    @property
    def consoles(self) -> tuple[str, ...]:
        """The addresses of the consoles of all brokers that are known, running or not, in a lasting order;
        none if no other broker serves as this one."""
        if not self._needs_standby:
            return ()
        return tuple(sorted({self.addresses.web, *(member.web for member in self.membership.members)}))

    def failover_list(self) -> FailoverList:
        """The brokers for clients, the active one first."""
        active = self.active
        return {
            "name": self.name,
            "active": active.active_uris if active is not None else None,
            "uris": list(self.failover_uris),
            "brokers": [
                {"role": one.role, "state": one.state, "web": one.web, "uris": list(one.uris)}
                for one in self.membership.alive
            ],
        }

    def status(self) -> Mirrors:
        """The brokers that share the journal, their health, the lease, what would be lost, and takeovers."""
        active, end = self.active, self._end
        private, pause = self._private_journal(), self.membership.pause
        brokers = [_shown(member, end, self._lags.of(member.id)) for member in self.membership.members]
        facts = {"brokers": brokers, "private_journal": private, "needs_standby": self._needs_standby}
        return {
            "name": self.name,
            "id": self.addresses.id,
            "role": self.role,
            "state": ACTIVE if self.is_active else STANDBY,
            "journal": self.place,
            "health": health_of(MIRROR, facts),
            "lease_s": self._lease_s,
            "lease": self._lease(),
            "private_journal": private,
            "configuration": self._configuration,
            "brokers": brokers,
            "would_be_lost": {
                "persistent": 0,
                "non_persistent": active.non_persistent if active is not None else None,
            },
            "successor": self.membership.successor or None,
            "pause": None
            if pause is None
            else {"left_s": pause.left_s, "reason": pause.reason, "user": pause.user},
            "takeovers": [_shown_takeover(one) for one in self.history],
        }

    def _lease(self) -> MirrorLease | None:
        if self._journal is not None:
            left_s = self._journal.lease_left_s
            return {"holder": self.addresses.id, "epoch": self._journal.epoch, "left_s": round(left_s, 2)}
        lease = self._standby.lease if self._standby is not None else None
        if lease is None:
            return None
        return {"holder": lease.holder.name, "epoch": lease.epoch, "left_s": round(lease.left_s, 2)}

    def _private_journal(self) -> PrivateJournalStatus | None:
        found = self._journal.private if self._journal is not None else None
        if found is None:
            return None
        return {
            "place": found.place,
            "state": found.state,
            "pending_frames": found.pending_frames,
            "error": found.error,
        }

    async def find_new_active(self) -> Member | None:
        """The broker that has taken over from this one, as far as that can be found out now."""
        with suppress(JournalError, TimeoutError):
            async with asyncio.timeout(_LOOKUP_S):
                lease = await asyncio.to_thread(self._store.lease)
            if lease is not None and lease.holder.name != self.addresses.id:
                holder = lease.holder
                known = self.membership.find(holder.name)
                return known or Member(holder.name, 0, ACTIVE, "", (holder.address,), epoch=lease.epoch)
        return None

    async def refresh(self) -> None:
        """Read the timeline from the journal. Raises Refused while it cannot be reached."""
        try:
            self.history = await asyncio.to_thread(takeovers.history, self._store)
        except JournalError as error:
            raise _unreachable(error) from error

    # ------------------------------------------------------------------------- operators

    def choose_successor(self, member_id: str) -> Member:
        """The standby that would take over: the one with this id, or the one nearest to the journal's end.

        Raises Refused.
        """
        found = self.standbys
        if member_id:
            found = [one for one in found if one.id == member_id]
        if not found:
            which = f"{member_id[:100]!r} is not" if member_id else "there is no other broker"
            raise Refused("conflict", f"{which} on standby; GET mirrors shows those that are")
        chosen = min(found, key=_distance)
        if not chosen.is_in_step(self._end):
            behind = max(0, self._end - chosen.position)
            raise Refused(
                "conflict",
                f"{chosen.id} is not in step: {behind} records and {chosen.lag_s:.0f} s behind; switch over "
                "when it is in step",
            )
        return chosen

    @property
    def _end(self) -> int:
        """The end of the journal as the broker that serves knows it; 0 while none does."""
        active = self.active
        return active.position if active is not None else 0

    async def switch_over(self, successor: Member) -> None:
        """Have another broker take over without loss: the active one stops, and becomes a standby."""
        order = partial(self.membership.order, successor.id)
        serving = self._serving if successor.id != self.addresses.id else None
        if serving is None:
            await self._order(order)
            return
        # While the order is written, clients that go on sending would add to what is to be finished.
        serving.hold_input(True)
        try:
            await self._order(order)
        except BaseException:
            serving.hold_input(False)
            raise
        self._hand_over(successor)

    async def pause(self, for_s: float, reason: str, user: str) -> None:
        """Have no standby take over by itself for so many seconds. Raises Refused."""
        await self._order(partial(self.membership.begin_pause, for_s, reason, user))
        log.warning("takeovers are paused for %g s by %s: %s", for_s, user, reason or "no reason was given")

    async def resume(self) -> None:
        """Have standbys take over again. Raises Refused."""
        await self._order(self.membership.end_pause)
        log.warning("takeovers are not paused any more")

    async def _order(self, write: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(write)
        except JournalError as error:
            raise _unreachable(error) from error

    async def drill(self) -> list[Check]:
        """Try everything that a takeover by this standby needs, but the lease. Raises Refused."""
        if self._make_drill is None:
            raise Refused("conflict", "this broker is active; ask the standby that could take over")
        if self._drill is not None:
            raise Refused("conflict", "a drill runs already at this standby; wait for its end")
        self._drill = drill = self._make_drill()
        try:
            return await asyncio.to_thread(drill.run)
        finally:
            drill.stop()
            self._drill = None

    def take_over(self, epoch: int, reason: str) -> None:
        """Take the journal from its holder by force. Raises Refused where this broker is not on standby."""
        standby = self._standby
        if standby is None:
            raise Refused("conflict", "this broker is active; ask the standby that is to take over")
        lease = standby.lease
        if lease is None or lease.epoch != epoch:
            current = lease.epoch if lease is not None else 0
            raise Refused("conflict", f"the epoch is {current}, not {epoch}; read the status again")
        standby.order(Order(epoch, reason))

    async def stop_serving(self) -> None:
        """This broker does not serve any more; its journal is about to be released."""
        was_held = self._journal is not None and self._journal.is_held
        if self._broker is not None and self._unrecorded is not None:
            self._unrecorded.count_all()
            self._note(self._broker, self._unrecorded)
        self._journal = self._broker = self._unrecorded = self._serving = None
        self._has_stopped = True
        if not was_held:
            return  # another broker serves, or the journal cannot be reached
        try:
            await asyncio.to_thread(self.membership.beat)
        except JournalError as error:
            log.warning("the other brokers could not be notified that this broker has stopped: %s", error)

    def close(self) -> None:
        """End the membership."""
        if self._drill is not None:
            self._drill.stop()
        self._store.interrupt()
        self.membership.close()
        self._store.release()


def _unreachable(error: JournalError) -> Refused:
    return Refused("store-unavailable", f"the journal cannot be reached now: {error}")


def _distance(member: Member) -> tuple[int, float, str]:
    """A key by which the member that is nearest to the journal's end comes first."""
    return -member.position, member.lag_s, member.id


def _shown(member: Member, end: int, lags: list[int]) -> MirrorBroker:
    state = member.state if member.alive or member.state == STOPPED else UNREACHABLE
    return {
        "id": member.id,
        "role": member.role,
        "state": state,
        "web": member.web,
        "uris": list(member.uris),
        "position": member.position,
        "lag_records": max(0, end - member.position) if member.state == STANDBY else 0,
        "lags": lags,
        "lag_s": member.lag_s,
        "in_step": member.state != STANDBY or member.is_in_step(end),
        "seen_s": round(member.age_s, 1),
    }


def _shown_takeover(takeover: Takeover) -> TakeoverStatus:
    return {
        "at": rfc3339(takeover.at_s),
        "at_s": takeover.at_s,
        "epoch": takeover.epoch,
        "cause": takeover.cause,
        "broker": takeover.broker,
        "role": takeover.role,
        "former": takeover.former,
        "position": takeover.position,
        "took_s": takeover.took_s,
        "non_persistent_lost": takeover.non_persistent_lost,
        "records_lost": takeover.records_lost,
        "reason": takeover.reason,
        "detail": takeover.sentence,
    }
