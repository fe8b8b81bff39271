"""Batches of rows are published once, all or none of their rows, whatever is repeated or interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.recovery import Recovery
from broker_app.core.durability.snapshot import SnapshotBuilder
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import REJECT_NEWEST, REMOVE_OLDEST, DestinationPolicy, Policies
from broker_app.core.publishing.bulk_producer import MAX_BATCH, address_of
from broker_app.core.publishing.bulk_publishing import IDLE_MS
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from tests.core.mirror import Mirror
from tests.core.stage import Client, Stage, read

TARGET = "/queue/t"
QUERY = "a59e2b6c-0001"


class Writer(Client):
    """The user of a producer, who commits batches."""

    def command(
        self,
        batch: int,
        *bodies: bytes,
        producer: str = QUERY,
        owner: str = "spark",
        to: str = TARGET,
        needs: Mapping[str, c.Need] | None = None,
        rows_before: int = 0,
        last: bool = True,
        **facts: Any,
    ) -> c.PublishBulk:
        envelope = Envelope(to, **facts)
        if needs is None:
            sizes = list(map(len, bodies))
            needs = {to: c.Need(len(sizes), sum(sizes), max(sizes, default=0))}
        rows = [(envelope, body) for body in bodies]
        return c.PublishBulk(self.peer, producer, owner, batch, rows, needs, rows_before, last)

    def write(self, batch: int, *bodies: bytes, **facts: Any) -> None:
        self.do(self.command(batch, *bodies, **facts))

    def refusal(self, batch: int, *bodies: bytes, **facts: Any) -> str:
        with pytest.raises(Refused) as refused:
            self.write(batch, *bodies, **facts)
        return refused.value.code


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def writer(stage: Stage) -> Writer:
    return Writer(stage)


def waiting(stage: Stage, address: str = TARGET) -> list[bytes]:
    if address not in stage.queues:
        return []
    reader = stage.client()
    reader.subscribe(address)
    bodies = reader.take()
    reader.disconnect()
    return bodies


def progress(stage: Stage, producer: str = QUERY) -> tuple[int, int]:
    """(next batch, rows of it that are published)"""
    known = stage.broker.bulk.producers[address_of(producer)]
    return known.next_batch, known.rows


def test_a_batch_and_its_number_are_one_batch_of_the_journal(stage: Stage, writer: Writer) -> None:
    writer.write(0, b"1", b"2")
    (batch,) = stage.batches
    kinds = [(record.kind, record.address) for record in read(batch)]
    assert kinds == [
        (records.PUBLISHED, TARGET),
        (records.PUBLISHED, TARGET),
        (records.OFFSET_SET, address_of(QUERY)),
    ]
    assert waiting(stage) == [b"1", b"2"]
    assert progress(stage) == (1, 0)


def test_a_batch_that_was_published_is_refused_also_after_a_restart(stage: Stage, writer: Writer) -> None:
    writer.write(0, b"1")
    writer.write(1, b"2")
    assert writer.refusal(0, b"1") == writer.refusal(1, b"2") == "conflict"
    stage.restart()
    assert writer.refusal(1, b"2") == "conflict"
    writer.write(2, b"3")
    assert waiting(stage) == [b"1", b"2", b"3"]


def test_numbers_may_be_left_out(stage: Stage, writer: Writer) -> None:
    writer.write(20261125, b"1")
    assert writer.refusal(20261124, b"0") == "conflict"
    writer.write(20261127, b"2")
    assert waiting(stage) == [b"1", b"2"]


def test_an_empty_batch_counts(stage: Stage, writer: Writer) -> None:
    writer.write(0)
    assert progress(stage) == (1, 0)
    stage.restart()
    assert progress(stage) == (1, 0)


def test_producers_are_independent_of_each_other(stage: Stage, writer: Writer) -> None:
    writer.write(5, b"1")
    writer.write(0, b"2", producer="other")
    assert (progress(stage), progress(stage, "other")) == ((6, 0), (1, 0))


def test_a_producer_belongs_to_the_user_who_began_it(stage: Stage, writer: Writer) -> None:
    writer.write(0, b"1")
    assert writer.refusal(1, b"2", owner="mallory") == "conflict"
    stage.restart()
    assert writer.refusal(1, b"2", owner="mallory") == "conflict"
    assert waiting(stage) == [b"1"]


@pytest.mark.parametrize(
    ("producer", "batch"), [("", 0), ("x" * 201, 0), ("a\nb", 0), ("p", -1), ("p", MAX_BATCH)]
)
def test_names_and_numbers_are_checked(writer: Writer, producer: str, batch: int) -> None:
    assert writer.refusal(batch, b"1", producer=producer) == "invalid"


# ---------------------------------------------------------------------- in several commands


def test_a_large_batch_continues_where_it_was_interrupted(stage: Stage, writer: Writer) -> None:
    writer.write(7, b"1", b"2", last=False)
    assert progress(stage) == (7, 2)
    stage.restart()
    assert progress(stage) == (7, 2)
    assert writer.refusal(7, b"1", b"2", last=False) == "conflict", "its first rows are out"
    assert writer.refusal(8, b"9") == "conflict", "batch 7 comes first"
    assert writer.refusal(7, b"4", rows_before=3) == "conflict", "row 3 would be lost"
    writer.write(7, b"3", rows_before=2)
    assert progress(stage) == (8, 0)
    assert waiting(stage) == [b"1", b"2", b"3"]


def test_the_first_rows_cannot_be_left_out(writer: Writer) -> None:
    assert writer.refusal(0, b"2", rows_before=1) == "conflict"


def test_the_room_for_all_rows_is_checked_before_the_first(stage: Stage, writer: Writer) -> None:
    stage.decide(c.Reconfigure(Policies(exact={TARGET: DestinationPolicy(max_messages=3)})))
    needs = {TARGET: c.Need(4, 4, 1)}
    assert writer.refusal(0, b"1", needs=needs, last=False) == "queue-full"
    assert waiting(stage) == []
    writer.write(0, b"1", b"2", needs={TARGET: c.Need(3, 3, 1)}, last=False)
    # Others may have taken the room meanwhile: what began is completed.
    writer.publish(TARGET, b"x")
    writer.write(0, b"3", needs={}, rows_before=2)
    assert sorted(waiting(stage)) == [b"1", b"2", b"3", b"x"]


# ---------------------------------------------------------------------- refusals


def test_nothing_is_published_when_one_destination_has_no_room(stage: Stage, writer: Writer) -> None:
    stage.decide(c.Reconfigure(Policies(exact={TARGET: DestinationPolicy(max_messages=1)})))
    command = writer.command(0, b"1", b"2")
    command.entries = [*command.entries, (Envelope("/queue/free"), b"3")]
    command.needs = {**command.needs, "/queue/free": c.Need(1, 1, 1)}
    with pytest.raises(Refused, match=r"/queue/t holds at most 1 messages, so never 2 at once") as raised:
        writer.do(command)
    assert (raised.value.code, raised.value.facts) == ("queue-full", {"fits": False})
    assert "/queue/free" not in stage.queues
    assert not stage.broker.bulk.producers
    assert not stage.batches


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (DestinationPolicy(max_message_bytes=2), "too-large"),
        (DestinationPolicy(max_bytes=2, limit_behavior=REJECT_NEWEST), "too-large"),
        (DestinationPolicy(paused="producers"), "paused"),
        (DestinationPolicy(max_messages=1, limit_behavior=REJECT_NEWEST), "queue-full"),
    ],
)
def test_limits_of_destinations_refuse_the_whole_batch(
    stage: Stage, writer: Writer, policy: DestinationPolicy, code: str
) -> None:
    stage.decide(c.Reconfigure(Policies(exact={TARGET: policy})))
    assert writer.refusal(0, b"1", b"222") == code
    assert waiting(stage) == []


def test_a_queue_that_removes_its_oldest_messages_takes_any_batch(stage: Stage, writer: Writer) -> None:
    policy = DestinationPolicy(max_messages=2, limit_behavior=REMOVE_OLDEST, use_dead_letters=False)
    stage.decide(c.Reconfigure(Policies(exact={TARGET: policy})))
    writer.write(0, b"1", b"2", b"3")
    assert waiting(stage) == [b"2", b"3"]


@pytest.mark.parametrize("to", ["/queue/a", "/topic/a"])
def test_a_resource_alarm_refuses_batches_and_later_rows_of_them(
    stage: Stage, writer: Writer, to: str
) -> None:
    writer.write(0, b"1", to=to, last=False)
    stage.decide(c.StoreSpace(0))
    assert writer.refusal(0, b"2", to=to, rows_before=1) == "store-full"
    assert writer.refusal(0, b"1", to=to, producer="other") == "store-full"
    stage.decide(c.StoreSpace(None))
    writer.write(0, b"2", to=to, rows_before=1)
    assert progress(stage) == (1, 0)


@pytest.mark.parametrize("to", ["/temp-queue/x", "/queue/" + "x" * 256, "/topic/a.*", SYNC_ADDRESS])
def test_only_queues_and_topics_are_destinations(stage: Stage, writer: Writer, to: str) -> None:
    assert writer.refusal(0, b"1", to=to) in ("bad-destination", "unsupported")
    assert not stage.batches


# ---------------------------------------------------------------------- destinations


def test_rows_reach_topics_their_subscribers_and_durable_subscriptions(stage: Stage, writer: Writer) -> None:
    reader, durable = stage.client(), stage.client("d")
    reader.subscribe("/topic/a.b", c.AUTO)
    durable.subscribe("/topic/a.*", name="kept", durable=True)
    writer.write(0, b"1", b"2", to="/topic/a.b")
    assert reader.take() == durable.take() == [b"1", b"2"]


def test_delay_and_dedup_id_apply_when_the_batch_is_published(stage: Stage, writer: Writer) -> None:
    writer.write(0, b"later", options=DeliveryOptions(delay_ms=1_000))
    writer.write(1, b"once", options=DeliveryOptions(dedup_id="x"))
    writer.write(2, b"once", options=DeliveryOptions(dedup_id="x"))
    assert waiting(stage) == [b"once"]
    stage.pass_time(1_001)
    assert sorted(waiting(stage)) == [b"later", b"once"]


def test_rows_go_to_consumers_that_wait(stage: Stage, writer: Writer) -> None:
    reader = stage.client()
    reader.subscribe(TARGET)
    writer.write(0, *[b"%d" % number for number in range(5)], persistent=False)
    assert reader.take() == [b"%d" % number for number in range(5)]


def test_the_listing_of_bridges_shows_no_producers(stage: Stage, writer: Writer) -> None:
    writer.write(0, b"1")
    assert not stage.broker.forwarding.offsets
    assert SYNC_ADDRESS not in stage.recovered().destinations.queues


# ---------------------------------------------------------------------- recovery and following


def test_a_snapshot_contains_the_producers_and_a_standby_follows_them(stage: Stage, writer: Writer) -> None:
    mirror = Mirror(stage)
    writer.write(0, b"1", b"2", last=False)
    writer.write(4, b"x", producer="done", owner="other", to="/queue/d")
    snapshot = stage.take_snapshot()
    before = len(stage.batches)
    mirror.check()
    writer.write(0, b"3", rows_before=2)
    writer.do(c.DeleteBulkProducer(writer.peer, "done"))
    mirror.check()
    recovered = stage.recovered(snapshot, before)
    assert {one.name: one.facts[:3] for one in recovered.bulk.producers.values()} == {QUERY: ("spark", 1, 0)}
    stage.restart(mirror.take_over())
    assert writer.refusal(0, b"1") == "conflict"
    writer.write(1, b"4")
    assert waiting(stage) == [b"1", b"2", b"3", b"4"]


def test_a_snapshot_may_be_taken_while_batches_are_published(stage: Stage, writer: Writer) -> None:
    for number in range(20):
        writer.write(0, b"x", producer=f"p{number}")
    builder = SnapshotBuilder(stage.broker)
    done = len(stage.batches)
    batch = 1
    while not builder.step(1):
        writer.write(batch, b"x", producer="p0")
        writer.write(batch, b"x", producer="p19")
        batch += 1
    blob = b"".join(builder.parts())
    recovery = Recovery(broker := stage.new_broker())
    recovery.load(blob)
    for stored in stage.batches[done:]:
        recovery.apply(*stored)
    recovery.finish(stage.broker.turn.next_position, stage.now_ms)
    assert {a: p.facts for a, p in broker.bulk.producers.items()} == {
        a: p.facts for a, p in stage.broker.bulk.producers.items()
    }


# ---------------------------------------------------------------------- their number


def test_a_deleted_producer_begins_again(stage: Stage, writer: Writer) -> None:
    writer.write(3, b"1")
    writer.do(c.DeleteBulkProducer(writer.peer, QUERY))
    stage.restart()
    writer.write(3, b"1", owner="another")
    assert waiting(stage) == [b"1", b"1"]
    with pytest.raises(Refused, match="there is no producer"):
        writer.do(c.DeleteBulkProducer(writer.peer, "unknown"))


def test_producers_that_were_idle_for_a_week_make_room_for_others() -> None:
    stage = Stage(bulk_producers=3)
    writer = Writer(stage)
    writer.write(0, b"1", producer="half", last=False)
    writer.write(0, b"1", producer="old")
    stage.pass_time(IDLE_MS)
    writer.write(0, b"1", producer="new")
    stage.pass_time(1)
    assert writer.refusal(0, b"2", producer="half", rows_before=9) == "conflict"
    writer.write(0, b"1", producer="newest")
    names = {one.name for one in stage.broker.bulk.producers.values()}
    assert names == {"half", "new", "newest"}, "a batch that is not complete is never forgotten"
    assert writer.refusal(0, b"1", producer="one too many") == "too-many"
    writer.write(1, b"2", producer="new")
    assert {one.name for one in stage.recovered().bulk.producers.values()} == names
