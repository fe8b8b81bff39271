"""A drill: a standby tries everything that a takeover needs, except to take the lease.

It has a store and a state of its own: the broker that serves does not notice, nor what this standby follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from threading import Event
from typing import Final, NamedTuple

from broker_app.base import durations
from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import live_positions
from broker_app.core.policy import Policies
from broker_app.features.mirror.follower import Follower
from broker_app.journal.errors import Busy, JournalError, NoSuchPosition
from broker_app.journal.log.segment import SegmentIndex
from broker_app.journal.port import Damaged
from broker_app.journal.shared.frame_reader import FrameReader
from broker_app.journal.shared.shared_journal import CACHE_BYTES, segments_of
from broker_app.journal.store import Store
from broker_app.members.membership import Membership

#: messages that are read
SAMPLE: Final = 500
#: seconds in which the journal must have been applied
LIMIT_S: Final = 120.0
#: the active broker may move or delete what is being read: it is looked for again so often
_ATTEMPTS: Final = 3


class Check(NamedTuple):
    """One thing that a takeover needs; `detail` is a sentence."""

    name: str
    ok: bool
    detail: str


class Failed(Exception):
    """A check that failed; the text is its detail."""


class Drill:
    """Runs in a thread. `configuration_failure` returns why the configuration of the active broker is not
    here, empty if it is."""

    def __init__(
        self,
        store: Store,
        membership: Membership,
        make_broker: Callable[[], Broker],
        policies: Callable[[], Policies],
        configuration_failure: Callable[[], str],
    ) -> None:
        self._store = store
        self._membership = membership
        self._make_broker = make_broker
        self._policies = policies
        self._configuration_failure = configuration_failure
        self._stopping = Event()

    def run(self) -> list[Check]:
        """The result of each check; those that need one that failed are left out. Blocks."""
        try:
            checks = [_checked("store", self._check_store)]
            if checks[0].ok:
                checks.append(_checked("journal", self._check_journal))
            checks.append(_checked("configuration", self._check_configuration))
            checks.append(_checked("settings", self._check_settings))
            return checks
        finally:
            self._store.release()

    def stop(self) -> None:
        """Have `run` return soon."""
        self._stopping.set()
        self._store.interrupt()

    def _check_store(self) -> str:
        key = f"drill/{id(self):x}"
        began = time.monotonic()
        self._store.lease()
        self._store.put_note(key, b"")
        self._store.drop_note(key)
        return f"it is read and written; that took {(time.monotonic() - began) * 1000:.0f} ms"

    def _check_configuration(self) -> str:
        if failure := self._configuration_failure():
            raise Failed(f"it is not that of the active broker: {failure}")
        return "users, rules and bridges are those of the active broker"

    def _check_settings(self) -> str:
        if differences := self._membership.differences:
            raise Failed("; ".join(sorted(differences)))
        return "those that must be the same at all brokers are"

    def _check_journal(self) -> str:
        """Apply all of it and what follows the lease, and read messages that wait."""
        began = time.monotonic()
        for _ in range(_ATTEMPTS):
            broker = self._applied(began + LIMIT_S)
            spent = durations.in_words(time.monotonic() - began)
            wanted = list(sample(broker))
            unread = self._read(wanted)
            if not unread:
                count = sum(map(len, live_positions(broker)))
                return (
                    f"applied from its beginning within {spent}; queues: {len(broker.destinations.queues)}, "
                    f"messages that wait: {count}, of them read: {len(wanted)}"
                )
            # They may have been consumed, and their space reclaimed, since the journal was applied.
        raise Failed(f"{len(unread)} of {len(wanted)} messages cannot be read; the first: {unread[0]}")

    def _applied(self, until: float) -> Broker:
        """The broker that serves after a takeover now."""
        follower = Follower(self._store, self._make_broker)
        while not follower.catch_up():
            if self._stopping.is_set() or time.monotonic() > until:
                raise Failed(f"within {LIMIT_S:.0f} s it was applied only up to position {follower.position}")
        return follower.rehearse(self._policies())

    def _read(self, positions: list[int]) -> list[str]:
        """Reasons why some of them cannot be read."""
        index = SegmentIndex()
        for segment in segments_of(self._store.rows()):
            index.add(segment)
        reader = FrameReader(self._store, index, CACHE_BYTES, None)
        unread: list[str] = []

        def found(records: list[bytes | Damaged] | None, error: Exception | None) -> None:
            if error is not None and not isinstance(error, NoSuchPosition | Busy):
                raise error
            unread.extend([str(error)] if records is None else _damages(records))

        for position in positions:
            reader.read([position], found)
        return unread


def sample(broker: Broker) -> Iterator[int]:
    """At most SAMPLE positions of messages that wait, at equal distances."""
    count = sum(map(len, live_positions(broker)))
    everything = (position for chunk in live_positions(broker) for position in chunk)
    return islice(everything, 0, None, -(-count // SAMPLE) or 1)


def _damages(records: list[bytes | Damaged]) -> Iterator[str]:
    return (record.why for record in records if isinstance(record, Damaged))


def _checked(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except (Failed, JournalError, ValueError) as failure:
        return Check(name, False, str(failure))
