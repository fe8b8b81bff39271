"""A standby and the lease of a journal: when it takes over, and when it waits."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.mirror.follower import Follower
from broker_app.features.mirror.standby import Standby, Taken
from broker_app.journal.files import Files
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.members.membership import Member, Membership
from broker_app.net.rest.node.mirror_status import ACTIVE, STANDBY
from tests.support.polling import poll

#: it is renewed four times as often
LEASE_S = 4.0


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


def journal_at(place: Path, holder: str) -> SharedJournal:
    return SharedJournal(FileStore(place, "B"), Holder(holder), lease_s=LEASE_S, call_soon_threadsafe=at_once)


class Pair:
    """The journal of a main that serves, and a standby that follows it in a thread."""

    def __init__(self, place: Path, running: ThreadPoolExecutor) -> None:
        self._place = place
        self.main = journal_at(place, "main")
        self.main.open()
        self.main.set_live_positions([])
        self.taker = journal_at(place, "mirror")
        self.store = store = FileStore(place, "B")
        own = Member("mirror", -1, STANDBY, "", ())
        self.standby = Standby(
            store,
            Membership(FileStore(place, "B"), lambda: own),
            Follower(store, lambda: Broker(policies=Policies())),
            member_id="mirror",
            role=-1,
            make_journal=lambda: self.taker,
            policies=Policies,
        )
        self.taken: Future[Taken | None] = running.submit(self.standby.run)
        poll(lambda: self.standby.has_followed)

    @property
    def lease(self) -> Path:
        (found,) = self._place.glob("mom_journal_B/epoch-*/lease")
        return found

    def wait_for_renewal(self) -> None:
        before = self.lease.stat().st_mtime
        poll(lambda: self.lease.stat().st_mtime > before)

    def close(self) -> None:
        self.standby.stop()
        self.main.close()
        self.taker.close()


@contextmanager
def pair_at(place: Path) -> Iterator[Pair]:
    with ThreadPoolExecutor(1) as running:
        pair = Pair(place, running)
        try:
            yield pair
        finally:
            pair.close()


def test_a_clock_of_the_store_that_is_set_forward_ends_no_lease_that_its_holder_counts_on(
    tmp_path: Path,
) -> None:
    with pair_at(tmp_path) as pair:
        pair.wait_for_renewal()
        # By the clock of the store, an hour has passed since then.
        hour_ago = time.time() - 3600
        os.utime(pair.lease, (hour_ago, hour_ago))
        pair.wait_for_renewal()
        assert pair.main.is_held
        assert not pair.taken.done()
        assert pair.standby.lease is not None and pair.standby.lease.epoch == 1


def test_an_order_ends_with_a_takeover_although_another_broker_was_to_carry_it_out(tmp_path: Path) -> None:
    operator = Membership(FileStore(tmp_path, "B"), lambda: Member("main", 1, ACTIVE, "", ()))
    with pair_at(tmp_path) as pair:
        operator.order("a broker that has ended")
        pair.main.close()
        assert pair.taken.result(20) is not None
        operator.beat()
        assert operator.successor == ""


def test_a_lease_that_was_given_back_is_taken_at_once(tmp_path: Path) -> None:
    with pair_at(tmp_path) as pair:
        pair.wait_for_renewal()
        released_at = time.monotonic()
        pair.main.close()
        taken = pair.taken.result(20)
        assert time.monotonic() - released_at < LEASE_S / 2
        assert taken is not None
        assert taken.takeover.took_s < LEASE_S / 2
        assert taken.takeover.epoch == 2


def test_a_standby_whose_store_has_lost_the_journal_does_not_serve_an_empty_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pair_at(tmp_path) as pair:
        pair.wait_for_renewal()
        # As on a machine where the directory is not mounted any more.
        (tmp_path / "mom_journal_B").rename(tmp_path / "elsewhere")
        poll(lambda: "the journal has disappeared from its store" in caplog.text)
        assert list(tmp_path.iterdir()) == [tmp_path / "elsewhere"]
        (tmp_path / "elsewhere").rename(tmp_path / "mom_journal_B")
        pair.main.close()
        taken = pair.taken.result(20)
        assert taken is not None and taken.takeover.epoch == 2


def test_a_standby_waits_while_its_store_has_errors_and_does_not_ask_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    def fail(home: Files) -> None:
        nonlocal asked
        asked += 1
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with pair_at(tmp_path) as pair:
        with monkeypatch.context() as broken:
            broken.setattr(pair.store, "_lease_of", fail)
            poll(lambda: asked >= 4)
            began, before = time.monotonic(), asked
            poll(lambda: asked >= before + 4)
            assert time.monotonic() - began > 0.5
        assert caplog.text.count("the journal cannot be followed now: directory") == 1
        assert "Stale file handle" in caplog.text
        pair.main.close()
        assert pair.taken.result(20) is not None
