"""Journals that none needs any more: they are deleted with their notes, and no others are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.enhanced_cluster.journal_watch import JournalWatch
from broker_app.features.enhanced_cluster.leases import Leases
from broker_app.features.enhanced_cluster.registry import JournalNote, JournalState, Registry, registry_name
from broker_app.features.enhanced_cluster.removal import Removal, superseded
from broker_app.features.enhanced_cluster.takeover import OwnBroker
from broker_app.journal.log import cursors
from broker_app.journal.store import ErasableStore, Fenced, Holder
from broker_app.storage.factory import store_at
from tests.support.polling import poll


class Shop:
    """The store of an enhanced cluster, in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file:{folder}"
        self.registry = Registry(self.store(registry_name("shop")))
        #: the members that b2 was to forget
        self.gone: list[str] = []

    def store(self, journal: str) -> ErasableStore:
        return store_at(self.url, journal)

    def note(self, generation: int, state: JournalState, *, epoch: int = 2) -> JournalNote:
        """Note a journal of b1, which b3 has taken over if it is drained."""
        holder = "b3" if state == "drained" else "b1"
        made = JournalNote(
            journal=f"shop.b1.{generation}" if generation else "shop.b1",
            member="b1",
            generation=generation,
            holder=holder,
            address=f"{holder}:1",
            state=state,
            epoch=epoch,
        )
        self.registry.write(made)
        return made

    def journal(self, generation: int, state: JournalState) -> JournalNote:
        """The same, with the journal."""
        made = self.note(generation, state)
        store = self.store(made.journal)
        store.acquire(Holder("b1"), 60)
        store.append(1, 1, 1, b"settled")
        store.release()
        return made

    def removal(self) -> Removal:
        return Removal(self.registry, Leases(self.store), self.store, Holder("b2"), 60)

    def prune(self) -> None:
        self.removal().prune(self.registry.journals())

    @property
    def noted(self) -> list[str]:
        return sorted(seen.note.journal for seen in self.registry.journals())

    @property
    def stored(self) -> list[str]:
        names = sorted(path.name.removeprefix("mom_journal_") for path in self.folder.iterdir())
        return [name for name in names if "~" not in name]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.registry.close()


@contextmanager
def watching(shop: Shop) -> Iterator[JournalWatch]:
    """The watch of b2."""
    config = Config(
        name="b2",
        journal=shop.url,
        cluster_id="shop",
        cluster_port=1,
        cluster_heartbeat_interval=0.1,
        cluster_monitor_interval=0.1,
    )
    watch = JournalWatch(
        *(config, OwnBroker("b2", "b2:1", ()), lambda call, *args: call(*args)),
        make_broker=Broker,
        policies=Policies,
        may_take=lambda: True,
        taken=lambda _: None,
        found=lambda _: None,
        gone=shop.gone.append,
    )
    watch.start(1)
    try:
        yield watch
    finally:
        watch.close()
        watch.close_stores()


def test_of_a_member_that_was_taken_over_many_times_two_journals_are_left(shop: Shop) -> None:
    for generation in range(5):
        shop.journal(generation, "drained")
    shop.journal(5, "kept")
    with watching(shop):
        poll(lambda: shop.noted == ["shop.b1.4", "shop.b1.5", "shop.b2"])
    assert shop.stored == ["shop.b1.4", "shop.b1.5"]


def test_a_journal_that_may_be_taken_over_or_is_the_newest_drained_one_is_kept(shop: Shop) -> None:
    states: tuple[JournalState, ...] = ("stopped", "restarting", "kept", "serving", "drained")
    for generation, state in enumerate(states):
        shop.journal(generation, state)
    assert list(superseded(shop.registry.journals())) == []
    older = shop.journal(5, "drained")
    assert [note.generation for note in superseded(shop.registry.journals())] == [4]
    shop.prune()
    assert older.journal in shop.noted
    assert len(shop.noted) == len(shop.stored) == 5


def test_a_drained_journal_that_a_broker_holds_is_kept_until_it_does_not(shop: Shop) -> None:
    older = shop.journal(0, "drained")
    shop.journal(1, "drained")
    taker = shop.store(older.journal)
    taker.acquire(Holder("a member that was paused when it took over"), 60)
    shop.prune()
    assert list(taker.frames(1)) == [b"settled"]
    assert shop.noted == ["shop.b1", "shop.b1.1"]
    taker.release()
    shop.prune()
    assert shop.noted == shop.stored == ["shop.b1.1"]


@pytest.mark.parametrize(("position", "left"), [(1, ["shop.b1", "shop.b1.1"]), (2, ["shop.b1.1"])])
def test_a_drained_journal_is_kept_for_a_reader_until_it_has_read_all(
    position: int, left: list[str], shop: Shop
) -> None:
    older = shop.journal(0, "drained")
    shop.journal(1, "drained")
    store = shop.store(older.journal)
    now_us = time.time_ns() // 1000
    store.put_note(cursors.NOTE, cursors.encode({"archive": cursors.Cursor(position, now_us)}))
    store.release()
    shop.prune()
    assert shop.noted == shop.stored == left


def test_what_a_member_that_has_ended_has_left_of_a_journal_is_deleted_by_the_next(shop: Shop) -> None:
    older = shop.journal(0, "drained")
    shop.journal(1, "drained")
    store = shop.store(older.journal)
    store.acquire(Holder("b3"), 60)
    store.erase()  # and its note is left
    assert shop.stored == ["shop.b1.1"]
    shop.prune()
    assert shop.noted == shop.stored == ["shop.b1.1"]


def test_a_note_about_a_journal_that_was_deleted_is_forgotten(shop: Shop) -> None:
    shop.registry.set_generation("b1", 2)
    shop.journal(1, "drained")
    shop.note(0, "serving", epoch=1)  # of b1, which was paused
    with watching(shop):
        poll(lambda: shop.noted == ["shop.b1.1", "shop.b2"])


def test_a_member_that_is_gone_for_good_is_removed_with_its_journals_and_comes_back_as_a_new_one(
    shop: Shop,
) -> None:
    for generation in range(3):
        shop.journal(generation, "drained")
    with watching(shop) as watch:
        with pytest.raises(Refused, match="there is no member b9; there are b1, b2"):
            watch.order_removal("b9", force=True).result(60)
        with pytest.raises(Refused, match="this is b2 itself"):
            watch.order_removal("b2", force=True).result(60)
        removed = watch.order_removal("b1", force=False).result(60)
        assert (removed.member, removed.messages) == ("b1", 0)
        assert removed.journals[-1] == "shop.b1.2"
        poll(lambda: [member.broker for member in watch.report().members] == ["b2"])
        poll(lambda: shop.gone == ["b1"])
    assert shop.noted == ["shop.b2"]
    assert shop.stored == []
    assert shop.registry.generation("b1") == 3, "its former journals are never used again"


def test_a_member_with_messages_is_removed_by_force_alone(shop: Shop) -> None:
    shop.journal(0, "drained")
    kept = shop.journal(1, "kept")
    shop.registry.write(msgspec.structs.replace(kept, messages=7))
    with watching(shop) as watch:
        with pytest.raises(Refused, match=r"shop\.b1\.1 may have messages \(7 as was last noted\)"):
            watch.order_removal("b1", force=False).result(60)
        assert shop.stored == ["shop.b1", "shop.b1.1"]
        removed = watch.order_removal("b1", force=True).result(60)
        assert (removed.journals, removed.messages) == (["shop.b1", "shop.b1.1"], 7)
    assert (shop.noted, shop.stored) == (["shop.b2"], [])


def test_a_member_that_is_alive_is_not_removed_even_by_force(shop: Shop) -> None:
    alive = shop.note(0, "serving", epoch=1)
    store = shop.store(alive.journal)
    store.acquire(Holder("b1"), 60)
    with watching(shop) as watch, pytest.raises(Refused, match="b1 may be alive: its lease lasts "):
        watch.order_removal("b1", force=True).result(60)
    assert shop.registry.generation("b1") == 0
    store.renew(60)
    store.release()


def test_a_journal_that_another_member_serves_is_removed_by_force_and_its_taker_is_fenced(shop: Shop) -> None:
    note = shop.journal(0, "serving")
    shop.registry.write(msgspec.structs.replace(note, holder="b3", epoch=3))
    taker = shop.store(note.journal)
    taker.acquire(Holder("b3"), 60)
    with watching(shop) as watch:
        with pytest.raises(Refused, match="may have messages"):
            watch.order_removal("b1", force=False).result(60)
        taker.renew(60)
        watch.order_removal("b1", force=True).result(60)
    with pytest.raises(Fenced):
        taker.renew(60)
    taker.release()
    assert (shop.noted, shop.stored) == (["shop.b2"], [])
