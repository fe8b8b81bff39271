"""Expiry, purging, and the backlog that is not in memory."""

import gc
import sys
from types import FrameType

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.message import OVERHEAD_BYTES
from broker_app.core.outcome import LANE, Fetch
from tests.core.stage import Stage, read

#: calls of functions for a message that is read back and delivered
MOST_CALLS = 9


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def fill(stage: Stage, *bodies: bytes, **facts: int) -> None:
    stage.decide(stage.client().sending("/queue/a", *bodies, **facts))


def in_memory(stage: Stage) -> list[bytes]:
    return [message.body for lane in stage.queue("/queue/a").lanes for message in lane.in_memory()]


def causes(stage: Stage) -> list[str]:
    return [
        records.CAUSES[record.flags]
        for batch in stage.batches
        for record in read(batch)
        if record.kind == records.ACKED
    ]


class TestExpiry:
    def test_an_expired_message_is_not_delivered(self) -> None:
        stage = Stage()
        fill(stage, b"1", ttl_ms=100)
        fill(stage, b"2")
        stage.now_us += 100_000
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert consumer.take() == [b"2"]
        assert causes(stage) == ["expired"]
        assert stage.queue("/queue/a").counters.expired == 1
        assert stage.broker.store.memory_bytes == 0

    def test_a_message_is_delivered_until_the_millisecond_of_its_expiry(self) -> None:
        stage = Stage()
        fill(stage, b"1", expires_ms=stage.now_ms + 100)
        stage.now_us += 99_999
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert consumer.take() == [b"1"]

    def test_an_expired_message_goes_without_a_consumer_within_a_second(self) -> None:
        stage = Stage()
        stage.decide()
        for ttl_ms, body in ((100, b"1"), (0, b"2"), (50, b"3"), (5_000, b"4")):
            fill(stage, body, ttl_ms=ttl_ms)
        stage.pass_time(1_000)
        assert in_memory(stage) == [b"2", b"4"]
        assert stage.broker.store.memory_bytes == 2 * (1 + OVERHEAD_BYTES)
        stage.pass_time(5_000)
        assert in_memory(stage) == [b"2"]

    def test_a_message_that_was_delivered_in_time_may_be_settled_late(self) -> None:
        stage = Stage()
        fill(stage, b"1", ttl_ms=100)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        stage.pass_time(5_000)
        consumer.settle(1)
        assert causes(stage) == ["acknowledged"]

    def test_a_message_that_comes_back_late_expires(self) -> None:
        stage = Stage()
        fill(stage, b"1", ttl_ms=100)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        stage.pass_time(5_000)
        consumer.disconnect()
        assert in_memory(stage) == [b"1"]
        stage.pass_time(1_000)
        assert in_memory(stage) == []
        assert causes(stage) == ["expired"]

    def test_messages_that_came_back_keep_their_order_when_others_expire(self) -> None:
        stage = Stage()
        for number in range(7):
            fill(stage, b"%d" % number, ttl_ms=100 if number in (1, 3) else 0)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        consumer.pause()
        for tag in (4, 7, 2, 6, 1, 5, 3):
            consumer.give_back(tag)
        stage.pass_time(1_000)
        consumer.take()
        consumer.resume()
        assert consumer.take() == [b"0", b"2", b"4", b"5", b"6"]

    def test_a_paged_message_expires_when_it_is_read_back(self) -> None:
        stage = Stage(window=1)
        fill(stage, b"1")
        fill(stage, b"2", b"3", ttl_ms=100)
        fill(stage, b"4")
        stage.now_us += 200_000
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert consumer.take() == [b"1", b"4"]

    def test_paged_messages_expire_without_a_consumer(self) -> None:
        stage = Stage(window=1, fetch_messages=2)
        fill(stage, *numbered(9), ttl_ms=100)
        for _ in range(9):
            stage.pass_time(1_000)
        assert stage.queue("/queue/a").depth == 0
        assert causes(stage) == ["expired"] * 9


class TestPurge:
    def test_purging_removes_what_waits_and_leaves_what_is_unsettled(self) -> None:
        stage = Stage(window=3)
        fill(stage, *numbered(8))
        consumer = stage.client()
        consumer.subscribe("/queue/a", credit=1)
        consumer.purge("/queue/a")
        assert stage.queue("/queue/a").depth == 0
        assert consumer.tags == [1]
        assert causes(stage) == ["purged"]
        assert stage.broker.store.memory_bytes == 0
        consumer.settle(1)
        assert consumer.take() == [b"0"]

    def test_a_message_that_comes_back_after_a_purge_waits_again(self) -> None:
        stage = Stage()
        fill(stage, b"1", b"2")
        consumer = stage.client()
        consumer.subscribe("/queue/a", credit=1)
        consumer.purge("/queue/a")
        consumer.disconnect()
        assert in_memory(stage) == [b"1"]

    def test_purging_needs_a_queue(self) -> None:
        with pytest.raises(Refused, match="no queue /queue/a"):
            Stage().client().purge("/queue/a")

    def test_purging_an_empty_queue_writes_nothing(self) -> None:
        stage = Stage()
        client = stage.client()
        client.subscribe("/queue/a")
        client.purge("/queue/a")
        assert stage.batches == []

    def test_a_purged_queue_goes_on(self) -> None:
        stage = Stage()
        fill(stage, b"1")
        stage.client().purge("/queue/a")
        fill(stage, b"2")
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert consumer.take() == [b"2"]


def calls_of_reading_back(stage: Stage, messages: int) -> int:
    """The calls of functions in the decision about so many messages that were read back, without those of
    garbage that is collected meanwhile."""
    (fetch,) = stage.fetches
    loaded = stage.loaded(fetch._replace(positions=fetch.positions[:messages]))
    number = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        stage.broker.decide([loaded], stage.now_us)
    finally:
        sys.setprofile(None)
        gc.enable()
    return number


def calls_of_a_message(waiting: int) -> float:
    """The calls for each message that is read back in a queue with so many."""

    def calls(messages: int) -> int:
        stage = Stage(window=1, fetch_messages=messages)
        stage.loading = False
        fill(stage, *[b"x"] * waiting)
        stage.client().subscribe("/queue/a", credit=1_000)
        while len(stage.fetches[0].positions) < messages:  # until the size of messages is known
            stage.decide(stage.loaded(stage.fetches.pop()))
        return calls_of_reading_back(stage, messages)

    return (calls(300) - calls(100)) / 200


class TestPaging:
    def test_a_message_that_is_read_back_costs_few_calls_however_many_wait(self) -> None:
        few, many = calls_of_a_message(1_000), calls_of_a_message(20_000)
        assert few == many <= MOST_CALLS

    def test_bodies_beyond_the_window_are_not_in_memory(self) -> None:
        stage = Stage(window=4)
        fill(stage, *numbered(100))
        queue = stage.queue("/queue/a")
        assert in_memory(stage) == numbered(4)
        assert queue.depth == 100
        assert stage.broker.store.memory_bytes == 4 * (1 + OVERHEAD_BYTES)

    def test_bodies_beyond_the_memory_limit_are_not_in_memory(self) -> None:
        stage = Stage(memory_bytes=3 * (1 + OVERHEAD_BYTES))
        fill(stage, *numbered(10))
        assert in_memory(stage) == numbered(3)

    def test_a_paged_backlog_comes_in_order_and_once(self) -> None:
        stage = Stage(window=4, fetch_messages=3)
        fill(stage, *numbered(50))
        consumer = stage.client()
        consumer.subscribe("/queue/a", credit=5)
        received = []
        while taken := consumer.take():
            received += taken
            assert len(in_memory(stage)) <= 6, "the window, or two runs that were read back"
            consumer.settle(*consumer.tags[:2])
        consumer.settle(*consumer.tags)
        assert received == numbered(50)
        assert stage.broker.store.memory_bytes == 0

    def test_a_message_that_arrives_while_anything_is_paged_goes_behind_it(self) -> None:
        stage = Stage(window=2, fetch_messages=2)
        stage.loading = False
        fill(stage, *numbered(4))
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        fill(stage, *numbered(2, 4))
        assert consumer.take() == numbered(2)
        stage.load()
        fill(stage, b"6")
        assert consumer.take() == numbered(5, 2)

    def test_bodies_are_asked_for_in_runs_bounded_by_count_and_bytes(self) -> None:
        stage = Stage(window=1, fetch_messages=4, fetch_bytes=10_000)
        stage.loading = False
        fill(stage, *[b"x" * 5_000] * 40)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        (first,) = stage.fetches
        assert first == Fetch("/queue/a", 4, [2]), "the size of bodies is not yet known, so one is asked for"
        sizes = []
        while stage.fetches:
            fetch = stage.fetches.pop()
            sizes.append(len(fetch.positions))
            stage.decide(stage.loaded(fetch))
        assert max(sizes) == 1
        fill(stage, *[b"x"] * 400)
        consumer.settle(*consumer.tags)
        while stage.fetches:
            fetch = stage.fetches.pop()
            sizes.append(len(fetch.positions))
            stage.decide(stage.loaded(fetch))
        assert max(sizes) == 4

    def test_one_run_is_asked_for_at_a_time(self) -> None:
        stage = Stage(window=1, fetch_messages=2)
        stage.loading = False
        fill(stage, *numbered(9))
        stage.client().subscribe("/queue/a")
        stage.client().subscribe("/queue/a")
        assert len(stage.fetches) == 1

    @pytest.mark.parametrize("selector", ["", "JMSPriority >= 0"])
    def test_bodies_that_were_left_are_asked_for_again_in_their_order(self, selector: str) -> None:
        stage = Stage(window=1, fetch_messages=4)
        stage.read_at_once = 1
        fill(stage, *numbered(9))
        consumer = stage.client()
        consumer.subscribe("/queue/a", selector=selector)
        assert consumer.take() == numbered(9)

    def test_a_damaged_body_does_not_keep_those_that_were_left(self) -> None:
        stage = Stage(window=1, fetch_messages=4)
        stage.read_at_once = 1
        fill(stage, *numbered(9))
        stage.damaged = set(list(stage.bodies)[1:4])
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert consumer.take() == [b"0", *numbered(5, 4)]

    def test_bodies_that_arrive_after_a_purge_are_ignored(self) -> None:
        stage = Stage(window=1, fetch_messages=2)
        stage.loading = False
        fill(stage, *numbered(5))
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        consumer.purge("/queue/a")
        fill(stage, *numbered(4, 5))
        stage.load()
        assert consumer.take() == [b"0", *numbered(4, 5)]

    def test_bodies_of_a_queue_that_is_gone_are_ignored(self) -> None:
        stage = Stage()
        stage.decide(c.Loaded("/queue/gone", 4, [1], LANE, [b""]))
        assert stage.queues == {}

    def test_a_message_that_is_not_persistent_may_be_paged_and_stays_so(self) -> None:
        stage = Stage(window=1)
        fill(stage, b"1")
        stage.client().publish("/queue/a", b"2", persistent=False)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        assert [(m.body, m.envelope.persistent, m.recorded) for _, _, m in consumer.got] == [
            (b"1", True, True),
            (b"2", False, True),
        ]

    def test_temporary_queues_are_never_paged(self) -> None:
        stage = Stage(window=1)
        owner = stage.client()
        owner.subscribe("/temp-queue/mine", credit=1)
        stage.decide(stage.client().sending("/temp-queue/mine", *numbered(5)))
        assert stage.queue("/temp-queue/mine").depth == 4
        assert stage.batches == []

    def test_a_paged_message_keeps_its_id_headers_and_time(self) -> None:
        stage = Stage(window=1)
        producer, consumer = stage.client(), stage.client()
        fill(stage, b"1")
        sent = producer.publish("/queue/a", b"2", block=b"h:1\n", expires_ms=stage.now_ms + 9_000)
        stage.pass_time(5)
        consumer.subscribe("/queue/a")
        came = consumer.got[1][2]
        ids = stage.broker.turn.ids
        assert came is not sent
        assert (ids.of(came), came.envelope.block, came.expires_ms) == (
            ids.of(sent),
            b"h:1\n",
            sent.expires_ms,
        )


def test_a_sweep_reads_no_more_back_than_half_of_the_memory_takes() -> None:
    stage = Stage(memory_bytes=4_000, fetch_bytes=500)
    addresses = [f"/queue/{number}" for number in range(50)]
    stage.decide(*[stage.client().sending(address, *[b"x" * 100] * 3) for address in addresses])
    stage.restart()
    for _ in range(10):
        stage.pass_time(1_000)
    assert 0 < stage.broker.store.memory_bytes <= 4_000
