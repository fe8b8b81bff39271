"""The master of message channels in an enhanced cluster: the member that holds a lease in their store.

No journal is in it. When its holder has died, stopped or is quiesced, another member takes it: at once if it
has handlers of channels, and a moment later if it has none, so that one that has them comes first. A holder
without handlers gives it back when another member has some.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, NamedTuple

from broker_app.base.internal_errors import internal_errors
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.lease import seconds
from broker_app.journal.store import Fenced, Holder, LeaseHeld, LeaseState, Store

log = logging.getLogger(__name__)

#: looks at the lease while it lasts; its holder renews it then
_LOOKS: Final = 4
#: looks for which a member without handlers waits: before it takes the lease, and before it gives it back
_PATIENCE: Final = 2


class Standing(NamedTuple):
    """The state of this broker: it serves clients or not; there are handlers at it, or at other members."""

    serves: bool = False
    has_handlers: bool = False
    others_have: bool = False


class _Seen(NamedTuple):
    """The master, and when its lease ends, by the clock of this broker."""

    name: str
    until: float


class Mastership:
    """Takes the lease, renews it, and knows who has it, in a thread of its own; the loop keeps `standing`.

    `clock` is in seconds, and runs while the machine sleeps.
    """

    def __init__(
        self,
        make_store: Callable[[], Store],
        name: str,
        lease_s: float,
        clock: Callable[[], float] = seconds,
    ) -> None:
        self._make_store = make_store
        self._store = make_store()
        self._name = name
        # Not that of an earlier start: what that had granted to it is not this one's.
        self._holder = Holder(f"{name}/{secrets.token_hex(8)}", name)
        self._lease_s = lease_s
        self._clock = clock
        self.standing = Standing()
        self._seen = _Seen("", 0.0)
        self._is_held = False
        #: looks in a row that found the lease free, or this member its idle holder
        self._looks = 0
        self._unreachable = False
        self._closing = Event()
        self._thread: Thread | None = None

    @property
    def master(self) -> str:
        """The name of the master; empty while there is none, or it is not known. The holder sees
        itself as the master no longer than until another member can take the lease."""
        seen = self._seen
        return seen.name if self._clock() < seen.until else ""

    def start(self) -> None:
        """Begin to look."""
        self._thread = Thread(target=self._run, name="cluster-master", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let another member have the lease, and end. Blocks."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._seen = _Seen("", 0.0)
        self._store.release()

    def _run(self) -> None:
        while True:
            try:
                self.look()
                self._unreachable = False
            except JournalError as error:
                if not self._unreachable:
                    log.warning("the master of message channels is not known now: %s", error)
                self._unreachable = True
            except Exception as error:  # or this broker would never be the master again
                internal_errors.note("the lease of the master of message channels", error)
            if self._closing.wait(self._lease_s / _LOOKS):
                return

    def look(self) -> None:
        """Renew the lease, or take it if it is free and this member may, or see who has it. Blocks. Raises
        JournalError."""
        asked_at = self._clock()
        if self._is_held:
            try:
                self._store.renew(self._lease_s)
            except Fenced:
                self._is_held = False
            else:
                self._seen = _Seen(self._name, asked_at + self._lease_s)
                self._give_way()
                return
        state = self._store.lease()
        if state is not None and not state.is_released and state.left_s > 0:
            self._note(state, asked_at)
            return
        self._looks += 1
        standing = self.standing
        if standing.serves and (standing.has_handlers or self._looks > _PATIENCE):
            self._take(asked_at)

    def _give_way(self) -> None:
        """Give the lease back if another member is to have it."""
        standing = self.standing
        is_idle = standing.others_have and not standing.has_handlers
        self._looks = self._looks + 1 if is_idle else 0
        if standing.serves and self._looks <= _PATIENCE:
            return
        log.info("this broker is the master of message channels no longer: another member is to be")
        self._is_held, self._looks, self._seen = False, 0, _Seen("", 0.0)
        self._store.release()
        self._store = self._make_store()

    def _take(self, asked_at: float) -> None:
        try:
            self._store.acquire(self._holder, self._lease_s)
        except LeaseHeld as held:
            self._note(held.state, asked_at)
            return
        self._is_held, self._looks = True, 0
        self._seen = _Seen(self._name, asked_at + self._lease_s)
        log.info("this broker is the master of message channels")

    def _note(self, state: LeaseState, asked_at: float) -> None:
        self._looks = 0
        self._seen = _Seen(state.holder.address, asked_at + state.left_s)


def store_name(cluster_id: str) -> str:
    """The name of the store of the lease: no broker can have it."""
    return f"{cluster_id}.~master"
