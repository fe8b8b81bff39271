"""Messages of other brokers of a cluster: delivered to consumers here, settled where they are stored."""

from __future__ import annotations

from itertools import count

import pytest

from broker_app.base.deadline import Deadline
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.local_preference import WAIT_MS
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy
from broker_app.core.remote.origin import Origin, RemoteMessage, ReturnedDelivery
from tests.core.stage import Client, Stage

QUEUE = "/queue/orders"


class Owner:
    """The other broker, as its link shows it to the core."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.link = Client(stage, "b1")
        self.origin = Origin(self.link.peer, stage.broker.turn.schedule_flush)
        stage.recording.append(self.origin)
        self.tag = 0

    def deliver(self, *bodies: bytes, address: str = QUEUE, group: str = "", block: bytes = b"") -> None:
        messages = self.messages(*bodies, address=address, group=group, block=block)
        if address.startswith("/topic/"):
            self.stage.decide(c.PublishRemote(self.origin, messages))
        else:
            self.stage.decide(c.DeliverRemote(self.origin, address, messages))

    def messages(
        self, *bodies: bytes, address: str, group: str = "", block: bytes = b""
    ) -> list[RemoteMessage]:
        options = DeliveryOptions(group=group) if group else None
        envelope = Envelope(address, block, options=options)
        messages = []
        for body in bodies:
            self.tag += 1
            messages.append(
                RemoteMessage(self.origin, self.tag, envelope, body, self.stage.now_ms, b"id-" + body)
            )
        return messages

    @property
    def returned(self) -> list[ReturnedDelivery]:
        found, self.origin.returned = self.origin.returned, []
        return found

    @property
    def acked(self) -> list[int]:
        found, self.origin.acked = self.origin.acked, []
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def owner(stage: Stage) -> Owner:
    return Owner(stage)


def test_a_message_of_another_broker_is_delivered_and_its_acknowledgement_reported(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE)
    batches = len(stage.batches)
    owner.deliver(b"1", b"2")
    assert [stage.broker.turn.ids.of(m) for _, _, m in consumer.got] == [b"id-1", b"id-2"]
    assert owner.acked == []
    consumer.settle(*consumer.tags)
    assert owner.acked == [1, 2]
    assert len(stage.batches) == batches  # nothing was stored
    assert stage.queue(QUEUE).unsettled == 0


def test_a_consumer_without_acknowledgements_acknowledges_with_the_delivery(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE, c.AUTO)
    owner.deliver(b"1")
    assert consumer.take() == [b"1"]
    assert owner.acked == [1]


def test_without_a_consumer_a_message_goes_back_at_once(owner: Owner) -> None:
    owner.deliver(b"1")
    assert owner.returned == [ReturnedDelivery(1)]


def test_what_no_consumer_has_credit_for_waits_and_is_delivered_when_one_has(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE, credit=1)
    owner.deliver(b"1", b"2")
    assert consumer.take() == [b"1"]
    assert owner.origin.waiting == 1
    consumer.settle(*consumer.tags)
    assert consumer.take() == [b"2"]
    assert owner.origin.waiting == 0


def test_many_messages_go_back_in_several_turns_of_the_loop_and_none_overtakes_them(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE, credit=1)
    owner.deliver(*(b"%d" % number for number in range(1_001)))
    (taken,) = consumer.tags
    over = Deadline(count().__next__)
    back = c.ReturnRemote(owner.origin, stage.now_ms)
    stage.broker.decide([back, c.Settle(consumer.peer, [taken])], stage.now_us, None, over)
    turns = 1
    while stage.broker.is_behind:
        assert consumer.peer.unsettled, "what was submitted later is carried out later"
        turns += 1
        stage.broker.decide((), stage.now_us, stage.broker.turn.out, over)
    assert turns >= 3
    assert owner.returned == [ReturnedDelivery(tag) for tag in range(2, 1_002)]
    assert (owner.origin.waiting, owner.origin.waiting_bytes, owner.acked) == (0, 0, [1])


def test_what_waits_too_long_goes_back_with_all_that_came_later_from_its_broker(
    stage: Stage, owner: Owner
) -> None:
    consumer, other = stage.client(), Owner(stage)
    consumer.subscribe(QUEUE, credit=1)
    owner.deliver(b"1", b"2")
    stage.pass_time(100)
    owner.deliver(b"3")
    other.deliver(b"of another broker")
    stage.decide(c.ReturnRemote(owner.origin, stage.now_ms - 101))
    assert owner.origin.waiting == 2
    stage.decide(c.ReturnRemote(owner.origin, stage.now_ms - 50))
    stage.decide(c.ReturnRemote(other.origin, stage.now_ms - 50))
    assert owner.returned == [ReturnedDelivery(2), ReturnedDelivery(3)]
    assert (owner.origin.waiting, other.origin.waiting) == (0, 1)


def test_what_waits_goes_back_when_the_last_consumer_leaves_and_what_it_held_has_failed(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE, credit=1)
    owner.deliver(b"1", b"2")
    consumer.disconnect()
    returned = {one.tag: one for one in owner.returned}
    assert returned[2] == ReturnedDelivery(2)
    assert returned[1].attempted
    assert stage.queue(QUEUE).unsettled == 0
    assert stage.queue(QUEUE).depth == 0


def test_a_rejected_message_becomes_a_dead_letter_at_its_owner(stage: Stage, owner: Owner) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE)
    owner.deliver(b"1")
    consumer.reject(*consumer.tags, detail="no such customer")
    (returned,) = owner.returned
    assert (returned.attempted, returned.dead_reason, returned.detail) == (
        True,
        "REJECTED",
        "no such customer",
    )
    assert f"{QUEUE}.dead" not in stage.queues


def test_subscriptions_of_other_brokers_are_not_sent_what_comes_from_others(
    stage: Stage, owner: Owner
) -> None:
    other = stage.client("b3")
    other.subscribe(QUEUE, remote=True)
    other.subscribe("/topic/prices", c.AUTO, id="2", remote=True)
    owner.deliver(b"1")
    owner.deliver(b"2", address="/topic/prices")
    assert other.take() == []
    assert owner.returned == [ReturnedDelivery(1)]
    stage.client().publish(QUEUE, b"own")
    stage.client().publish("/topic/prices", b"own")
    assert other.take() == [b"own", b"own"]


def test_subscribers_of_a_topic_get_what_others_publish(stage: Stage, owner: Owner) -> None:
    subscriber, selective = stage.client(), stage.client()
    subscriber.subscribe("/topic/prices.*", c.AUTO)
    selective.subscribe("/topic/prices.eur", c.AUTO, selector="high = 'yes'")
    owner.deliver(b"1", address="/topic/prices.eur")
    owner.deliver(b"2", address="/topic/prices.eur", block=b"high:yes\n")
    assert subscriber.take() == [b"1", b"2"]
    assert selective.take() == [b"2"]


def test_selectors_and_message_groups_choose_the_consumer(stage: Stage, owner: Owner) -> None:
    red, any_colour = stage.client(), stage.client()
    red.subscribe(QUEUE, selector="colour = 'red'")
    owner.deliver(b"green", block=b"colour:green\n")
    owner.deliver(b"red", block=b"colour:red\n")
    assert red.take() == [b"red"]
    assert owner.origin.waiting == 1
    any_colour.subscribe(QUEUE)
    assert any_colour.take() == [b"green"]
    for body in (b"a", b"b", b"c", b"d"):
        owner.deliver(body, group="g")
    assert sorted((len(red.take()), len(any_colour.take()))) == [0, 4]


def test_after_the_connection_to_its_owner_a_message_is_settled_in_vain_which_a_receipt_does_not_deny(
    stage: Stage, owner: Owner
) -> None:
    consumer = stage.client()
    consumer.subscribe(QUEUE, credit=1)
    owner.deliver(b"1", b"2")
    stage.decide(c.EndOrigin(owner.origin))
    with pytest.raises(Refused, match="unknown-delivery"):
        consumer.settle(*consumer.tags)
    assert consumer.tags == []
    assert (owner.acked, owner.returned, consumer.take()) == ([], [], [b"1"])
    assert owner.origin.waiting == 0


class TestReceipts:
    """Receipts of settled messages, whose owner records that when the test says so."""

    @pytest.fixture
    def slow(self, stage: Stage, owner: Owner) -> Owner:
        stage.recording.clear()
        return owner

    @pytest.fixture
    def consumer(self, stage: Stage, slow: Owner) -> Client:
        consumer = stage.client()
        consumer.subscribe(QUEUE)
        slow.deliver(b"1", b"2", b"3")
        return consumer

    def accepted(self, consumer: Client) -> list[object]:
        return [receipt for receipt, _ in consumer.accepted if isinstance(receipt, str)]

    def test_they_come_when_their_owner_has_recorded_them_and_all_before(
        self, stage: Stage, slow: Owner, consumer: Client
    ) -> None:
        first, second, third = consumer.tags
        stage.decide(c.Settle(consumer.peer, [first], receipt="1"))
        stage.decide(c.Return(consumer.peer, [second], receipt="2"))
        asked = slow.origin.question
        stage.decide(c.Settle(consumer.peer, [third], receipt="3"))
        assert self.accepted(consumer) == []
        stage.decide(c.RemoteRecorded(slow.origin, asked))
        assert self.accepted(consumer) == ["1", "2"]
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == ["1", "2", "3"]

    def test_one_of_messages_of_several_owners_waits_for_all(
        self, stage: Stage, slow: Owner, consumer: Client
    ) -> None:
        other = Owner(stage)
        stage.recording.clear()
        other.deliver(b"4")
        stage.decide(c.Settle(consumer.peer, consumer.tags, receipt="all"))
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == []
        stage.decide(c.RemoteRecorded(other.origin, other.origin.question))
        assert self.accepted(consumer) == ["all"]

    def test_they_are_refused_when_the_connection_to_the_owner_ends(
        self, stage: Stage, slow: Owner, consumer: Client
    ) -> None:
        stage.decide(c.Settle(consumer.peer, consumer.tags, receipt="lost"))
        stage.decide(c.EndOrigin(slow.origin))
        (refused,) = consumer.refused
        assert (refused[0], refused[1].code) == ("lost", "unknown-delivery")
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == []

    def test_a_disconnect_is_confirmed_after_them(self, stage: Stage, slow: Owner, consumer: Client) -> None:
        stage.decide(c.Settle(consumer.peer, consumer.tags, receipt="last"))
        stage.decide(c.Disconnect(consumer.peer, "bye"))
        assert self.accepted(consumer) == []
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == ["last", "bye"]

    def test_a_commit_waits_for_the_owners_of_what_it_settles(
        self, stage: Stage, slow: Owner, consumer: Client
    ) -> None:
        consumer.do(c.Begin(consumer.peer, "t"))
        stage.decide(c.Enlist(consumer.peer, "t", c.Settle(consumer.peer, consumer.tags), None))
        stage.decide(c.Commit(consumer.peer, "t", "done"))
        assert self.accepted(consumer) == []
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == ["done"]

    def test_a_client_that_has_left_without_a_receipt_is_sent_none(
        self, stage: Stage, slow: Owner, consumer: Client
    ) -> None:
        stage.decide(c.Settle(consumer.peer, consumer.tags, receipt="unheard"))
        consumer.disconnect()
        stage.decide(c.RemoteRecorded(slow.origin, slow.origin.question))
        assert self.accepted(consumer) == []


def test_local_messages_and_those_of_others_take_turns(stage: Stage, owner: Owner) -> None:
    producer, consumer = stage.client(), stage.client()
    consumer.subscribe(QUEUE, credit=1)
    producer.publish(QUEUE, b"held")
    for number in range(10):
        producer.publish(QUEUE, b"local%d" % number)
        owner.deliver(b"other%d" % number)
    for _ in range(10):
        consumer.settle(*consumer.tags)
    got = consumer.take()
    assert 3 <= sum(body.startswith(b"other") for body in got) <= 7


@pytest.mark.parametrize(("max_attempts", "attempts"), [(16, 1), (1, 0)])
def test_what_another_broker_could_not_deliver_is_marked_since_later_messages_have_overtaken_it(
    max_attempts: int, attempts: int
) -> None:
    stage = Stage(max_attempts=max_attempts)
    other = stage.client("b3")
    other.subscribe(QUEUE, remote=True)
    stage.client().publish(QUEUE, b"1")
    other.give_back(*other.tags, attempted=False)
    consumer = stage.client()
    consumer.subscribe(QUEUE)
    other.pause()
    other.give_back(*other.tags, attempted=False)
    assert consumer.take_attempts() == [(b"1", attempts)]


def test_interest_counts_local_consumers_by_what_they_want(stage: Stage) -> None:
    interest = stage.broker.interest
    first, second, remote = stage.client(), stage.client(), stage.client("b3")
    first.subscribe(QUEUE, credit=5)
    second.subscribe(QUEUE, credit=7)
    second.subscribe("/topic/prices.*", c.AUTO, id="2", name="p", durable=True)
    remote.subscribe(QUEUE, remote=True)
    wants = {want.address: want for want in interest.all()}
    assert set(wants) == {QUEUE, "/topic-subscription/p"}
    assert (interest.consumers(wants[QUEUE]), interest.credit(wants[QUEUE])) == (2, 12)
    terms = wants["/topic-subscription/p"].terms
    assert terms is not None
    assert terms.filter == "/topic/prices.*"
    first.disconnect()
    second.disconnect()
    assert interest.all() == []


def test_of_exclusive_consumers_the_one_that_asked_first_is_served_wherever_it_is(stage: Stage) -> None:
    producer, local, remote = stage.client(), stage.client(), stage.client("b3")
    local.subscribe(QUEUE, exclusive=True)
    remote.subscribe(QUEUE, exclusive=True, remote=True, exclusive_since_us=stage.now_us - 1)
    producer.publish(QUEUE, b"1")
    assert (local.take(), remote.take()) == ([], [b"1"])
    remote.settle(*remote.tags)
    remote.disconnect()
    producer.publish(QUEUE, b"2")
    assert local.take() == [b"2"]


def test_local_consumers_with_credit_are_preferred_when_the_queue_says_so(stage: Stage) -> None:
    stage.give_policies(orders=DestinationPolicy(prefer_local=True))
    producer, local, remote = stage.client(), stage.client(), stage.client("b3")
    remote.subscribe(QUEUE, remote=True)
    local.subscribe(QUEUE, credit=2)
    for number in range(3):
        producer.publish(QUEUE, b"%d" % number)
    stage.pass_time(WAIT_MS)
    assert (local.take(), remote.take()) == ([b"0", b"1"], [b"2"])
    stage.give_policies(orders=DestinationPolicy())
    local.settle(*local.tags)
    producer.publish(QUEUE, b"3")
    producer.publish(QUEUE, b"4")
    assert (len(local.take()), len(remote.take())) == (1, 1)


def test_a_queue_of_its_broker_only_refuses_other_brokers(stage: Stage) -> None:
    stage.give_policies(orders=DestinationPolicy(local_only=True))
    with pytest.raises(Refused, match="its own broker only"):
        stage.client("b3").subscribe(QUEUE, remote=True)


def test_messages_of_other_brokers_use_no_limit_here(stage: Stage, owner: Owner) -> None:
    stage.give_policies(orders=DestinationPolicy(max_messages=2, max_bytes=10, limit_behavior=REJECT_NEWEST))
    consumer, producer = stage.client(), stage.client()
    consumer.subscribe(QUEUE, credit=3)
    owner.deliver(b"1111", b"2222", b"3333")
    producer.publish(QUEUE, b"44444")
    consumer.settle(1)
    consumer.give_back(2)
    consumer.reject(3)
    consumer.settle(*consumer.tags)
    consumer.unsubscribe()
    producer.publish(QUEUE, b"55555")
    producer.publish(QUEUE, b"66666")
    with pytest.raises(Refused, match="queue-full"):
        producer.publish(QUEUE, b"")
    assert stage.queue(QUEUE).limit_usage.bytes == 10


@pytest.mark.parametrize("address", [QUEUE, "/topic/prices"])
def test_many_messages_of_another_broker_take_several_turns_and_keep_their_order(
    stage: Stage, owner: Owner, address: str
) -> None:
    consumer = stage.client()
    consumer.subscribe(address, c.AUTO)
    bodies = [b"%d" % number for number in range(3_000)]
    messages = owner.messages(*bodies, address=address)
    command = (
        c.PublishRemote(owner.origin, messages)
        if address.startswith("/topic/")
        else c.DeliverRemote(owner.origin, address, messages)
    )
    turns, passed = 0, Deadline(count().__next__)
    stage.broker.decide([command], stage.now_us, None, passed)
    while stage.broker.is_behind:
        turns += 1
        stage.broker.decide((), stage.now_us, stage.broker.turn.out, passed)
    assert turns >= 3
    stage.broker.turn.out.close_fanouts()
    fanned_out = [m.body for fanout in stage.broker.turn.out.fanouts for m in fanout.messages]
    assert [message.body for _, _, message in consumer.peer.deliveries] + fanned_out == bodies
