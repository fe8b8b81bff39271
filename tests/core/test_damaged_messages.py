"""Messages that the journal cannot read back become dead letters, and everything else continues."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.header_block import headers
from broker_app.core.message import DeliveryOptions
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import Client, Stage, read

A, GRAVE = "/queue/a", "/queue/a.dead"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def restarted_with_damage(stage: Stage, *damaged: bytes, count: int = 6, **facts: Any) -> None:
    """Publish messages 0, 1, … to queue a, and restart; the bodies of `damaged` cannot be read back."""
    sender = stage.client()
    for number in range(count):
        message = sender.publish(A, b"%d" % number, **facts)
        if message.body in damaged:
            stage.damaged.add(message.position)
    stage.restart()


def dead_letters(stage: Stage) -> list[dict[str, str]]:
    return [headers(message.envelope.block) for lane in stage.queue(GRAVE).lanes for message in lane.ready]


def consumer_of(stage: Stage, address: str = A, **facts: Any) -> Client:
    consumer = stage.client()
    consumer.subscribe(address, **facts)
    return consumer


def test_a_damaged_message_becomes_a_dead_letter_that_has_the_reason(stage: Stage) -> None:
    restarted_with_damage(stage, b"2")
    consumer = consumer_of(stage)
    assert consumer.take() == [b"0", b"1", b"3", b"4", b"5"]
    (facts,) = dead_letters(stage)
    assert (facts["dead-reason"], facts["dead-detail"], facts["origin"]) == (
        "DAMAGED", "the disk lost it", A,
    )  # fmt: skip
    assert facts["dead-attempts"] == "0"
    assert (stage.queue(A).counters.dead, stage.queue(A).counters.removed) == (1, 0)


def test_the_dead_letter_has_the_id_of_the_message(stage: Stage) -> None:
    message = stage.client().publish(A, b"0")
    stage.damaged.add(message.position)
    stage.restart()
    consumer_of(stage)
    (dead,) = (each for lane in stage.queue(GRAVE).lanes for each in lane.ready)
    assert stage.broker.turn.ids.of(dead) == stage.broker.turn.ids.of(message)


def test_when_a_whole_run_is_damaged_the_next_is_read() -> None:
    stage = Stage(fetch_messages=2)
    restarted_with_damage(stage, b"0", b"1", b"2", b"3")
    assert consumer_of(stage).take() == [b"4", b"5"]
    assert len(dead_letters(stage)) == 4


def test_a_damaged_message_is_given_up_once_and_for_all(stage: Stage) -> None:
    restarted_with_damage(stage, b"2")
    consumer_of(stage).disconnect()
    stage.restart()
    assert consumer_of(stage).take() == [b"0", b"1", b"3", b"4", b"5"]
    assert stage.queue(GRAVE).depth == 1
    assert stage.queue(A).counters.dead == 0


def test_where_no_dead_letters_are_wanted_a_damaged_message_is_removed_and_counted(stage: Stage) -> None:
    stage.policy = DestinationPolicy(use_dead_letters=False)
    stage.broker.turn.policies = Policies(stage.policy)
    restarted_with_damage(stage, b"2")
    assert consumer_of(stage).take() == [b"0", b"1", b"3", b"4", b"5"]
    assert GRAVE not in stage.queues
    assert stage.broker.turn.counters["discarded"] == 1
    assert stage.queue(A).counters.dead == 1


def test_consumers_with_selectors_get_what_is_whole(stage: Stage) -> None:
    for number in range(6):
        message = stage.client().publish(A, b"%d" % number, block=b"odd:%d\n" % (number % 2))
        if number in (0, 1, 2):
            stage.damaged.add(message.position)
    stage.restart()
    odd = consumer_of(stage, selector="odd = '1'")
    even = consumer_of(stage, selector="odd = '0'")
    assert (odd.take(), even.take()) == ([b"3", b"5"], [b"4"])
    assert len(dead_letters(stage)) == 3
    assert stage.queue(A).depth == 0


def test_members_of_a_group_follow_each_other_without_the_damaged_one(stage: Stage) -> None:
    restarted_with_damage(stage, b"1", b"3", block=b"group:g\n", options=DeliveryOptions(group="g"))
    one, other = consumer_of(stage), consumer_of(stage)
    assert sorted(one.take() + other.take()) == [b"0", b"2", b"4", b"5"]
    assert len(dead_letters(stage)) == 2


def test_a_damaged_message_that_was_delayed_becomes_a_dead_letter_when_it_is_due(stage: Stage) -> None:
    restarted_with_damage(stage, b"0", b"1", b"2", count=3, options=DeliveryOptions(delay_ms=100))
    later = stage.client().publish(A, b"whole", options=DeliveryOptions(delay_ms=200))
    consumer = consumer_of(stage)
    stage.pass_time(150)
    assert len(dead_letters(stage)) == 3
    stage.pass_time(100)
    assert consumer.take() == [b"whole"]
    assert later.position not in stage.damaged
    assert A not in stage.broker.scheduler.schedules


def test_a_damaged_message_for_a_topic_that_was_delayed_is_counted(stage: Stage) -> None:
    message = stage.client().publish("/topic/t", b"0", options=DeliveryOptions(delay_ms=100))
    stage.damaged.add(message.position)
    stage.restart()
    stage.pass_time(150)
    assert stage.broker.turn.counters["discarded"] == 1
    assert not stage.broker.scheduler.schedules


def test_reading_a_history_passes_over_what_is_damaged(stage: Stage) -> None:
    stage.policy = DestinationPolicy(retention_ms=60_000)
    stage.decide(c.Reconfigure(Policies(stage.policy)))
    for number in range(4):
        message = stage.client().publish("/topic/t", b"%d" % number)
        if number == 1:
            stage.damaged.add(message.position)
    stage.restart()
    listener = stage.client()
    listener.subscribe("/topic/t", c.AUTO, start="first")
    stage.client().publish("/topic/t", b"live")
    assert listener.take() == [b"0", b"2", b"3", b"live"]


def test_a_message_that_was_purged_while_it_was_read_is_no_dead_letter(stage: Stage) -> None:
    restarted_with_damage(stage, b"0", b"1")
    stage.loading = False
    consumer = consumer_of(stage)
    consumer.purge(A)
    stage.load()
    assert GRAVE not in stage.queues
    ended = [record for batch in stage.batches for record in read(batch) if record.kind == records.ACKED]
    assert [record.flags for record in ended] == [records.PURGED]
