"""The lease of the master of message channels: who has it, and when it goes to another member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from broker_app.features.enhanced_cluster.mastership import Mastership, Standing, store_name
from broker_app.journal.stores.directory.store import FileStore
from broker_app.storage.factory import store_at
from tests.support.clock import Clock
from tests.support.polling import poll
from tests.support.stores import STORES

SERVES = Standing(serves=True)
WITH_HANDLERS = Standing(serves=True, has_handlers=True)
IDLE = Standing(serves=True, others_have=True)
#: longer than a test takes, and shorter
LONG_S, SHORT_S = 60.0, 0.2

Make = Callable[..., Mastership]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes members of one cluster."""
    made: list[Mastership] = []

    def member(name: str, standing: Standing, lease_s: float = LONG_S, **more: Clock) -> Mastership:
        store = partial(FileStore, tmp_path, store_name("shop"))
        made.append(Mastership(store, name, lease_s, **more))
        made[-1].standing = standing
        return made[-1]

    yield member
    for one in made:
        one.close()


def test_a_member_with_handlers_is_the_master_at_once_and_all_know_it(make: Make) -> None:
    b1, b2 = make("b1", SERVES), make("b2", WITH_HANDLERS)
    for member in (b1, b2, b1):
        member.look()
    assert (b1.master, b2.master) == ("b2", "b2")
    b1.standing = WITH_HANDLERS
    for member in (b1, b2):
        member.look()
    assert (b1.master, b2.master) == ("b2", "b2"), "the master moved although it serves"


def test_without_handlers_anywhere_a_member_that_serves_is_the_master(make: Make) -> None:
    b1, b2 = make("b1", Standing(serves=False)), make("b2", SERVES)
    masters = []
    for _ in range(4):
        b1.look()
        b2.look()
        masters.append(b2.master)
    assert masters == ["", "", "b2", "b2"]
    assert b1.master == "b2"


def test_a_member_that_stops_in_good_order_is_followed_at_once(make: Make) -> None:
    b1, b2 = make("b1", WITH_HANDLERS), make("b2", WITH_HANDLERS)
    b1.look()
    b2.look()
    assert b2.master == "b1"
    b1.close()
    b2.look()
    assert b2.master == "b2"
    b1 = make("b1", WITH_HANDLERS)
    b1.look()
    assert b1.master == "b2"


def test_a_member_that_dies_is_followed_when_its_lease_has_ended_and_learns_of_it(make: Make) -> None:
    b1, b2 = make("b1", WITH_HANDLERS, SHORT_S), make("b2", WITH_HANDLERS, SHORT_S)
    b1.look()
    b2.look()
    assert b2.master == "b1"

    def follows() -> bool:
        b2.look()
        return b2.master == "b2"

    poll(follows, 10)
    assert b1.master == "", "two members are the master"
    b2.look()
    b1.look()
    assert b1.master in ("b2", "")


def test_the_holder_of_a_lease_that_it_has_not_renewed_is_the_master_no_longer(make: Make) -> None:
    clock = Clock()
    b1 = make("b1", WITH_HANDLERS, clock=clock)
    b1.look()
    assert b1.master == "b1"
    clock.now += LONG_S
    assert b1.master == ""
    b1.look()
    assert b1.master == "b1"


@pytest.mark.parametrize(("standing", "looks"), [(IDLE, 3), (Standing(has_handlers=True), 1)])
def test_a_master_without_handlers_or_clients_gives_way_to_one_that_has_them(
    make: Make, standing: Standing, looks: int
) -> None:
    b1, b2 = make("b1", WITH_HANDLERS), make("b2", WITH_HANDLERS)
    b1.look()
    b1.standing = standing
    for _ in range(looks):
        b2.look()
        assert b2.master == "b1"
        b1.look()
    b2.look()
    b1.look()
    assert (b1.master, b2.master) == ("b2", "b2")


@pytest.mark.process
@pytest.mark.parametrize("store", sorted(STORES))
def test_each_store_passes_the_lease_from_one_member_to_another(store: str) -> None:
    with STORES[store]() as stores:
        both = [
            Mastership(partial(store_at, stores.url(), store_name("shop")), name, LONG_S)
            for name in ("b1", "b2")
        ]
        b1, b2 = both
        b1.standing = b2.standing = WITH_HANDLERS
        b1.look()
        b2.look()
        assert [one.master for one in both] == ["b1", "b1"]
        b1.standing = Standing()
        for one in (b1, b2, b1):  # the first gives it back, and sees at once who has it
            one.look()
        assert [one.master for one in both] == ["b2", "b2"]
        b2.close()
        b1.standing = WITH_HANDLERS
        b1.look()
        assert b1.master == "b1"
        b1.close()
