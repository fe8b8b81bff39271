"""Durable and shared subscriptions: which messages they keep, for which user, and how long."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import dead_letters_of, parse, topic_of_dead_letters
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.outcome import SubscriptionChanged
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.core.selectors import compiler
from tests.core.stage import Client, Stage, read

TOPIC, KEPT = "/topic/prices.eu", "/topic-subscription/audit"
DEAD = "/queue/$topic-subscription/prices.eu/audit.dead"


def durable(client: Client, address: str = TOPIC, name: str = "audit", **facts: Any) -> None:
    client.subscribe(address, name=name, durable=True, **facts)


def shared(client: Client, address: str = TOPIC, name: str = "team", **facts: Any) -> None:
    client.subscribe(address, name=name, shared=True, **facts)


@pytest.fixture
def stage() -> Stage:
    return Stage()


class TestDurable:
    def test_messages_are_kept_while_there_is_no_consumer(self, stage: Stage) -> None:
        reader, sender = stage.client(), stage.client()
        durable(reader)
        reader.disconnect()
        sender.publish(TOPIC, b"1")
        sender.publish(TOPIC, b"2")
        again = stage.client()
        durable(again)
        assert again.take() == [b"1", b"2"]

    def test_persistent_ones_are_kept_over_restarts_and_others_are_not(self, stage: Stage) -> None:
        durable(stage.client())
        sender = stage.client()
        sender.publish(TOPIC, b"kept")
        sender.publish(TOPIC, b"lost", persistent=False)
        stage.restart()
        reader = stage.client()
        durable(reader)
        assert [body for body, _ in reader.take_attempts()] == [b"kept"]
        stage.client().publish(TOPIC, b"new")
        assert reader.take() == [b"new"], "it is still bound to its topic"

    def test_one_whose_selector_was_not_too_long_when_it_was_stored_survives_a_restart(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        selector = " OR ".join(f"a = {n}" for n in range(200))
        with monkeypatch.context() as before:
            before.setattr(compiler, "MAX_LENGTH", 4_096)
            durable(stage.client(), selector=selector)
        stage.restart()
        with pytest.raises(Refused, match="at most 1,024 are allowed"):
            compiler.compile(selector)
        named = stage.broker.destinations.named[KEPT]
        assert named.selector is not None
        assert named.selector.text == selector

    def test_a_message_that_was_acknowledged_does_not_come_again(self, stage: Stage) -> None:
        reader, sender = stage.client(), stage.client()
        durable(reader)
        sender.publish(TOPIC, b"1")
        sender.publish(TOPIC, b"2")
        reader.settle(reader.tags[0])
        stage.restart()
        again = stage.client()
        durable(again)
        assert again.take_attempts() == [(b"2", 1)]

    def test_copies_have_the_id_and_the_address_of_the_original(self, stage: Stage) -> None:
        reader, other = stage.client(), stage.client()
        durable(reader, "/topic/prices.*")
        other.subscribe(TOPIC)
        original = stage.client().publish(TOPIC, b"x", block=b"h:1\n")
        stage.restart()
        again = stage.client()
        durable(again, "/topic/prices.*")
        ((_, _, message),) = again.got
        ids = stage.broker.turn.ids
        assert ids.of(message) == ids.of(original) == ids.of(other.got[0][2])
        assert (message.envelope.address, message.envelope.block) == (TOPIC, b"h:1\n")

    def test_a_wildcard_filter_gathers_many_topics_in_order(self, stage: Stage) -> None:
        durable(stage.client(), "/topic/prices.>")
        sender = stage.client()
        for number, address in enumerate(("/topic/prices.eu", "/topic/prices.us.ny", "/topic/else")):
            sender.publish(address, b"%d" % number)
        stage.restart()
        reader = stage.client()
        durable(reader, "/topic/prices.>")
        got = [(message.envelope.address, message.body) for _, _, message in reader.got]
        assert got == [("/topic/prices.eu", b"0"), ("/topic/prices.us.ny", b"1")]

    def test_each_name_gets_a_copy_of_its_own(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        durable(one, name="one")
        durable(two, name="two")
        stage.client().publish(TOPIC, b"x")
        one.settle(*one.tags)
        two.reject(*two.tags)
        assert (one.take(), two.take()) == ([b"x"], [b"x"])
        assert stage.queue("/queue/$topic-subscription/prices.eu/two.dead").depth == 1

    def test_dead_letters_name_the_subscription_and_the_topic(self, stage: Stage) -> None:
        reader = stage.client()
        durable(reader)
        stage.client().publish(TOPIC, b"x")
        reader.reject(*reader.tags, detail="bad")
        dead = stage.client()
        dead.subscribe(DEAD)
        block = dead.got[0][2].envelope.block
        assert b"origin:/topic-subscription/audit\n" in block
        assert b"origin-topic:/topic/prices.eu\n" in block

    def test_its_name_leads_its_dead_letters_to_no_queue_of_others(self, stage: Stage) -> None:
        sender, reader = stage.client(), stage.client()
        sender.publish("/queue/orders", b"theirs")
        for name in ("orders", "$mom.x", "a/b", "a%2Fb", "storeAndForward:b/queue/x"):
            durable(reader, name=name)
            sender.publish(TOPIC, name.encode())
            reader.reject(*reader.tags)
            reader.unsubscribe("1", forget=True)
        dead_letter_queues = {address: queue for address, queue in stage.queues.items() if queue.depth}
        assert dead_letter_queues.pop("/queue/orders").depth == 1
        assert {address: queue.depth for address, queue in dead_letter_queues.items()} == {
            f"/queue/$topic-subscription/prices.eu/{name}.dead": 1
            for name in ("orders", "$mom.x", "a%2Fb", "a%252Fb", "storeAndForward:b%2Fqueue%2Fx")
        }
        assert {topic_of_dead_letters(parse(address)) for address in dead_letter_queues} == {parse(TOPIC)}

    def test_dead_letters_of_the_longest_name_on_the_longest_topic_can_be_consumed(
        self, stage: Stage
    ) -> None:
        topic, name = "/topic/" + "t" * 255, "/" * 255
        reader = stage.client()
        durable(reader, topic, name)
        stage.client().publish(topic, b"x")
        reader.reject(*reader.tags)
        dead = stage.client()
        dead.subscribe(dead_letters_of(f"/topic-subscription/{name}", topic))
        assert dead.take() == [b"x"]

    def test_a_dead_letter_that_is_retried_comes_to_its_subscription_alone(self, stage: Stage) -> None:
        reader, other = stage.client(), stage.client()
        durable(reader)
        other.subscribe(TOPIC)
        stage.client().publish(TOPIC, b"x")
        reader.reject(*reader.tags)
        (position,) = [m.position for m in stage.queue(DEAD).lanes[0].in_memory()]
        chosen = [c.Chosen(position, stage.bodies.get(position))]
        operator = stage.client()
        operator.do(c.Transfer(operator.peer, DEAD, chosen, c.ORIGIN, revive=True))
        assert (reader.take(), other.take()) == ([b"x", b"x"], [b"x"])

    def test_it_obeys_the_settings_of_its_topic(self, stage: Stage) -> None:
        policy = DestinationPolicy(
            max_messages=3, limit_behavior="REJECT_NEWEST", max_attempts=2, dead_letters="dead_letter_queues"
        )
        exact, prefix = Policies(exact={TOPIC: policy}), Policies(prefixes={"/topic/prices.": policy})
        durable(stage.client())
        durable(stage.client(), "/topic/prices.*", name="wild")
        for policies, names in ((exact, ["audit"]), (prefix, ["audit", "wild"]), (Policies(), [])):
            stage.decide(c.Reconfigure(policies))
            obeying = {queue.address: queue.policy.max_messages for queue in stage.queues.values()}
            for name in ("audit", "wild"):
                assert obeying[f"/topic-subscription/{name}"] == 3 * (name in names)
        stage.decide(c.Reconfigure(exact))
        reader, sender = stage.client(), stage.client()
        durable(reader, name="new", credit=1)
        for number in range(3):
            sender.publish(TOPIC, b"%d" % number)
        with pytest.raises(Refused, match="is full: it holds at most 3 messages"):
            sender.publish(TOPIC, b"3")
        reader.give_back(*reader.tags)
        reader.give_back(*reader.tags)
        assert [
            message.body for message in stage.queue("/queue/dead_letter_queues").lanes[0].in_memory()
        ] == [b"0"]
        stage.broker.turn.policies = Policies()
        stage.restart()
        stage.decide(c.Reconfigure(exact))
        assert stage.queue("/topic-subscription/new").policy is policy

    def test_a_message_that_comes_back_often_becomes_a_dead_letter(self) -> None:
        stage = Stage(max_attempts=2)
        reader = stage.client()
        durable(reader)
        stage.client().publish(TOPIC, b"x")
        reader.give_back(*reader.tags)
        reader.give_back(*reader.tags)
        assert reader.take() == [b"x", b"x"]
        assert stage.queue(DEAD).depth == 1

    def test_expired_ones_are_not_given_out(self, stage: Stage) -> None:
        durable(stage.client())
        sender = stage.client()
        sender.publish(TOPIC, b"old", ttl_ms=1_000)
        sender.publish(TOPIC, b"new")
        stage.restart()
        stage.pass_time(2_000)
        reader = stage.client()
        durable(reader)
        assert reader.take() == [b"new"]

    def test_credit_bounds_what_is_delivered(self, stage: Stage) -> None:
        reader = stage.client()
        durable(reader, credit=2)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2", b"3"))
        assert reader.take() == [b"1", b"2"]
        reader.settle(reader.tags[0])
        assert reader.take() == [b"3"]

    def test_a_backlog_leaves_memory_and_is_read_back(self) -> None:
        stage = Stage(window=2, fetch_messages=2)
        away = stage.client()
        durable(away)
        away.disconnect()
        bodies = [b"%d" % number for number in range(9)]
        stage.decide(stage.client().sending(TOPIC, *bodies))
        assert len(stage.queue(KEPT).lanes[0].paged) == 7
        stage.restart()
        reader = stage.client()
        durable(reader, ack=c.AUTO)
        assert reader.take() == bodies

    def test_a_slow_one_is_not_ended_because_it_keeps_what_waits(self) -> None:
        stage = Stage(topic_pending=1)
        reader = stage.client()
        durable(reader, credit=1)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2", b"3"))
        assert reader.closed == []
        assert stage.queue(KEPT).depth == 2

    def test_an_idle_one_is_not_deleted(self) -> None:
        stage = Stage(idle_queue_ms=1_000)
        reader = stage.client()
        durable(reader)
        reader.disconnect()
        for _ in range(5):
            stage.pass_time(2_000)
        stage.client().publish(TOPIC, b"x")
        durable(again := stage.client())
        assert again.take() == [b"x"]

    def test_a_transaction_reaches_it_at_its_commit(self, stage: Stage) -> None:
        reader, sender = stage.client(), stage.client()
        durable(reader)
        sender.do(c.Begin(sender.peer, "t"))
        sender.do(c.Enlist(sender.peer, "t", sender.sending(TOPIC, b"1", b"2")))
        assert reader.take() == []
        sender.do(c.Commit(sender.peer, "t"))
        assert reader.take() == [b"1", b"2"]


class TestHolding:
    def test_a_second_consumer_is_refused_with_the_name_of_the_first(self, stage: Stage) -> None:
        durable(stage.client("ann"), id="first")
        with pytest.raises(Refused, match=r"consumed by user 'ann'.*'first'") as refused:
            durable(stage.client("ann"))
        assert refused.value.code == "conflict"

    def test_sharing_takes_both_sides(self, stage: Stage) -> None:
        durable(stage.client(), shared=True)
        with pytest.raises(Refused, match="consumed by"):
            durable(stage.client())
        durable(stage.client(), shared=True)

    def test_consumers_of_a_shared_one_divide_its_messages(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        durable(one, shared=True)
        durable(two, shared=True)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2", b"3", b"4"))
        assert (one.take(), two.take()) == ([b"1", b"3"], [b"2", b"4"])
        one.disconnect()
        assert two.take() == [b"1", b"3"]

    def test_the_next_consumer_may_share_when_the_former_has_left(self, stage: Stage) -> None:
        first = stage.client()
        durable(first)
        first.unsubscribe()
        durable(stage.client(), shared=True)
        durable(stage.client(), shared=True)
        assert take_snapshot(stage.recovered()) == stage.take_snapshot()

    def test_a_name_is_its_owners(self, stage: Stage) -> None:
        ann = stage.client("ann")
        durable(ann)
        ann.disconnect()
        stage.restart()
        with pytest.raises(Refused, match="'ann'") as refused:
            durable(stage.client("bob"))
        assert refused.value.code == "not-allowed"
        durable(stage.client("ann"))

    @pytest.mark.parametrize(("address", "facts"), [("/topic/other", {}), (TOPIC, {"selector": "a = 1"})])
    def test_another_filter_or_selector_is_refused_because_deleting_is_explicit(
        self, stage: Stage, address: str, facts: dict[str, str]
    ) -> None:
        first = stage.client()
        durable(first)
        first.disconnect()
        with pytest.raises(Refused, match="delete it first") as refused:
            durable(stage.client(), address, **facts)
        assert refused.value.code == "conflict"

    @pytest.mark.parametrize(
        ("address", "name"),
        [("/queue/a", "x"), ("/temp-topic/a", "x"), (TOPIC, " x"), (TOPIC, "x.dead"), (TOPIC, "x" * 300)],
    )
    def test_invalid_names_are_refused(self, stage: Stage, address: str, name: str) -> None:
        with pytest.raises(Refused):
            durable(stage.client(), address, name)
        assert stage.broker.destinations.named == {}

    def test_the_number_of_names_is_bounded(self) -> None:
        stage = Stage(named_subscriptions=1)
        durable(stage.client())
        with pytest.raises(Refused) as refused:
            durable(stage.client(), name="other")
        assert refused.value.code == "too-many"

    def test_no_client_sends_to_the_queue_behind_it(self, stage: Stage) -> None:
        durable(stage.client())
        with pytest.raises(Refused):
            stage.client().publish(KEPT, b"x")
        with pytest.raises(Refused):
            stage.client().subscribe(KEPT)


class TestDeleting:
    def test_unsubscribing_and_leaving_delete_nothing(self, stage: Stage) -> None:
        reader = stage.client()
        durable(reader)
        reader.unsubscribe()
        durable(reader)
        reader.disconnect()
        assert KEPT in stage.broker.destinations.named

    def test_a_deleted_one_gives_its_messages_up(self, stage: Stage) -> None:
        reader = stage.client()
        durable(reader)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2"))
        before = len(stage.batches)
        reader.unsubscribe(forget=True)
        ends = [r for batch in stage.batches[before:] for r in read(batch)]
        assert [r.flags for r in ends if r.kind == records.ACKED] == [records.PURGED]
        assert KEPT not in stage.queues
        stage.client().publish(TOPIC, b"3")
        stage.restart()
        durable(again := stage.client())
        assert again.take() == []

    def test_it_is_deleted_by_name_when_no_other_client_consumes_it(self, stage: Stage) -> None:
        reader, other = stage.client(), stage.client()
        durable(reader)
        with pytest.raises(Refused, match="consumed by"):
            other.do(c.DeleteSubscription(other.peer, "audit"))
        reader.do(c.DeleteSubscription(reader.peer, "audit"))
        assert (stage.broker.destinations.named, reader.peer.subscriptions) == ({}, {})
        with pytest.raises(Refused) as refused:
            other.do(c.DeleteSubscription(other.peer, "audit"))
        assert refused.value.code == "not-found"

    def test_it_is_deleted_by_its_owner(self, stage: Stage) -> None:
        ann = stage.client("ann")
        durable(ann)
        ann.disconnect()
        bob = stage.client("bob")
        with pytest.raises(Refused) as refused:
            bob.do(c.DeleteSubscription(bob.peer, "audit", owner="bob"))
        assert refused.value.code == "not-allowed"
        bob.do(c.DeleteSubscription(bob.peer, "audit"))

    def test_a_message_that_waits_for_another_attempt_goes_with_it(self) -> None:
        stage = Stage(policy=DestinationPolicy(retry_delay_ms=60_000))
        client = stage.client()
        client.subscribe("/topic/t", name="audit", durable=True)
        client.publish("/topic/t", b"1")
        client.give_back(1)
        client.unsubscribe(forget=True)
        assert not stage.broker.destinations.named
        stage.pass_time(120_000)
        stage.restart()
        client = stage.client()
        client.subscribe("/topic/t", name="audit", durable=True)
        assert not client.take()

    def test_a_name_can_begin_again(self, stage: Stage) -> None:
        reader = stage.client()
        durable(reader)
        stage.client().publish(TOPIC, b"old")
        reader.unsubscribe(forget=True)
        reader.take()
        durable(reader, "/topic/other")
        stage.client().publish("/topic/other", b"new")
        assert reader.take() == [b"new"]
        stage.restart()
        durable(again := stage.client(), "/topic/other")
        assert again.take() == [b"new"]

    def test_only_what_is_durable_can_be_deleted(self, stage: Stage) -> None:
        reader = stage.client()
        reader.subscribe(TOPIC)
        with pytest.raises(Refused, match="not durable"):
            reader.unsubscribe(forget=True)
        assert "1" in reader.peer.subscriptions


class TestShared:
    def test_it_delivers_to_present_consumers_and_ends_with_the_last(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        shared(one)
        shared(two)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2"))
        assert (one.take(), two.take()) == ([b"1"], [b"2"])
        one.disconnect()
        assert two.take() == [b"1"]
        two.disconnect()
        assert stage.broker.destinations.named == {}
        assert stage.broker.store.memory_bytes == 0
        assert stage.batches == [], "nothing of it is recorded"

    def test_an_unread_one_ends_as_too_slow(self) -> None:
        stage = Stage(topic_pending=1)
        reader = stage.client()
        shared(reader, credit=1)
        stage.decide(stage.client().sending(TOPIC, b"1", b"2", b"3"))
        assert [refusal.code for refusal in reader.closed] == ["slow-consumer"]
        assert stage.broker.destinations.named == {}

    def test_a_durable_one_of_the_same_name_is_another(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        shared(one, name="x")
        durable(two, name="x")
        stage.client().publish(TOPIC, b"1")
        assert (one.take(), two.take()) == ([b"1"], [b"1"])


class TestOfACluster:
    """Durable subscriptions that other brokers have created, and the events for them."""

    def create(self, stage: Stage, **facts: Any) -> None:
        terms = records.Terms(**{"filter": TOPIC, "selector": "", "shared": False, "owner": "ann", **facts})
        cluster = stage.client("cluster")
        cluster.do(c.CreateSubscription(cluster.peer, "audit", terms))

    def test_one_of_another_broker_keeps_messages_without_a_consumer(self, stage: Stage) -> None:
        self.create(stage, selector="a = 1")
        stage.restart()
        stage.client().publish(TOPIC, b"1", block=b"a:1\n")
        stage.client().publish(TOPIC, b"2")
        durable(reader := stage.client("ann"), selector="a = 1")
        assert reader.take() == [b"1"]

    def test_one_with_another_topic_is_not_replaced(self, stage: Stage) -> None:
        durable(stage.client("ann"))
        with pytest.raises(Refused, match="delete it first"):
            self.create(stage, filter="/topic/other")
        self.create(stage, shared=True)
        assert stage.broker.destinations.named[KEPT].terms.shared
        for wrong in ("/queue/a", "/topic/a b\x00"):
            with pytest.raises(Refused):
                self.create(stage, filter=wrong)

    def test_no_client_creates_or_deletes_one_while_the_keeper_is_away(self, stage: Stage) -> None:
        durable(reader := stage.client(), name="old")
        reader.disconnect()
        stage.broker.durables.refusal = Refused("master-unavailable", "the keeper is away")
        client = stage.client()
        with pytest.raises(Refused, match="the keeper is away"):
            durable(client)
        with pytest.raises(Refused, match="the keeper is away"):
            client.do(c.DeleteSubscription(client.peer, "old"))
        shared(client)
        stage.client().publish(TOPIC, b"1")
        assert client.take() == [b"1"], "one that is not durable is no matter of the cluster"
        self.create(stage)
        client.do(c.DeleteSubscription(client.peer, "audit", decided=True))
        assert KEPT not in stage.queues

    def test_each_change_is_an_event_where_they_are_watched(self, stage: Stage) -> None:
        durable(stage.client(), name="before")
        stage.broker.durables.watched = True
        ann = stage.client("ann")
        terms = records.Terms(TOPIC, "", False, "ann")
        begin = c.Subscribe(ann.peer, "1", TOPIC, name="audit", durable=True)
        assert stage.decide(begin).take_events() == [SubscriptionChanged("audit", terms)]
        shared(ann, id="2")
        end = c.Unsubscribe(ann.peer, "1", forget=True)
        assert stage.decide(end).take_events() == [SubscriptionChanged("audit", None)]
