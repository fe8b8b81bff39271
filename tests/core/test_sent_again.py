"""Messages that are sent again because their receipt was lost: another broker may have delivered them."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.message import DeliveryOptions
from broker_app.core.outcome import SentAgain
from broker_app.core.policy import DestinationPolicy
from tests.core.stage import Client, Stage

QUEUE, TOPIC = "/queue/orders", "/topic/news"
RESENT = DeliveryOptions(dedup_id="x", resent=True)


@pytest.fixture
def stage() -> Stage:
    return Stage(window=2)


def consumer(stage: Stage, address: str = QUEUE, **facts: Any) -> Client:
    client = stage.client()
    client.subscribe(address, **facts)
    return client


def test_a_message_that_is_sent_again_is_delivered_as_a_repeat(stage: Stage) -> None:
    client = consumer(stage)
    client.publish(QUEUE, b"1", options=RESENT)
    client.publish(QUEUE, b"2", options=DeliveryOptions(dedup_id="y"))
    assert client.take_attempts() == [(b"1", 1), (b"2", 0)]


def test_one_that_is_known_here_is_stored_once_and_needs_no_mark(stage: Stage) -> None:
    client = consumer(stage)
    client.publish(QUEUE, b"1", options=DeliveryOptions(dedup_id="x"))
    client.publish(QUEUE, b"1", options=RESENT)
    assert client.take_attempts() == [(b"1", 0)]


def test_the_mark_survives_a_crash_and_stays_with_a_message_that_is_paged_out(stage: Stage) -> None:
    producer = stage.client()
    for number in range(6):
        options = RESENT._replace(dedup_id=str(number), resent=number in (1, 5))
        producer.publish(QUEUE, b"%d" % number, options=options)
    stage.restart()
    assert [attempts for _, attempts in consumer(stage).take_attempts()] == [0, 1, 0, 0, 0, 1]


def test_one_that_waits_outside_of_memory_is_marked_when_it_is_read_back(stage: Stage) -> None:
    producer = stage.client()
    for number in range(6):
        options = RESENT._replace(dedup_id=str(number), resent=number in (1, 5))
        producer.publish(QUEUE, b"%d" % number, options=options)
    assert [attempts for _, attempts in consumer(stage).take_attempts()] == [0, 1, 0, 0, 0, 1]


def test_one_that_is_delayed_is_marked_when_it_is_due(stage: Stage) -> None:
    client = consumer(stage)
    options = RESENT._replace(delay_ms=1_000)
    client.publish(QUEUE, b"1", block=b"resent:true\n", options=options)
    stage.pass_time(1_000)
    assert client.take_attempts() == [(b"1", 1)]


def test_the_only_attempt_of_a_message_is_not_used_up_by_its_mark(stage: Stage) -> None:
    stage.give_policies(orders=DestinationPolicy(max_attempts=1))
    client = consumer(stage)
    client.publish(QUEUE, b"1", options=RESENT)
    assert client.take_attempts() == [(b"1", 0)]


def test_subscribers_of_a_topic_get_it_as_a_repeat(stage: Stage) -> None:
    plain, named = consumer(stage, TOPIC), consumer(stage, TOPIC, durable=True, name="d")
    stage.client().publish(TOPIC, b"1", options=RESENT)
    assert plain.take_attempts() == [(b"1", 1)]
    assert named.take_attempts() == [(b"1", 1)]


# -- what was sent here first, and again to another broker ------------------------------------


def send_to_both(stage: Stage, *numbers: int, messages: int = 6) -> None:
    """Publish messages here, of which another broker reports some: it has stored them, too."""
    producer, other = stage.client(), Stage()
    for number in range(messages):
        options = DeliveryOptions(dedup_id=str(number))
        producer.publish(QUEUE, b"%d" % number, options=options)
        if number in numbers:
            publish = other.client().sending(QUEUE, b"%d" % number, options=options._replace(resent=True))
            reports = [event for event in other.decide(publish).events if isinstance(event, SentAgain)]
            stage.decide(*(c.MarkRepeat(stage.client().peer, *report) for report in reports))


def test_the_first_copy_is_a_repeat_when_another_broker_has_got_the_message_again(stage: Stage) -> None:
    send_to_both(stage, 0, 5)
    assert [attempts for _, attempts in consumer(stage).take_attempts()] == [1, 0, 0, 0, 0, 1]


def test_this_mark_survives_a_crash_too(stage: Stage) -> None:
    send_to_both(stage, 1, 4)
    stage.restart()
    assert [attempts for _, attempts in consumer(stage).take_attempts()] == [0, 1, 0, 0, 1, 0]


def test_one_that_a_consumer_has_got_already_is_left_as_it_is(stage: Stage) -> None:
    client = consumer(stage)
    send_to_both(stage, 0, messages=1)
    assert client.take_attempts() == [(b"0", 0)]
    records = stage.broker.turn.next_position
    stage.decide(c.MarkRepeat(stage.client().peer, QUEUE, DeliveryOptions(dedup_id="0").digest))
    assert stage.broker.turn.next_position == records


def test_a_mark_counts_once_and_one_for_a_message_that_is_not_here_is_nothing(stage: Stage) -> None:
    send_to_both(stage, 0, 0, 5, 5)
    for report in (("/queue/none", b"x" * 16), (QUEUE, b"x" * 16), (TOPIC, b"x" * 16)):
        stage.decide(c.MarkRepeat(stage.client().peer, *report))
    for number in (0, 5):
        stage.decide(c.MarkRepeat(stage.client().peer, QUEUE, DeliveryOptions(dedup_id=str(number)).digest))
    assert [attempts for _, attempts in consumer(stage).take_attempts()] == [1, 0, 0, 0, 0, 1]
