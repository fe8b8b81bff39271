"""The watch over the journals of members: orders that it can carry out no more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.enhanced_cluster import journal_watch
from broker_app.features.enhanced_cluster.journal_watch import JournalWatch
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, registry_name
from broker_app.features.enhanced_cluster.takeover import OwnBroker, Stopping, TakenJournal
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at
from tests.support.polling import poll


class Stopped:
    """A takeover during which the broker begins to stop."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def take(self, *_: Any) -> None:
        raise Stopping("this broker stops")


def config_of(directory: Path) -> Config:
    return Config(name="b2", journal=f"file:{directory}", cluster_id="shop", cluster_port=1)


def registry_of(config: Config) -> Registry:
    assert config.cluster_id is not None and config.journal is not None
    return Registry(store_at(config.journal, registry_name(config.cluster_id)))


def note_of_b1(address: str, generation: int = 0) -> JournalNote:
    return JournalNote(
        journal=f"shop.b1.{generation}" if generation else "shop.b1",
        member="b1",
        generation=generation,
        holder="b1",
        address=address,
        state="kept",
    )


def watch_of_b2(config: Config, taken: Callable[[TakenJournal], None] = lambda _: None) -> JournalWatch:
    return JournalWatch(
        *(config, OwnBroker("b2", "b2:1", ()), lambda call, *args: call(*args)),
        make_broker=Broker,
        policies=Policies,
        may_take=lambda: True,
        taken=taken,
        found=lambda _: None,
        gone=lambda _: None,
    )


def test_a_member_with_the_address_of_this_one_is_reported_until_it_has_another(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    registry = registry_of(config)
    registry.write(note_of_b1("b2:1"))
    watch = watch_of_b2(config)
    watch.start(1)
    try:
        poll(lambda: "b1 has the address of this broker, b2:1: set cluster_host" in watch.discovery().error)
        registry.write(note_of_b1("b1:1"))
        poll(lambda: watch.discovery().error == "")
    finally:
        watch.close()
        watch.close_stores()
        registry.close()


def test_an_order_whose_takeover_ends_with_the_broker_is_refused_as_orders_that_wait_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_watch, "Takeover", Stopped)
    config = config_of(tmp_path)
    registry = registry_of(config)
    registry.write(note_of_b1("b1:1"))
    watch = watch_of_b2(config)
    watch.start(1)
    try:
        done = watch.order("b1", "anna", force=True)
        with pytest.raises(Refused, match="this broker stops") as refused:
            done.result(60)
        assert refused.value.code == "not-active"
    finally:
        watch.close()
        watch.close_stores()
        registry.close()


def test_a_member_has_no_more_files_open_after_many_takeovers_than_after_a_few(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    registry = registry_of(config)

    def drain(taken: TakenJournal) -> None:
        taken.journal.close()
        watch.release(taken.note.journal, "drained", 0)

    watch = watch_of_b2(config, drain)
    watch.start(1)

    def files_after(generations: range) -> int:
        for generation in generations:
            note = note_of_b1("b1:1", generation)
            store = store_at(f"file:{tmp_path}", note.journal)
            store.acquire(Holder("b1"), 0.001)
            registry.write(note)
            assert watch.order("b1", "anna", force=False).result(60).journal == note.journal
            store.release()
        return len(os.listdir("/proc/self/fd"))

    try:
        few = files_after(range(3))
        assert files_after(range(3, 13)) <= few + 2, "of the last order at most"
    finally:
        watch.close()
        watch.close_stores()
        registry.close()
