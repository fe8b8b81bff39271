"""Pauses of takeovers, and drills: `mom mirror pause`, `resume` and `drill`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.mirror.follower import Follower
from broker_app.features.mirror.standby import Order, Standby, Taken
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.members.membership import Member, Membership
from broker_app.net.rest.node.mirror_status import ACTIVE, STANDBY
from tests.support.polling import poll

LEASE_S = 4.0


def at_once(call: Callable[..., object], *arguments: object) -> None:
    call(*arguments)


class Standing:
    """A journal that was served by `main` and is free, with takeovers paused, and a standby."""

    def __init__(self, place: Path, running: ThreadPoolExecutor, id: str) -> None:
        self._place = place
        self.main = self._journal("main")
        self.main.open()
        self.main.set_live_positions([])
        self.operator = Membership(FileStore(place, "B"), lambda: Member("operator", 1, ACTIVE, "", ()))
        self.operator.begin_pause(600, "a new disk", "admin")
        self.taker = self._journal(id)
        store = FileStore(place, "B")
        self.membership = Membership(FileStore(place, "B"), lambda: Member(id, -1, STANDBY, "", ()))
        self.standby = Standby(
            store,
            self.membership,
            Follower(store, lambda: Broker(policies=Policies())),
            member_id=id,
            role=-1,
            make_journal=lambda: self.taker,
            policies=Policies,
        )
        self.taken: Future[Taken | None] = running.submit(self.standby.run)
        poll(lambda: self.standby.has_followed)
        self.main.close()

    def _journal(self, holder: str) -> SharedJournal:
        store = FileStore(self._place, "B")
        return SharedJournal(store, Holder(holder), lease_s=LEASE_S, call_soon_threadsafe=at_once)

    def wait_until_refused(self) -> None:
        poll(lambda: self.standby.is_paused)
        assert not self.taken.done()

    def close(self) -> None:
        self.standby.stop()
        self.taken.result(20)
        self.taker.close()
        self.main.close()


@contextmanager
def standing(place: Path, id: str = "mirror") -> Iterator[Standing]:
    with ThreadPoolExecutor(1) as running:
        made = Standing(place, running, id)
        try:
            yield made
        finally:
            made.close()


def test_a_standby_takes_over_when_a_pause_is_ended(tmp_path: Path) -> None:
    with standing(tmp_path) as made:
        made.wait_until_refused()
        made.operator.end_pause()
        assert made.taken.result(20) is not None


def test_a_pause_ends_by_itself(tmp_path: Path) -> None:
    with standing(tmp_path) as made:
        made.wait_until_refused()
        made.operator.begin_pause(0.01, "", "admin")
        assert made.taken.result(20) is not None


def test_the_broker_that_served_last_serves_again_during_a_pause(tmp_path: Path) -> None:
    with standing(tmp_path, "main") as made:
        assert made.taken.result(20) is not None


def test_a_switchover_is_carried_out_during_a_pause(tmp_path: Path) -> None:
    with standing(tmp_path) as made:
        made.wait_until_refused()
        made.operator.order("mirror")
        made.membership.beat()
        assert made.taken.result(20) is not None


def test_a_forced_takeover_is_carried_out_during_a_pause(tmp_path: Path) -> None:
    with standing(tmp_path) as made:
        made.wait_until_refused()
        made.standby.order(Order(1, "it must serve"))
        assert made.taken.result(20) is not None


@pytest.mark.parametrize("for_s", [0.01, 600])
def test_a_pause_is_known_to_other_brokers_while_it_lasts(tmp_path: Path, for_s: float) -> None:
    with standing(tmp_path) as made:
        made.operator.begin_pause(for_s, "a new disk", "admin")

        def is_known() -> bool:
            made.membership.beat()
            return made.membership.pause is not None

        poll(lambda: is_known() == (for_s > 1))
