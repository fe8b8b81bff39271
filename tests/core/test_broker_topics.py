"""Topics and temporary destinations."""

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Envelope, MessageIds
from tests.core.stage import Client, Stage

LOOK = "look"


@pytest.fixture
def stage() -> Stage:
    return Stage(topic_pending=3)


def listener(
    stage: Stage, address: str = "/topic/t", ack: str = c.AUTO, look: str | None = LOOK, **facts: Any
) -> Client:
    client = stage.client()
    client.subscribe(address, ack, render_key=look, **facts)
    return client


def sending(stage: Stage, *bodies: bytes, address: str = "/topic/t") -> c.Publish:
    return stage.client().sending(address, *bodies)


def publish(stage: Stage, *bodies: bytes, address: str = "/topic/t") -> None:
    stage.decide(sending(stage, *bodies, address=address))


def test_every_subscription_gets_its_copy(stage: Stage) -> None:
    listeners = [
        listener(stage),
        listener(stage),
        listener(stage, look=None),
        listener(stage, ack=c.CLIENT),
        listener(stage, "/topic/*", ack=c.INDIVIDUAL),
    ]
    publish(stage, b"1", b"2")
    assert [client.take() for client in listeners] == [[b"1", b"2"]] * 5


def test_all_copies_have_one_id(stage: Stage) -> None:
    ids = MessageIds(stage.tag)
    listeners = [listener(stage), listener(stage, look=None), listener(stage, ack=c.CLIENT)]
    message = stage.client().publish("/topic/t", b"1")
    assert {ids.of(client.got[0][2]) for client in listeners} == {ids.of(message)}


def test_equal_render_keys_are_rendered_together_and_others_singly(stage: Stage) -> None:
    for look in (LOOK, LOOK, "other", None):
        listener(stage, look=look)
    listener(stage, ack=c.CLIENT)
    fanouts = stage.decide(sending(stage, b"1", b"2")).fanouts
    assert sorted(len(fanout.members) for fanout in fanouts) == [1, 2]
    assert all([message.body for message in fanout.messages] == [b"1", b"2"] for fanout in fanouts)


def test_without_a_listener_a_message_is_gone(stage: Stage) -> None:
    publish(stage, b"1")
    assert listener(stage).take() == []
    assert stage.batches == []


def test_a_client_that_comes_later_gets_what_is_published_later(stage: Stage) -> None:
    publish(stage, b"1")
    client = listener(stage)
    publish(stage, b"2")
    client.unsubscribe()
    publish(stage, b"3")
    assert client.take() == [b"2"]


@pytest.mark.parametrize("ack", [c.CLIENT, c.INDIVIDUAL])
def test_a_topic_delivery_may_be_settled_and_given_back(stage: Stage, ack: str) -> None:
    client = listener(stage, ack=ack, credit=1)
    publish(stage, b"1", b"2")
    client.give_back(1)
    assert client.take_attempts()[1:] == [(b"1", 1)]
    client.settle(2)
    assert client.take() == [b"2"]
    client.reject(3)
    assert client.tags == []
    assert stage.broker.store.memory_bytes == 0


def test_a_message_that_is_held_by_an_ended_topic_subscription_is_gone(stage: Stage) -> None:
    client = listener(stage, ack=c.CLIENT)
    publish(stage, b"1")
    client.unsubscribe(keep_unsettled=True)
    assert client.tags == []
    assert stage.queues == {}


def test_a_listener_with_too_much_waiting_is_ended_with_the_reason(stage: Stage) -> None:
    slow, fast = listener(stage, ack=c.CLIENT, credit=1), listener(stage)
    publish(stage, b"0")
    publish(stage, b"1", b"2", b"3")
    assert slow.closed == []
    publish(stage, b"4")
    (refusal,) = slow.closed
    assert refusal.code == "slow-consumer"
    assert "3 messages wait for subscription '1' on /topic/t" in refusal.detail
    assert fast.take() == [b"0", b"1", b"2", b"3", b"4"]
    assert stage.broker.store.memory_bytes == 0
    slow.disconnect()


def test_an_expired_message_is_not_delivered(stage: Stage) -> None:
    together, single = listener(stage), listener(stage, look=None)
    stage.client().publish("/topic/t", b"1", expires_ms=stage.now_ms)
    assert (together.take(), single.take()) == ([], [])


def test_temporary_topics_are_found_by_name_alone(stage: Stage) -> None:
    everything, owner = listener(stage, "/topic/>"), listener(stage, "/temp-topic/mine")
    publish(stage, b"1", address="/temp-topic/mine")
    publish(stage, b"2", address="/topic//temp-topic/mine")
    publish(stage, b"3", address="/topic/mine")
    assert owner.take() == [b"1"]
    assert everything.take() == [b"2", b"3"]


def test_wildcards_at_the_root_do_not_reach_the_brokers_own_topics(stage: Stage) -> None:
    everything, own = listener(stage, "/topic/>"), listener(stage, "/topic/$mom.>")
    publish(stage, b"1", address="/topic/$mom.stats")
    assert everything.take() == []
    assert own.take() == [b"1"]


@pytest.mark.parametrize("address", ["/temp-topic/*", "/temp-topic/a.>", "/topic/a.>.b", "/topic/#.b"])
def test_a_filter_that_looks_too_far_or_matches_nothing_is_refused(stage: Stage, address: str) -> None:
    with pytest.raises(Refused) as refused:
        listener(stage, address)
    assert refused.value.code == "bad-destination"


def test_idle_topics_without_subscribers_are_evicted_from_the_counters_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.core.publishing.publisher.MAX_COUNTED_TOPICS", 3)
    listener(stage, "/topic/heard")
    for topic in ("heard", "rubbish-1", "busy", "rubbish-2", "busy", "rubbish-3", "busy", "new"):
        publish(stage, b"", address=f"/topic/{topic}")
    assert stage.broker.publisher.topic_published == {"heard": 1, "busy": 3, "new": 1}


class TestChangesWithinABatch:
    def test_a_new_subscriber_gets_only_later_messages(self, stage: Stage) -> None:
        early, late = listener(stage), stage.client()
        stage.decide(
            sending(stage, b"1"),
            c.Subscribe(late.peer, "1", "/topic/t", c.AUTO, render_key=LOOK),
            sending(stage, b"2"),
        )
        assert (early.take(), late.take()) == ([b"1", b"2"], [b"2"])

    @pytest.mark.parametrize("leaving", [lambda peer: c.Unsubscribe(peer, "1"), c.Disconnect])
    def test_a_client_that_leaves_gets_nothing_of_the_batch(self, stage: Stage, leaving: object) -> None:
        staying, gone = listener(stage), listener(stage)
        stage.decide(sending(stage, b"1"), leaving(gone.peer), sending(stage, b"2"))  # type: ignore[operator]
        assert (staying.take(), gone.take()) == ([b"1", b"2"], [])

    def test_a_fanout_without_members_delivers_nothing(self, stage: Stage) -> None:
        client = listener(stage)
        outcome = stage.decide(sending(stage, b"1"), c.Unsubscribe(client.peer, "1"))
        assert outcome.fanouts == []
        assert stage.broker.turn.counters["delivered"] == 0

    def test_a_client_that_comes_back_under_another_render_key_gets_each_message_once(
        self, stage: Stage
    ) -> None:
        client = listener(stage)
        stage.decide(
            sending(stage, b"1"),
            c.Unsubscribe(client.peer, "1"),
            c.Subscribe(client.peer, "1", "/topic/t", c.AUTO, render_key="other"),
            sending(stage, b"2"),
        )
        assert client.take() == [b"2"]


class TestPause:
    def test_a_message_that_was_published_meanwhile_comes_in_order_at_the_end(self, stage: Stage) -> None:
        paused, other = listener(stage), listener(stage)
        publish(stage, b"1")
        paused.pause()
        publish(stage, b"2", b"3")
        assert (paused.take(), other.take()) == ([b"1"], [b"1", b"2", b"3"])
        paused.resume()
        publish(stage, b"4")
        assert paused.take() == [b"2", b"3", b"4"]

    def test_a_pause_holds_back_what_the_same_batch_published(self, stage: Stage) -> None:
        client = listener(stage)
        stage.decide(sending(stage, b"1"), c.Pause(client.peer))
        assert client.take() == []
        client.resume()
        assert client.take() == [b"1"]

    def test_pause_and_resume_in_one_batch_keep_the_order(self, stage: Stage) -> None:
        client = listener(stage)
        stage.decide(
            sending(stage, b"1"),
            c.Pause(client.peer),
            sending(stage, b"2"),
            c.Resume(client.peer),
            sending(stage, b"3"),
        )
        assert client.take() == [b"1", b"2", b"3"]

    def test_a_paused_listener_rejoins_its_fanout_group(self, stage: Stage) -> None:
        client, other = listener(stage), listener(stage)
        client.pause()
        client.resume()
        (fanout,) = stage.decide(sending(stage, b"1")).fanouts
        assert set(fanout.members) == {client.peer.subscriptions["1"], other.peer.subscriptions["1"]}

    def test_a_client_that_subscribes_while_paused_waits_for_the_end_of_it(self, stage: Stage) -> None:
        client = stage.client()
        client.pause()
        client.subscribe("/topic/t", c.AUTO, render_key=LOOK)
        publish(stage, b"1")
        assert client.take() == []
        client.resume()
        assert client.take() == [b"1"]

    def test_a_paused_listener_with_too_much_waiting_is_ended(self, stage: Stage) -> None:
        client = listener(stage)
        stage.decide(sending(stage, b"1", b"2", b"3", b"4"), c.Pause(client.peer))
        assert [refusal.code for refusal in client.closed] == ["slow-consumer"]
        assert stage.broker.store.memory_bytes == 0

    def test_a_render_key_on_a_queue_subscription_is_of_no_effect(self, stage: Stage) -> None:
        client = listener(stage, "/queue/a")
        client.pause()
        client.resume()
        publish(stage, b"1", address="/queue/a")
        assert client.take() == [b"1"]


class TestTemporaryQueues:
    def test_replies_come_to_the_owner(self, stage: Stage) -> None:
        owner = stage.client()
        owner.subscribe("/temp-queue/mine", c.AUTO)
        publish(stage, b"1", address="/temp-queue/mine")
        assert owner.take() == [b"1"]
        assert stage.batches == [], "nothing of it is recorded"

    def test_replies_wait_while_the_owner_is_not_subscribed(self, stage: Stage) -> None:
        owner = stage.client()
        owner.subscribe("/temp-queue/mine", c.AUTO)
        owner.unsubscribe()
        publish(stage, b"1", address="/temp-queue/mine")
        stage.pass_time(10**9)
        owner.subscribe("/temp-queue/mine", c.AUTO)
        assert owner.take() == [b"1"]

    def test_it_is_gone_with_its_owner(self, stage: Stage) -> None:
        owner = stage.client()
        owner.subscribe("/temp-queue/mine", credit=1)
        publish(stage, b"1", b"2", address="/temp-queue/mine")
        owner.disconnect()
        assert stage.queues == {}
        assert stage.broker.store.memory_bytes == 0

    def test_replies_to_one_that_is_gone_are_counted_and_accepted(self, stage: Stage) -> None:
        assert stage.client().publish("/temp-queue/gone", b"1").body == b"1"
        assert stage.broker.turn.counters["discarded"] == 1
        assert stage.queues == {}

    def test_a_message_that_waited_in_it_is_counted_as_discarded(self, stage: Stage) -> None:
        owner = stage.client()
        owner.subscribe("/temp-queue/mine")
        owner.pause()
        publish(stage, b"1", b"2", address="/temp-queue/mine")
        owner.disconnect()
        assert stage.broker.turn.counters["discarded"] == 2

    def test_no_other_client_may_consume_it(self, stage: Stage) -> None:
        owner, other = stage.client(), stage.client()
        owner.subscribe("/temp-queue/mine")
        with pytest.raises(Refused, match="belongs to another connection"):
            other.subscribe("/temp-queue/mine")
        other.disconnect()
        publish(stage, b"1", address="/temp-queue/mine")
        assert owner.take() == [b"1"]

    def test_the_owner_may_subscribe_to_it_twice(self, stage: Stage) -> None:
        owner = stage.client()
        owner.subscribe("/temp-queue/mine", c.AUTO, id="1")
        owner.subscribe("/temp-queue/mine", c.AUTO, id="2")
        publish(stage, b"1", b"2", address="/temp-queue/mine")
        assert [subscription.id for subscription, _, _ in owner.got] == ["1", "2"]


def test_a_run_may_alternate_between_kinds_of_destinations(stage: Stage) -> None:
    on_topic, on_queue = listener(stage), listener(stage, "/queue/a", look=None)
    topic, queue = Envelope("/topic/t"), Envelope("/queue/a")
    stage.decide(c.Publish(on_topic.peer, [(topic, b"1", None), (queue, b"2", None), (topic, b"3", None)]))
    assert (on_topic.take(), on_queue.take()) == ([b"1", b"3"], [b"2"])
