"""A producer that outruns consumers at full speed is not read for moments; of one without a connection of its
own, as of REST, what it sends is held instead. Slow consumers slow nobody."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.publishing.paced_producers import MOST_HELD, SHORT, SHORT_OF_HELD
from broker_app.core.publishing.polling_consumers import LOOK_MS
from tests.core.stage import Client, Stage, interrupted

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


def test_a_clock_that_is_set_back_does_not_end_pacing_for_as_long(stage: Stage, producer: Client) -> None:
    while producer.throttled:
        stage.pass_time(1)
    send(producer)
    assert not producer.throttled, "the consumer has taken nothing: it is let be for a while"
    stage.now_us -= 3_600_000_000
    stage.decide(c.ClockStepped(-3_600_000))
    send(producer)
    assert producer.throttled


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


class TestManyClientsOfOnePeer:
    """Those of REST: each sends the next message when it has the answer to the last one."""

    @pytest.fixture
    def clients(self, stage: Stage) -> Client:
        """Have so many messages wait that the next one is held."""
        clients = stage.client("rest")
        clients.peer.ordered = False
        for _ in range(SHORT // WINDOW + 2):
            send(clients)
        stage.client("consumer").subscribe(Q, credit=WINDOW)
        send(clients)
        return clients

    def test_what_they_send_is_held_until_consumers_have_taken_more(
        self, stage: Stage, clients: Client
    ) -> None:
        there, before = consumer(stage), stage.queue(Q).depth
        receipt = hold(clients, b"held")
        assert stage.queue(Q).depth == before
        assert receipt not in dict(clients.accepted)
        there.settle(*there.tags)
        there.settle(*there.tags)
        assert receipt in dict(clients.accepted)

    def test_between_them_and_a_consumer_at_full_speed_a_queue_becomes_short_again(
        self, stage: Stage, clients: Client
    ) -> None:
        there = consumer(stage)
        for _ in range(30):
            send(clients)
            there.settle(*there.tags)
            there.settle(*there.tags)
        assert stage.queue(Q).depth <= SHORT_OF_HELD + 2 * WINDOW
        assert not clients.throttled, "clients of other queues are read"

    def test_consumers_that_take_many_at_a_time_are_waited_for(self, stage: Stage, clients: Client) -> None:
        there, deepest = consumer(stage), 0
        there.peer.ordered = False
        sent = [hold(clients, b"") for _ in range(64)]
        for ms in range(400):
            stage.pass_time(1)
            if ms % 10 == 9:
                there.settle(*there.tags)
            answered, clients.accepted = dict(clients.accepted), []
            sent = [hold(clients, b"") if receipt in answered else receipt for receipt in sent]
            if ms > 200:
                deepest = max(deepest, stage.queue(Q).depth)
        assert deepest <= SHORT_OF_HELD + 2 * 64 + 1

    def test_one_that_settles_at_once_what_it_takes_is_waited_for(self, stage: Stage) -> None:
        clients, there = stage.client("rest"), stage.client("consumer")
        clients.peer.ordered = there.peer.ordered = False
        send(clients)
        there.subscribe(Q, credit=1)
        send(clients)
        stage.pass_time(70)
        there.settle(*there.tags)
        there.unsubscribe()
        assert not stage.queue(Q).unsettled
        receipts = [hold(clients, b"") for _ in range(2)]
        answered = dict(clients.accepted)
        assert [receipt in answered for receipt in receipts] == [True, False]

    def test_a_slow_consumer_holds_them_up_for_moments_that_become_rarer(
        self, stage: Stage, clients: Client
    ) -> None:
        held = []
        for _ in range(1_200):
            receipt = hold(clients, b"")
            held.append(receipt not in dict(clients.accepted))
            stage.pass_time(1)
        assert sum(held[:400]) <= 3 * LOOK_MS
        assert sum(held[400:]) <= 2 * LOOK_MS
        assert stage.queue(Q).counters.published == 1_200 + (SHORT // WINDOW + 3) * WINDOW

    def test_what_is_sent_to_other_queues_is_not_held(self, stage: Stage, clients: Client) -> None:
        hold(clients, b"held")
        assert clients.publish("/queue/other", b"x")

    def test_what_was_held_keeps_its_order(self, stage: Stage, clients: Client) -> None:
        for number in range(5):
            hold(clients, b"%d" % number)
        there = consumer(stage)
        while there.tags:
            there.settle(*there.tags)
        assert there.take()[-5:] == [b"0", b"1", b"2", b"3", b"4"]

    def test_of_a_long_batch_the_rest_waits_until_the_first_part_was_taken(
        self, stage: Stage, clients: Client
    ) -> None:
        there, before = consumer(stage), stage.queue(Q).counters.published
        stage.decide(clients.sending(Q, *[b""] * 1_000))
        for _ in range(2):
            there.settle(*there.tags)
        assert 0 < stage.queue(Q).counters.published - before < 1_000
        while there.tags:
            there.settle(*there.tags)
        assert stage.queue(Q).counters.published - before == 1_000

    def test_more_bytes_than_may_be_held_wait_no_longer(self, stage: Stage, clients: Client) -> None:
        receipt = hold(clients, bytes(MOST_HELD))
        assert receipt in dict(clients.accepted)
        assert not stage.broker.holds

    def test_what_is_held_for_a_queue_that_is_deleted_is_published(
        self, stage: Stage, clients: Client
    ) -> None:
        receipt = hold(clients, b"held")
        consumer(stage).disconnect()
        stage.decide(c.DeleteQueue(clients.peer, Q, force=True))
        stage.pass_time(30)
        assert receipt in dict(clients.accepted)
        assert not stage.broker.holds

    def test_in_short_turns_nothing_that_is_held_is_forgotten(self, stage: Stage, clients: Client) -> None:
        stage.deadline = interrupted(1)
        receipts = [hold(clients, b"%d" % number) for number in range(50)]
        there = consumer(stage)
        while there.tags:
            there.settle(*there.tags)
        stage.pass_time(30)
        assert set(receipts) <= dict(clients.accepted).keys()
        assert not stage.broker.holds


def hold(clients: Client, body: bytes) -> object:
    """Send a message that is held. Returns its receipt."""
    command = clients.sending(Q, body)
    ((envelope, body, _),) = command.entries
    receipt = object()
    clients.stage.decide(c.Publish(clients.peer, [(envelope, body, receipt)]))
    return receipt
