"""Which standby is in step, and which of several takes over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.mirror.follower import Follower
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.standby import _AHEAD_WAIT_S, Standby, Taken
from broker_app.features.mirror.unrecorded_count import UnrecordedCount
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.members.addresses import Addresses
from broker_app.members.membership import IN_STEP_RECORDS, Member, Membership
from broker_app.net.rest.node.mirror_status import READABLE, STANDBY
from tests.support.polling import poll

LEASE_S = 4.0


def at_once(call: Callable[..., object], *arguments: object) -> None:
    call(*arguments)


def journal_at(place: Path, holder: str) -> SharedJournal:
    return SharedJournal(FileStore(place, "B"), Holder(holder), lease_s=LEASE_S, call_soon_threadsafe=at_once)


@pytest.fixture
def main(tmp_path: Path) -> Iterator[SharedJournal]:
    journal = journal_at(tmp_path, "main")
    journal.open()
    journal.set_live_positions([])
    yield journal
    journal.close()


class HeldFollower(Follower):
    """Applies something only while `lets` is set."""

    def __init__(self, store: FileStore) -> None:
        super().__init__(store, lambda: Broker(policies=Policies()))
        self.lets = Event()

    def catch_up(self) -> bool:
        return self.lets.wait(0.01) and super().catch_up()


class Taking:
    """A standby in a thread."""

    def __init__(self, place: Path, id: str, running: ThreadPoolExecutor) -> None:
        store = FileStore(place, "B")
        self.journal = journal_at(place, id)
        self.follower = HeldFollower(store)
        self.lets = self.follower.lets
        self.membership = Membership(
            FileStore(place, "B"),
            lambda: Member(id, -1, STANDBY, "", (), was_in_step=self.follower.was_in_step),
        )
        self.membership.start()
        self.standby = Standby(
            store,
            self.membership,
            self.follower,
            member_id=id,
            role=-1,
            make_journal=lambda: self.journal,
            policies=Policies,
        )
        self.taken: Future[Taken | None] = running.submit(self.standby.run)
        poll(lambda: self.standby.has_followed)

    def close(self) -> None:
        self.standby.stop()
        self.taken.result(20)
        self.membership.close()
        self.journal.close()


@pytest.fixture
def standbys(main: SharedJournal, tmp_path: Path) -> Iterator[tuple[Taking, Taking]]:
    """Two that know each other; neither has applied anything."""
    with ThreadPoolExecutor(2) as running, ExitStack() as closing:
        pair = []
        for id in ("behind", "ahead"):
            pair.append(Taking(tmp_path, id, running))
            closing.callback(pair[-1].close)
        poll(lambda: all(len(one.membership.alive) == 2 for one in pair))
        yield pair[0], pair[1]


@pytest.fixture
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is behind waits longer than a busy machine takes for a step of a test."""
    monkeypatch.setattr("broker_app.features.mirror.standby._AHEAD_WAIT_S", 600.0)


def test_the_standby_that_has_applied_everything_takes_over(
    long_wait: None, main: SharedJournal, standbys: tuple[Taking, Taking]
) -> None:
    behind, ahead = standbys
    main.close()
    poll(lambda: behind.standby.is_free and ahead.standby.is_free)
    assert not behind.taken.done()
    ahead.lets.set()
    assert ahead.taken.result(20) is not None
    assert not behind.taken.done()


def test_a_standby_that_was_behind_takes_over_when_it_has_applied_everything(
    long_wait: None, main: SharedJournal, standbys: tuple[Taking, Taking]
) -> None:
    behind, _ = standbys
    main.close()
    poll(lambda: behind.standby.is_free)
    behind.lets.set()
    assert behind.taken.result(20) is not None


def test_a_standby_that_is_behind_waits_a_bounded_time_for_one_ahead_that_does_not_take_over(
    main: SharedJournal, standbys: tuple[Taking, Taking]
) -> None:
    behind, ahead = standbys
    ahead.lets.set()
    poll(lambda: ahead.follower.has_all)
    ahead.standby.stop()
    assert ahead.taken.result(20) is None
    held_at = time.monotonic()
    main.close()
    assert behind.taken.result(20) is not None
    assert time.monotonic() - held_at > _AHEAD_WAIT_S
    assert len(ahead.membership.alive) == 2, "it was alive all the time"


def test_of_standbys_that_are_all_behind_one_takes_over_in_bounded_time(
    main: SharedJournal, standbys: tuple[Taking, Taking]
) -> None:
    main.close()
    poll(lambda: any(one.taken.done() for one in standbys))
    (taken,) = (one.taken.result() for one in standbys if one.taken.done())
    assert taken is not None and not any(one.lets.is_set() for one in standbys)


def test_the_only_standby_takes_over_at_once_though_it_is_behind(
    main: SharedJournal, standbys: tuple[Taking, Taking]
) -> None:
    behind, ahead = standbys
    ahead.close()
    poll(lambda: len(behind.membership.alive) == 1)
    main.close()
    assert behind.taken.result(20) is not None


def test_a_standby_that_has_applied_nothing_yet_is_not_in_step(main: SharedJournal, tmp_path: Path) -> None:
    mirror = Mirror(
        "B",
        -1,
        LEASE_S,
        Addresses("new", "", ()),
        lambda: FileStore(tmp_path, "B"),
        configuration=READABLE,
    )
    try:
        standby = mirror.stand_by(
            lambda: Broker(policies=Policies()), lambda _: journal_at(tmp_path, "new"), Policies, str
        )
        mirror.membership.beat()
        (shown,) = mirror.status()["brokers"]
        assert not shown["in_step"]
        with pytest.raises(Refused, match="new is not in step"):
            mirror.choose_successor("new")
        assert standby._follower.catch_up()
        mirror.membership.beat()
        assert mirror.choose_successor("new").id == "new"
    finally:
        mirror.close()


def test_a_broker_that_has_handed_over_still_reports_what_was_lost_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnrecordedCount, "count_all", lambda counted: setattr(counted, "total", 3))
    mirror = Mirror(
        *("B", 1, LEASE_S, Addresses("main", "", ()), lambda: FileStore(tmp_path, "B")),
        configuration=READABLE,
    )

    def stand_by() -> Standby:
        return mirror.stand_by(
            lambda: Broker(policies=Policies()), lambda _: journal_at(tmp_path, "main"), Policies, str
        )

    try:
        taken = stand_by().run()
        assert taken is not None
        mirror.serve(taken, NoClients())
        asyncio.run(mirror.stop_serving())
        taken.journal.close()
        stand_by()
        mirror.membership.beat()
        (former,) = mirror.membership.members
        assert (former.state, former.non_persistent) == (STANDBY, 3)
    finally:
        mirror.close()


class NoClients:
    """Serves no clients, and is never handed over."""

    def hold_input(self, on: bool) -> None:
        """Nothing is read."""

    def hand_over(self, successor: Member) -> None:
        """Nothing ends."""


def test_in_step_is_a_matter_of_records_as_well() -> None:
    member = Member("one", -1, STANDBY, "", (), position=1)
    assert member.is_in_step(IN_STEP_RECORDS)
    assert not member.is_in_step(IN_STEP_RECORDS + 2)
