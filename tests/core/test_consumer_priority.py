"""Consumers with a priority: the highest with credit is served first, as in RabbitMQ and ActiveMQ."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.message import DeliveryOptions
from tests.core.stage import Client, Stage

QUEUE = "/queue/a"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def consumer(stage: Stage, priority: int, credit: int = 2, **facts: Any) -> Client:
    client = stage.client()
    client.subscribe(QUEUE, priority=priority, credit=credit, **facts)
    return client


def publish(stage: Stage, count: int, **facts: object) -> None:
    producer = stage.client()
    for number in range(count):
        producer.publish(QUEUE, b"%d" % number, **facts)


def test_the_highest_priority_with_credit_is_served_first(stage: Stage) -> None:
    low, high, middle = consumer(stage, -1), consumer(stage, 10), consumer(stage, 5)
    publish(stage, 5)
    assert (high.take(), middle.take(), low.take()) == ([b"0", b"1"], [b"2", b"3"], [b"4"])
    high.settle(*high.tags)
    publish(stage, 2)
    assert (high.take(), middle.take(), low.take()) == ([b"0", b"1"], [], [])


def test_a_backlog_is_divided_by_credit_from_the_highest_priority_down(stage: Stage) -> None:
    publish(stage, 5)
    low, high = consumer(stage, 0), stage.client()
    assert low.take() == [b"0", b"1"]
    high.subscribe(QUEUE, priority=1, credit=2)
    assert high.take() == [b"2", b"3"]
    low.settle(*low.tags)
    assert low.take() == [b"4"], "the other has no credit left"


def test_consumers_of_one_priority_take_turns(stage: Stage) -> None:
    one, other, low = consumer(stage, 3), consumer(stage, 3), consumer(stage, 0)
    publish(stage, 5)
    assert (one.take(), other.take(), low.take()) == ([b"0", b"2"], [b"1", b"3"], [b"4"])


def test_a_lower_priority_is_served_when_the_higher_is_paused_or_leaves(stage: Stage) -> None:
    low, high = consumer(stage, 0, 9), consumer(stage, 1, 9)
    publish(stage, 1)
    high.pause()
    publish(stage, 1)
    assert (len(high.take()), len(low.take())) == (1, 1)
    high.resume()
    publish(stage, 1)
    assert (len(high.take()), len(low.take())) == (1, 0)
    low.pause()
    high.disconnect()
    low.resume()
    assert len(low.take()) == 2, "what the other has not settled"


def test_a_consumer_of_lower_priority_that_leaves_is_gone(stage: Stage) -> None:
    low, high = consumer(stage, 0), consumer(stage, 1)
    low.unsubscribe()
    publish(stage, 3)
    assert (high.take(), low.take(), stage.queue(QUEUE).depth) == ([b"0", b"1"], [], 1)


def test_priorities_count_where_consumers_have_selectors(stage: Stage) -> None:
    low, high = consumer(stage, 0), consumer(stage, 1, selector="JMSPriority = 4")
    also_low = consumer(stage, 0, selector="JMSPriority = 4")
    publish(stage, 5)
    assert high.take() == [b"0", b"1"]
    assert sorted(low.take() + also_low.take()) == [b"2", b"3", b"4"]


def test_a_group_stays_with_its_consumer_whatever_its_priority(stage: Stage) -> None:
    low = consumer(stage, 0, 5)
    publish(stage, 1, options=DeliveryOptions(group="g"))
    high = consumer(stage, 1, 5)
    publish(stage, 2, options=DeliveryOptions(group="g"))
    publish(stage, 1)
    assert (len(low.take()), len(high.take())) == (3, 1)


def test_priorities_hold_when_a_queue_begins_and_ends_to_have_selectors(stage: Stage) -> None:
    low, high = consumer(stage, 0, 9), consumer(stage, 1, 1)
    other = consumer(stage, 0, selector="x = 1")
    publish(stage, 2)
    assert (len(high.take()), len(low.take())) == (1, 1)
    other.unsubscribe()
    stage.pass_time(10 * 60_000)
    high.settle(*high.tags)
    publish(stage, 2)
    assert (len(high.take()), len(low.take())) == (1, 1)


def test_every_message_reaches_a_consumer_of_a_topic_whatever_its_priority(stage: Stage) -> None:
    clients = [stage.client(), stage.client()]
    for priority, client in enumerate(clients):
        client.do(c.Subscribe(client.peer, "1", "/topic/t", c.INDIVIDUAL, priority=priority))
    stage.client().publish("/topic/t", b"x")
    assert [client.take() for client in clients] == [[b"x"], [b"x"]]
