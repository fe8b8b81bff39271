"""The brokers that share a journal: each leaves a note about itself there, and reads those of the others."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple

from broker_app.journal.errors import JournalError
from broker_app.journal.store import Store
from broker_app.members import pause
from broker_app.members.pause import Pause
from broker_app.net.rest.node.mirror_status import ACTIVE, STANDBY, STOPPED

log = logging.getLogger(__name__)

#: seconds between two notes of a broker
BEAT_S: Final = 0.5
#: a broker whose note is older is not running, or cannot reach the journal
_ALIVE_S: Final = 5.0
#: a standby is in step if it has applied everything within so many seconds, but for so many records, which
#: it applies in about a second; notes are from different moments, so there are always some
IN_STEP_S: Final = 2.0
IN_STEP_RECORDS: Final = 100_000
#: notes of brokers that have not run for so long are deleted
_KEPT_S: Final = 24 * 3600.0

#: the last note waits so long for an answer of the journal
_TIMEOUT_S: Final = 1.0

_MEMBERS, _SUCCESSOR = "broker/", "successor"


class Member(NamedTuple):
    """One broker of a name. `id` is HOST:PORT of its web listener, `uris` are what clients connect to,
    `position` is the end of the journal as it knows it."""

    id: str
    role: int
    state: str
    web: str
    uris: tuple[str, ...]
    epoch: int = 0
    position: int = 0
    #: seconds since it had applied everything that is stored, or since it began to follow
    lag_s: float = 0.0
    #: whether it had applied everything that is stored at some time
    was_in_step: bool = True
    #: messages that wait only in its memory, or did when it last served; None if it has not served
    non_persistent: int | None = None
    #: of its settings, those that must be the same for all; None if they are not known
    lease_s: float | None = None
    has_database: bool | None = None
    #: seconds since this was written
    age_s: float = 0.0

    @property
    def alive(self) -> bool:
        """True if the broker runs and reaches the journal."""
        return self.state != STOPPED and self.age_s < _ALIVE_S

    def is_in_step(self, end: int) -> bool:
        """Return whether a standby could serve at once, when the journal ends at the position `end`."""
        behind = end - self.position
        return self.was_in_step and self.lag_s <= IN_STEP_S and behind <= IN_STEP_RECORDS

    def differences(self, other: Member) -> list[str]:
        """Sentences about settings that must be the same here and at another broker, and are not."""
        found = []
        if None not in (self.lease_s, other.lease_s) and self.lease_s != other.lease_s:
            there, here = f"{other.lease_s:g} at {other.id}", f"{self.lease_s:g} here"
            found.append(f"MOM_LEASE_S is {there} and {here}: set the same for all")
        if None not in (self.has_database, other.has_database) and self.has_database != other.has_database:
            has, lacks = (self.id, other.id) if self.has_database else (other.id, self.id)
            found.append(
                f"{has} has its configuration in MOM_DATABASE, and {lacks} has none: users and rules change "
                "with a takeover; set it for all or for none"
            )
        return found

    @property
    def active_uris(self) -> str:
        """The addresses for clients, as the header `active` has them."""
        return ",".join(self.uris)


class Membership:
    """Writes this broker's note twice a second and reads the others', in a thread with a store of its own.

    `describe` returns the note; it is called in that thread. `members` may be read in any thread.
    """

    def __init__(self, store: Store, describe: Callable[[], Member]) -> None:
        self._store = store
        self.describe = describe
        #: the other brokers and this one, the active one first
        self.members: tuple[Member, ...] = ()
        #: the broker that is to take over next by an operator's order; empty without an order
        self.successor = ""
        #: of takeovers, as it was read last; None without one
        self.pause: Pause | None = None
        #: sentences about brokers that run with other settings than this one
        self.differences: frozenset[str] = frozenset()
        self._closing = Event()
        #: set when the next note is to be written at once
        self._due = Event()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_reachable = True

    def start(self) -> None:
        """Write the first note, and continue in a thread."""
        self._thread = Thread(target=self._run, name="mirror-membership", daemon=True)
        self._thread.start()

    def close(self, state: str = STOPPED) -> None:
        """Write the last note, with `state`, and end."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)
            if self._thread.is_alive():
                self._is_reachable = False
                self._store.interrupt()
                self._thread.join()
            self._thread = None
        if self._is_reachable:
            try:
                self._write(self.describe()._replace(state=state))
            except JournalError as error:
                log.warning("the other brokers could not be notified that this broker has stopped: %s", error)
        self._store.release()

    def announce(self) -> None:
        """Have the next note written at once."""
        self._due.set()

    @property
    def alive(self) -> list[Member]:
        """The brokers that run, the active one first."""
        return [member for member in self.members if member.alive]

    def find(self, member_id: str) -> Member | None:
        """The broker with this id, running or not."""
        return next((member for member in self.members if member.id == member_id), None)

    def order(self, successor: str) -> None:
        """Have this broker take over next; an empty id cancels the order. Blocks. Raises JournalError."""
        if successor:
            self._store.put_note(_SUCCESSOR, successor.encode())
        else:
            self._store.drop_note(_SUCCESSOR)
        self.successor = successor

    def begin_pause(self, for_s: float, reason: str, user: str) -> None:
        """Pause takeovers for so many seconds. Blocks. Raises JournalError."""
        pause.begin(self._store, for_s, reason, user)
        self.pause = pause.find(self._store)

    def end_pause(self) -> None:
        """Have standbys take over again. Blocks. Raises JournalError."""
        pause.end(self._store)
        self.pause = None

    def beat(self) -> None:
        """Write this broker's note and read the others'. Blocks. Raises JournalError."""
        with self._lock:
            self._beat()

    def _beat(self) -> None:
        own = self.describe()
        self._write(own)
        notes = self._store.notes(_MEMBERS)
        self.members = _in_order(_parsed(note.content, note.age_s) for note in notes.values())
        found = frozenset(detail for member in self.alive for detail in own.differences(member))
        for detail in sorted(found - self.differences):
            log.warning("%s", detail)
        self.differences = found
        ordered = self._store.notes(_SUCCESSOR).get(_SUCCESSOR)
        self.successor = ordered.content.decode() if ordered is not None else ""
        self.pause = pause.find(self._store)
        for key, note in notes.items():
            if note.age_s > _KEPT_S:
                self._store.drop_note(key)

    def _write(self, member: Member) -> None:
        self._store.put_note(_MEMBERS + member.id, json.dumps(member._asdict()).encode())

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            try:
                self.beat()
                self._is_reachable = True
            except JournalError as error:
                if self._is_reachable:
                    log.warning("the brokers that share the journal cannot be read now: %s", error)
                self._is_reachable = False
            self._due.wait(max(0.05, BEAT_S - (time.monotonic() - begun)))
            self._due.clear()
            if self._closing.is_set():
                return


def members_in(store: Store) -> tuple[Member, ...]:
    """The brokers that have used a journal lately, the active one first. Blocks. Raises JournalError."""
    return _in_order(_parsed(note.content, note.age_s) for note in store.notes(_MEMBERS).values())


def _in_order(members: Any) -> tuple[Member, ...]:
    found: Sequence[Member] = [member for member in members if member is not None]
    rank = {ACTIVE: 0, STANDBY: 1, STOPPED: 2}
    return tuple(sorted(found, key=lambda member: (not member.alive, rank.get(member.state, 3), member.id)))


def _parsed(content: bytes, age_s: float) -> Member | None:
    """The member that a note describes; None for a note of another version of MOM."""
    try:
        values = json.loads(content)
        known = {name: values[name] for name in Member._fields if name in values}
        return Member(**{**known, "uris": tuple(known["uris"]), "age_s": age_s})
    except (ValueError, TypeError, KeyError):
        return None
