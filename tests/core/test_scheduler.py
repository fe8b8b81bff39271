"""Delayed messages: when they are published, with which properties, and after a crash."""

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.message import DeliveryOptions
from broker_app.core.storage.scheduler import RUN
from tests.core.stage import Client, Stage, read

A = "/queue/a"
YEAR_MS = 365 * 86_400_000


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def consumer(stage: Stage) -> Client:
    client = stage.client()
    client.subscribe(A)
    return client


def later(stage: Stage, body: bytes, delay_ms: int, address: str = A, **facts: object) -> bytes:
    """Publish with a delay; the id that the sender receives."""
    message = stage.client().publish(address, body, options=DeliveryOptions(delay_ms=delay_ms), **facts)
    return stage.broker.turn.ids.of(message)


def test_a_delayed_message_comes_when_it_is_due_and_not_a_millisecond_before(
    stage: Stage, consumer: Client
) -> None:
    later(stage, b"1", 30_000)
    assert stage.broker.turn.next_call_ms <= stage.now_ms + 30_000
    stage.pass_time(29_999)
    assert consumer.take() == []
    assert stage.broker.turn.next_call_ms == stage.now_ms + 1
    stage.pass_time(1)
    assert consumer.take() == [b"1"]


def test_it_keeps_its_id_and_its_old_record_ends_in_the_same_batch(stage: Stage, consumer: Client) -> None:
    message_id = later(stage, b"1", 1_000)
    stage.pass_time(1_000)
    assert stage.broker.turn.ids.of(consumer.got[0][2]) == message_id
    kinds = {record.kind: record for record in read(stage.batches[-1])}
    assert kinds[records.ACKED].flags == records.DUE
    assert kinds[records.PUBLISHED].flags == records.HAS_ID


@pytest.mark.parametrize("read_at_once", [1, 1_000])
def test_delayed_messages_come_in_the_order_in_which_they_are_due(
    stage: Stage, consumer: Client, read_at_once: int
) -> None:
    stage.read_at_once = read_at_once
    for body, delay_ms in ((b"3", 300), (b"1", 100), (b"2", 200), (b"1b", 100)):
        later(stage, body, delay_ms)
    for _ in range(3):
        stage.pass_time(100)
    assert consumer.take() == [b"1", b"1b", b"2", b"3"]


def test_an_absolute_time_in_the_past_is_no_delay(stage: Stage, consumer: Client) -> None:
    stage.client().publish(A, b"1", options=DeliveryOptions(due_ms=stage.now_ms - 1))
    assert consumer.take() == [b"1"]


def test_a_delay_of_years_survives_restarts_with_and_without_a_snapshot(stage: Stage) -> None:
    later(stage, b"1", 9 * YEAR_MS)
    snapshot, before = stage.take_snapshot(), len(stage.batches)
    assert take_snapshot(stage.recovered(snapshot, before)) == take_snapshot(stage.recovered()) == snapshot
    stage.restart()
    assert stage.broker.scheduler.delayed(A) == 1
    client = stage.client()
    client.subscribe(A)
    stage.pass_time(9 * YEAR_MS - 1)
    assert client.take() == []
    stage.pass_time(1)
    assert client.take() == [b"1"]


def test_a_message_that_was_due_while_the_broker_was_down_comes_at_once(stage: Stage) -> None:
    later(stage, b"1", 1_000)
    stage.restart()
    client = stage.client()
    client.subscribe(A)
    stage.pass_time(60_000)
    assert client.take() == [b"1"]
    stage.restart()
    assert stage.broker.scheduler.delayed(A) == 0


def test_a_message_that_is_not_persistent_waits_in_the_journal_too(stage: Stage, consumer: Client) -> None:
    later(stage, b"1", 1_000, persistent=False)
    assert stage.broker.store.memory_bytes == 0
    stage.pass_time(1_000)
    assert consumer.take() == [b"1"]
    assert not consumer.peer.unsettled[1][1].recorded


def test_thousands_that_are_due_at_once_come_in_bounded_runs(stage: Stage) -> None:
    client = stage.client()
    client.subscribe(A, c.AUTO)
    stage.loading = False
    count = 2 * RUN + 10
    entries = client.sending(
        A, *(b"%d" % number for number in range(count)), options=DeliveryOptions(delay_ms=500)
    )
    stage.decide(entries)
    stage.pass_time(500)
    sizes = []
    while stage.fetches:
        (fetch,) = stage.fetches
        sizes.append(len(fetch.positions))
        stage.fetches = []
        stage.decide(stage.loaded(fetch))
    assert sizes == [RUN, RUN, 10]
    assert client.take() == [b"%d" % number for number in range(count)]


def test_a_delayed_message_is_published_to_those_that_listen_to_its_topic_when_it_is_due(
    stage: Stage,
) -> None:
    message_id = later(stage, b"1", 1_000, "/topic/t", persistent=False)
    stage.restart()
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, render_key="look")
    stage.pass_time(1_000)
    assert [stage.broker.turn.ids.of(message) for _, _, message in client.got] == [message_id]


def test_a_delay_in_a_transaction_begins_at_its_commit(stage: Stage, consumer: Client) -> None:
    client = stage.client()
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(A, b"1", options=DeliveryOptions(delay_ms=1_000))))
    stage.pass_time(5_000)
    client.do(c.Commit(client.peer, "t"))
    stage.pass_time(999)
    assert consumer.take() == []
    stage.pass_time(1)
    assert consumer.take() == [b"1"]


def test_the_time_to_live_begins_when_a_message_is_due(stage: Stage) -> None:
    later(stage, b"1", 10_000, ttl_ms=500)
    stage.pass_time(10_000)
    stage.pass_time(499)
    client = stage.client()
    client.subscribe(A)
    assert client.take() == [b"1"]


def test_an_absolute_end_before_it_is_due_stays_the_end(stage: Stage, consumer: Client) -> None:
    later(stage, b"1", 10_000, expires_ms=stage.now_ms + 5_000)
    stage.pass_time(10_000)
    assert consumer.take() == []
    assert stage.queue(A).counters.expired == 1


def test_purging_a_queue_removes_what_is_delayed_where_it_is_asked_for(stage: Stage) -> None:
    client = stage.client()
    client.publish(A, b"ready")
    later(stage, b"later", 1_000)
    client.do(c.Purge(client.peer, A, ready=False))
    assert (stage.queue(A).depth, stage.broker.scheduler.delayed(A)) == (1, 0)
    later(stage, b"later", 1_000)
    client.do(c.Purge(client.peer, A, delayed=False))
    assert (stage.queue(A).depth, stage.broker.scheduler.delayed(A)) == (0, 1)
    client.do(c.Purge(client.peer, A))
    stage.pass_time(1_000)
    assert stage.queue(A).depth == 0
    assert take_snapshot(stage.recovered()) == stage.take_snapshot()


def test_a_purge_while_bodies_are_read_back_takes_those_too(stage: Stage, consumer: Client) -> None:
    later(stage, b"1", 1_000)
    stage.loading = False
    stage.pass_time(1_000)
    stage.client().purge(A)
    stage.load()
    assert consumer.take() == []


@pytest.mark.parametrize("address", ["/temp-queue/t", "/temp-topic/t"])
@pytest.mark.parametrize("options", [DeliveryOptions(delay_ms=1_000), DeliveryOptions(due_ms=1 << 52)])
def test_a_message_that_goes_to_a_temporary_destination_is_not_delayed(
    stage: Stage, address: str, options: DeliveryOptions
) -> None:
    owner, sender = stage.client(), stage.client()
    owner.subscribe(address)
    with pytest.raises(Refused, match="deleted with its connection"):
        sender.publish(address, b"1", options=options)
    sender.do(c.Begin(sender.peer, "t"))
    sender.do(c.Enlist(sender.peer, "t", sender.sending(address, b"1", options=options)))
    with pytest.raises(Refused, match="deleted with its connection"):
        sender.do(c.Commit(sender.peer, "t", 1))
    assert stage.broker.scheduler.schedules == {} and stage.batches == []


def test_a_queue_that_only_has_delayed_messages_is_not_deleted(stage: Stage) -> None:
    later(stage, b"1", 3 * stage.limits.idle_queue_ms)
    for _ in range(4):
        stage.pass_time(stage.limits.idle_queue_ms // 2)
    assert A in stage.queues
