"""Publishing and delivery: order, priorities, credit."""

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.inspection.tap import Tap
from broker_app.core.message import Envelope
from tests.core.stage import Client, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def fill(stage: Stage, *bodies: bytes, address: str = "/queue/a") -> None:
    stage.decide(stage.client().sending(address, *bodies))


def test_a_message_waits_for_a_consumer(stage: Stage) -> None:
    fill(stage, b"1", b"2")
    assert stage.queue("/queue/a").depth == 2
    consumer = stage.client()
    consumer.subscribe("/queue/a")
    assert consumer.take() == [b"1", b"2"]
    assert stage.queue("/queue/a").depth == 0


def test_a_message_goes_to_exactly_one_consumer(stage: Stage) -> None:
    consumers = [stage.client() for _ in range(3)]
    for consumer in consumers:
        consumer.subscribe("/queue/a", c.AUTO)
    fill(stage, *numbered(30))
    received = [body for consumer in consumers for body in consumer.take()]
    assert sorted(received) == sorted(numbered(30))


def test_consumers_take_turns(stage: Stage) -> None:
    consumers = [stage.client() for _ in range(3)]
    for consumer, credit in zip(consumers, (1, 100, 100), strict=True):
        consumer.subscribe("/queue/a", credit=credit)
    fill(stage, *numbered(5))
    assert [consumer.take() for consumer in consumers] == [[b"0"], [b"1", b"3"], [b"2", b"4"]]


def test_a_queue_is_first_in_first_out(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a", credit=7)
    for number in numbered(50):
        fill(stage, number)
    received = []
    while taken := consumer.take():
        received += taken
        consumer.settle(*consumer.tags)
    assert received == numbered(50)


def test_higher_priorities_go_first_and_equal_ones_in_order(stage: Stage) -> None:
    producer, consumer = stage.client(), stage.client()
    for number, priority in enumerate((4, 0, 9, 4, 9, 5)):
        producer.publish("/queue/a", b"%d" % number, priority=priority)
    consumer.subscribe("/queue/a")
    assert consumer.take() == [b"2", b"4", b"5", b"0", b"3", b"1"]


def test_persistent_and_other_messages_share_one_order(stage: Stage) -> None:
    producer, consumer = stage.client(), stage.client()
    for number in range(6):
        producer.publish("/queue/a", b"%d" % number, persistent=number % 2 == 0)
    consumer.subscribe("/queue/a")
    assert consumer.take() == numbered(6)


def test_a_consumer_never_holds_more_than_its_credit(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a", credit=3)
    fill(stage, *numbered(10))
    assert consumer.take() == numbered(3)
    consumer.settle(consumer.tags[1])
    assert consumer.take() == [b"3"]
    assert len(consumer.tags) == 3


def test_credit_of_one_gives_fair_dispatch(stage: Stage) -> None:
    slow, fast = stage.client(), stage.client()
    for consumer in (slow, fast):
        consumer.subscribe("/queue/a", credit=1)
    fill(stage, *numbered(10))
    assert slow.take() == [b"0"]
    received = []
    while taken := fast.take():
        received += taken
        fast.settle(*fast.tags)
    assert received == numbered(10)[1:]
    assert slow.take() == []


def test_a_fast_consumer_gets_more_than_a_slow_one(stage: Stage) -> None:
    slow, fast = stage.client(), stage.client()
    for consumer in (slow, fast):
        consumer.subscribe("/queue/a", credit=2)
    counts = {slow: 0, fast: 0}
    for turn in range(60):
        fill(stage, b"%d" % turn)
        for consumer in (fast, *([slow] if turn % 10 == 0 else [])):
            counts[consumer] += len(consumer.take())
            if consumer.tags:
                consumer.settle(consumer.tags[0])
    assert counts[fast] > 4 * counts[slow]


def test_a_subscription_with_automatic_acknowledgement_is_not_bound_by_credit(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a", c.AUTO, credit=1)
    fill(stage, *numbered(5))
    assert consumer.take() == numbered(5)
    assert consumer.tags == []


@pytest.mark.parametrize("credit", [0, -1, 100_001])
def test_credit_out_of_bounds_is_refused(stage: Stage, credit: int) -> None:
    with pytest.raises(Refused, match="between 1 and 100000"):
        stage.client().subscribe("/queue/a", credit=credit)


def test_a_subscription_id_is_used_once_at_a_time(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a", id="x")
    with pytest.raises(Refused, match="'x' is already in use"):
        consumer.subscribe("/queue/b", id="x")
    consumer.unsubscribe("x")
    consumer.subscribe("/queue/b", id="x")


def test_the_number_of_subscriptions_of_a_connection_is_bounded() -> None:
    consumer = Stage(subscriptions_per_peer=2).client()
    consumer.subscribe("/queue/a", id="1")
    consumer.subscribe("/queue/a", id="2")
    with pytest.raises(Refused, match="may have 2 subscriptions"):
        consumer.subscribe("/queue/a", id="3")


def test_ending_an_unknown_subscription_is_refused(stage: Stage) -> None:
    with pytest.raises(Refused, match="no subscription 'x'"):
        stage.client().unsubscribe("x")


@pytest.mark.parametrize("address", ["/queue/", "/nowhere/a", "/topic/*", "/topic/a.>", "/temp-topic/a.*"])
def test_one_bad_message_of_a_run_is_refused_and_the_others_go_through(stage: Stage, address: str) -> None:
    producer = stage.client()
    good, bad = Envelope("/queue/a"), Envelope(address)
    run = c.Publish(producer.peer, [(good, b"1", 1), (bad, b"2", 2), (bad, b"3", 3), (good, b"4", 4)])
    stage.decide(run)
    assert [token for token, _ in producer.accepted] == [1, 4]
    assert [(token, refusal.code) for token, refusal in producer.refused] == [
        (2, "bad-destination"),
        (3, "bad-destination"),
    ]
    assert stage.queue("/queue/a").depth == 2
    assert stage.broker.turn.counters["published"] == 2


def test_a_receipt_names_the_message_if_requested(stage: Stage) -> None:
    client = stage.client()
    assert client.publish("/queue/a", b"x").body == b"x"
    client.peer.detailed = False
    stage.decide(c.Publish(client.peer, [(Envelope("/queue/a"), b"y", "token")]))
    tokens: list[object] = [*client.accepted]
    assert tokens[-1] == "token"


def test_receipts_come_in_the_order_of_the_commands(stage: Stage) -> None:
    client = stage.client()
    stage.decide(
        c.Publish(client.peer, [(Envelope("/queue/a"), b"", 1)]),
        c.Subscribe(client.peer, "s", "/queue/a", receipt=2),
        c.Answer(client.peer, 3),
        c.Unsubscribe(client.peer, "s", 4),
        c.Disconnect(client.peer, 5),
    )
    assert [token for token, _ in client.accepted] == [1, 2, 3, 4, 5]


class TestPause:
    def consumer(self, stage: Stage) -> Client:
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        consumer.pause()
        return consumer

    def test_a_paused_consumer_gets_nothing_until_it_resumes(self, stage: Stage) -> None:
        consumer = self.consumer(stage)
        fill(stage, b"1", b"2")
        assert consumer.take() == []
        consumer.resume()
        assert consumer.take() == [b"1", b"2"]

    def test_others_go_on_meanwhile(self, stage: Stage) -> None:
        paused, other = self.consumer(stage), stage.client()
        other.subscribe("/queue/a")
        fill(stage, b"1", b"2")
        assert (paused.take(), other.take()) == ([], [b"1", b"2"])

    def test_a_paused_consumer_may_settle_and_subscribe(self, stage: Stage) -> None:
        consumer = self.consumer(stage)
        consumer.resume()
        fill(stage, b"1")
        consumer.pause()
        fill(stage, b"2", address="/queue/b")
        consumer.settle(*consumer.tags)
        consumer.subscribe("/queue/b", id="2")
        assert consumer.take() == [b"1"]
        consumer.resume()
        assert consumer.take() == [b"2"]

    def test_pausing_and_resuming_twice_is_harmless(self, stage: Stage) -> None:
        consumer = self.consumer(stage)
        consumer.pause()
        consumer.resume()
        consumer.resume()
        fill(stage, b"1", b"2")
        assert consumer.take() == [b"1", b"2"]


class TestIdleQueues:
    def test_a_queue_that_is_not_used_is_deleted(self) -> None:
        stage = Stage(idle_queue_ms=5_000)
        consumer = stage.client()
        consumer.subscribe("/queue/a")
        consumer.unsubscribe()
        stage.pass_time(1_000)
        stage.pass_time(4_999)
        assert "/queue/a" in stage.queues
        stage.pass_time(1_000)
        assert "/queue/a" not in stage.queues

    def test_a_queue_in_use_stays(self) -> None:
        stage = Stage(idle_queue_ms=5_000)
        fill(stage, b"1", address="/queue/waiting")
        fill(stage, b"1", address="/queue/unsettled")
        stage.client().subscribe("/queue/consumed")
        holder = stage.client()
        holder.subscribe("/queue/unsettled")
        holder.unsubscribe(keep_unsettled=True)
        for _ in range(20):
            stage.pass_time(1_000)
        assert sorted(stage.queues) == [
            "/queue/consumed",
            "/queue/unsettled",
            "/queue/waiting",
        ]
        holder.give_back(*holder.tags)
        assert stage.queue("/queue/unsettled").depth == 1

    def test_use_restarts_the_idle_time(self) -> None:
        stage = Stage(idle_queue_ms=5_000)
        consumer = stage.client()
        for _ in range(3):
            consumer.subscribe("/queue/a")
            stage.pass_time(1_000)
            consumer.unsubscribe()
            for _ in range(5):
                stage.pass_time(1_000)
        assert "/queue/a" in stage.queues

    def test_a_queue_whose_arrivals_are_watched_stays(self) -> None:
        stage = Stage(idle_queue_ms=2_000)
        fill(stage, b"1")
        stage.broker.store.taps.add("/queue/a", Tap(1, lambda: None))
        taker = stage.client()
        taker.subscribe("/queue/a", c.AUTO)
        taker.disconnect()
        for _ in range(5):
            stage.pass_time(1_000)
        assert "/queue/a" in stage.queues

    def test_unused_queues_stay_without_a_time_for_it(self) -> None:
        stage = Stage(idle_queue_ms=0)
        taker = stage.client()
        taker.subscribe("/queue/a")
        taker.unsubscribe()
        for _ in range(3):
            stage.pass_time(200_000)
        assert "/queue/a" in stage.queues
        stage.restart()
        assert not stage.queues, "an empty one does not come back"


def test_the_broker_asks_to_be_called_for_its_next_sweep_or_lease(stage: Stage) -> None:
    stage.decide()
    assert stage.broker.turn.next_call_ms == stage.now_ms + 1_000
    consumer = stage.client()
    consumer.subscribe("/queue/a", lease_ms=300)
    fill(stage, b"1")
    assert stage.broker.turn.next_call_ms == stage.now_ms + 300


def test_the_broker_asks_to_be_called_for_a_lease_after_the_clock_was_set_back(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a", lease_ms=300)
    fill(stage, b"1")
    stage.now_us -= 3_600_000_000
    stage.decide(c.ClockStepped(-3_600_000))
    assert stage.broker.turn.next_call_ms == stage.now_ms + 300


def test_a_turn_of_ordinary_messages_leaves_nothing_for_its_end(stage: Stage) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a")
    fill(stage, b"1")
    assert consumer.take() == [b"1"]
    consumer.settle(1)
    assert not stage.broker.turn.follows_up


def test_a_credit_that_grows_lets_more_through_and_one_that_shrinks_lets_less(stage: Stage) -> None:
    producer, consumer = stage.client(), stage.client()
    consumer.subscribe("/queue/a", credit=1)
    stage.decide(producer.sending("/queue/a", *(b"%d" % number for number in range(6))))
    assert consumer.take() == [b"0"]
    consumer.do(c.SetCredit(consumer.peer, "1", 3))
    assert consumer.take() == [b"1", b"2"]
    consumer.do(c.SetCredit(consumer.peer, "1", 2))
    consumer.settle(1)
    assert consumer.take() == []
    consumer.settle(2)
    assert consumer.take() == [b"3"]


@pytest.mark.parametrize("credit", [0, 100_001])
def test_a_credit_cannot_be_changed_out_of_its_bounds(stage: Stage, credit: int) -> None:
    consumer = stage.client()
    consumer.subscribe("/queue/a")
    with pytest.raises(Refused, match="credit is"):
        consumer.do(c.SetCredit(consumer.peer, "1", credit))
    with pytest.raises(Refused, match="no subscription"):
        consumer.do(c.SetCredit(consumer.peer, "2", 1))
