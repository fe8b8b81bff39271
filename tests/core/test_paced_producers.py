"""A producer that outruns consumers at full speed is not read for moments; slow consumers slow nobody."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.publishing.paced_producers import SHORT
from tests.core.stage import Client, Stage

Q = "/queue/a"
WINDOW = 128


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def producer(stage: Stage) -> Client:
    """A client with a connection that has outrun the consumer of a queue: it is not read now."""
    client = stage.client()
    for _ in range(SHORT // WINDOW + 2):
        send(client)
    client.peer.connection = "1"
    stage.client("consumer").subscribe(Q, credit=WINDOW)
    send(client)
    assert client.throttled
    return client


def send(client: Client) -> None:
    client.stage.decide(client.sending(Q, *[b""] * WINDOW))


def consumer(stage: Stage) -> Client:
    (subscription,) = stage.queue(Q).consumers
    client = subscription.peer.receiver
    assert isinstance(client, Client)
    return client


def test_a_producer_goes_on_when_consumers_have_taken_more_than_it_sent(
    stage: Stage, producer: Client
) -> None:
    there = consumer(stage)
    there.settle(*there.tags)
    assert producer.throttled, "as many were taken as it sent: the queue is as long as before"
    there.settle(*there.tags)
    assert not producer.throttled


def test_between_two_at_full_speed_a_queue_becomes_short_again(stage: Stage, producer: Client) -> None:
    there = consumer(stage)
    for _ in range(20):
        if not producer.throttled:
            send(producer)
        there.settle(*there.tags)
    assert stage.queue(Q).depth <= SHORT + WINDOW


def test_a_slow_consumer_slows_its_producer_for_moments_that_become_rarer(
    stage: Stage, producer: Client
) -> None:
    waited = []
    for _ in range(1_200):
        waited.append(producer.throttled)
        if not producer.throttled:
            send(producer)
        stage.pass_time(1)
    assert sum(waited[:400]) < 60
    assert sum(waited[400:]) < 40


def test_across_a_link_a_producer_waits_for_acknowledgements_that_come_later(stage: Stage) -> None:
    producer, there = stage.client(), stage.client("another broker")
    for _ in range(SHORT // WINDOW + 2):
        send(producer)
    producer.peer.connection = "1"
    there.subscribe(Q, credit=WINDOW, remote=True)
    send(producer)
    stage.pass_time(30)  # a consumer here would have had its time
    assert producer.throttled
    for _ in range(2):
        there.settle(*there.tags)
    assert not producer.throttled


def test_across_a_link_a_producer_waits_again_when_half_of_what_it_waited_for_came(stage: Stage) -> None:
    producer, there = stage.client(), stage.client("another broker")
    for _ in range(4 * SHORT // WINDOW):
        send(producer)
    producer.peer.connection = "1"
    there.subscribe(Q, credit=WINDOW, remote=True)
    for _ in range(5):
        send(producer)
        assert producer.throttled
        there.settle(*there.tags)
        stage.pass_time(60)
        assert not producer.throttled
    send(producer)
    stage.pass_time(60)
    send(producer)
    assert not producer.throttled, "nothing was acknowledged: it is let be for a while"


def test_a_producer_that_consumes_as_well_never_waits(stage: Stage) -> None:
    client = stage.client()
    client.peer.connection = "1"
    client.subscribe(Q, credit=WINDOW)
    for _ in range(8):
        send(client)
    assert not client.throttled


def test_nobody_waits_at_a_queue_without_a_consumer(stage: Stage) -> None:
    client = stage.client()
    client.peer.connection = "1"
    for _ in range(8):
        send(client)
    assert not client.throttled


def test_a_producer_goes_on_when_the_consumer_leaves(stage: Stage, producer: Client) -> None:
    consumer(stage).disconnect()
    stage.pass_time(30)
    assert not producer.throttled


def test_a_producer_may_leave_while_it_waits(stage: Stage, producer: Client) -> None:
    stage.decide(c.Disconnect(producer.peer))
    there = consumer(stage)
    for _ in range(2):
        there.settle(*there.tags)
    assert not stage.broker.admission.paced.queues
