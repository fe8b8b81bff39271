"""Journals of suspects, which are read while it is not certain that they have to be taken over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.enhanced_cluster.read_ahead import ReadAhead
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, registry_name
from broker_app.features.enhanced_cluster.takeover import OwnBroker, Reason, Takeover
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at
from tests.mirror.test_follower import Recording, at_once

LEASE_S = 60.0


class Member:
    """b1 has messages in its journal, and b2 may take it over."""

    def __init__(self, folder: Path) -> None:
        self.url = f"file:{folder}"
        self.config = Config(name="b2", cluster_id="shop", journal=self.url, lease_s=LEASE_S, data=folder)
        self.registry = Registry(store_at(self.url, registry_name("shop")))
        self.journal = SharedJournal(store_at(self.url, "shop.b1"), Holder("b1"), lease_s=LEASE_S)
        self.journal.open()
        self.journal.set_live_positions([])
        self.stage = Recording(self.journal)
        self.made: list[Takeover] = []
        self.brokers = 0

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            self.stage.client().publish("/queue/a", body)

    def note(self, epoch: int = 1) -> JournalNote:
        return JournalNote(
            journal="shop.b1",
            member="b1",
            generation=0,
            holder="b1",
            address="",
            state="serving",
            epoch=epoch,
        )

    def make(self, note: JournalNote) -> Takeover:
        own = OwnBroker("b2", "", ())
        made = Takeover(self.config, own, self.registry, at_once, note, self.broker, lambda: None)
        self.made.append(made)
        return made

    def broker(self) -> Broker:
        self.brokers += 1
        return Broker()


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    made = Member(tmp_path)
    yield made
    made.journal.close()
    made.registry.close()


def depth(broker: Broker) -> int:
    return broker.destinations.queues["/queue/a"].depth


def test_what_was_read_ahead_is_not_read_again_and_the_rest_is(member: Member) -> None:
    ahead = ReadAhead(member.make)
    member.publish(b"1", b"2")
    ahead.read(member.note())
    assert not ahead.is_behind
    member.publish(b"3")
    member.journal.close()
    taken = ahead.takeover(member.note()).take(Policies, Reason("a test"))
    assert taken is not None
    assert (depth(taken.broker), member.brokers) == (3, 1)
    assert [seen.takeover.result for seen in member.registry.read().takeovers] == ["complete"]
    taken.journal.close()


def test_a_journal_whose_holder_is_there_again_is_left_and_may_be_read_again(member: Member) -> None:
    ahead = ReadAhead(member.make)
    member.publish(b"1")
    ahead.read(member.note())
    assert ahead.takeover(member.note()).take(Policies, Reason("a test")) is None, "it has its lease"
    ahead.read(member.note())
    ahead.keep([])
    ahead.read(member.note())
    ahead.keep([member.note(epoch=2)])
    ahead.read(member.note(epoch=2))
    assert len(member.made) == 4, "each time another one"
    ahead.close()


def test_a_journal_that_cannot_be_read_is_left_to_its_takeover(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_: Takeover) -> None:
        raise JournalDamaged("the batch at position 1 is damaged")

    ahead = ReadAhead(member.make)
    with monkeypatch.context() as patched:
        patched.setattr(Takeover, "read_ahead", damaged)
        ahead.read(member.note())
    assert not ahead.is_behind
    ahead.takeover(member.note()).leave()
    assert len(member.made) == 2, "the first one was left"
