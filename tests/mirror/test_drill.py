"""Drills: what a standby finds out about itself without a takeover, over each store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_app.features.mirror.drill import Check, Drill
from broker_app.journal.errors import JournalFailed
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, Store
from broker_app.members.membership import Member, Membership
from broker_app.net.rest.node.mirror_status import STANDBY
from broker_app.storage.factory import store_at
from tests.mirror.test_follower import Recording
from tests.support.stores import STORES

LEASE_S = 60.0


@pytest.fixture(scope="module", params=STORES)
def address(request: pytest.FixtureRequest, processes: None) -> Iterator[str]:
    with STORES[request.param]() as stores:
        yield stores.url()


@pytest.fixture
def main(address: str, request: pytest.FixtureRequest) -> Iterator[SharedJournal]:
    """The journal of the broker that serves: two of three messages wait."""
    journal = SharedJournal(store_at(address, request.node.name[5:25]), Holder("main"), lease_s=LEASE_S)
    journal.open()
    journal.set_live_positions([])
    yield journal
    journal.close()


class Standby:
    """The broker that serves, and a drill of its standby."""

    def __init__(self, main: SharedJournal, store: Store, failure: str = "") -> None:
        self.broker = Recording(main)
        own = Member("mirror", -1, STANDBY, "", ())
        policies = self.broker.broker.turn.policies
        self._membership = Membership(store, lambda: own)
        self.drill = Drill(store, self._membership, self.broker.new_broker, lambda: policies, lambda: failure)
        client = self.broker.client()
        for body in (b"1", b"2", b"3"):
            client.publish("/queue/a", body)
        client.subscribe("/queue/a", credit=1)
        client.settle(*client.tags)

    def run(self) -> dict[str, Check]:
        return {check.name: check for check in self.drill.run()}


@pytest.fixture
def store(main: SharedJournal, address: str, request: pytest.FixtureRequest) -> Store:
    """That of the standby."""
    return store_at(address, request.node.name[5:25])


def test_a_standby_that_could_serve_has_read_what_waits(main: SharedJournal, store: Store) -> None:
    found = Standby(main, store).run()
    assert all(check.ok for check in found.values()), found
    assert set(found) == {"store", "journal", "configuration", "settings"}
    assert "queues: 1, messages that wait: 2, of them read: 2" in found["journal"].detail
    assert main.is_held and main.epoch == 1


def test_a_configuration_that_has_not_arrived_is_reported(main: SharedJournal, store: Store) -> None:
    found = Standby(main, store, failure="it is sealed").run()
    assert [name for name, check in found.items() if not check.ok] == ["configuration"]
    assert found["configuration"].detail.endswith("it is sealed")


def test_messages_that_cannot_be_read_are_reported(
    main: SharedJournal, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = Standby(main, store)
    monkeypatch.setattr(store, "load", lambda keys: {})
    found = standby.run()["journal"]
    assert not found.ok
    assert "2 of 2 messages cannot be read; the first:" in found.detail


def test_a_store_that_takes_no_writes_is_reported(
    main: SharedJournal, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(key: str, content: bytes) -> None:
        raise JournalFailed("read-only")

    standby = Standby(main, store)
    monkeypatch.setattr(store, "put_note", refuse)
    found = standby.run()
    assert (found["store"].ok, found["store"].detail, "journal" in found) == (False, "read-only", False)
