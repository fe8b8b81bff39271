"""Deliveries acknowledged and returned, dead letters, leases."""

from dataclasses import replace
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.message import Envelope, MessageIds
from broker_app.core.policy import DestinationPolicy
from tests.core.stage import Client, Fact, Stage, read


@pytest.fixture
def stage() -> Stage:
    return Stage(max_attempts=3)


def consumer_of(
    stage: Stage, *bodies: bytes, ack: str = c.INDIVIDUAL, address: str = "/queue/a", **facts: Any
) -> Client:
    """A client that holds `bodies` unsettled, with the tags 1, 2, 3 …"""
    stage.decide(stage.client().sending(address, *bodies))
    client = stage.client()
    client.subscribe(address, ack, **facts)
    return client


def waiting(stage: Stage, address: str = "/queue/a") -> list[bytes]:
    return [message.body for lane in stage.queue(address).lanes for message in lane.in_memory()]


def ends(stage: Stage) -> list[tuple[int, str]]:
    """(position, cause) of all that left for good, in the order of the records."""
    return [
        (position, records.CAUSES[record.flags])
        for batch in stage.batches
        for record in read(batch)
        if record.kind == records.ACKED
        for position in record.numbers
    ]


def test_with_automatic_acknowledgement_a_message_is_gone_when_it_leaves(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", ack=c.AUTO)
    assert [tag for _, tag, _ in client.got] == [0, 0]
    client.disconnect()
    assert waiting(stage) == []
    assert ends(stage) == [(1, "acknowledged"), (2, "acknowledged")]


def test_all_that_a_subscription_held_when_it_ended_may_still_be_acknowledged_in_vain(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20
    monkeypatch.setattr("broker_app.core.subscriptions.MAX_RETURNED", count // 2)
    client = consumer_of(stage, *[b""] * count, credit=count)
    client.peer.strict = True
    client.unsubscribe()
    client.settle(1, count)
    assert stage.queue("/queue/a").depth == count


def test_an_acknowledged_message_never_comes_again(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", b"3")
    client.settle(2)
    assert client.tags == [1, 3]
    client.disconnect()
    assert waiting(stage) == [b"1", b"3"]
    assert ends(stage) == [(2, "acknowledged")]


def test_a_cumulative_acknowledgement_covers_the_earlier_ones_of_its_subscription(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", ack=c.CLIENT)
    stage.decide(stage.client().sending("/queue/b", b"b1", b"b2"))
    client.subscribe("/queue/b", c.CLIENT, id="other")
    stage.decide(stage.client().sending("/queue/a", b"3", b"4"))
    client.settle(5, cumulative=True)
    assert client.tags == [3, 4, 6]


def test_several_cumulative_tags_cover_each_its_own_subscription(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", b"3", ack=c.CLIENT)
    stage.decide(stage.client().sending("/queue/b", b"b1", b"b2", b"b3"))
    client.subscribe("/queue/b", c.CLIENT, id="other")
    client.settle(2, 5, cumulative=True)
    assert client.tags == [3, 6]


def test_acknowledging_a_tag_twice_in_one_command_counts_once(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2")
    client.settle(1, 1)
    assert ends(stage) == [(1, "acknowledged")]
    assert stage.queue("/queue/a").unsettled == 1


def test_an_unknown_tag_is_refused_and_nothing_of_the_command_is_done(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2")
    for command in (
        c.Settle(client.peer, [1, 9]),
        c.Return(client.peer, [1, 9]),
        c.Extend(client.peer, [1, 9], 5),
    ):
        with pytest.raises(Refused, match="no unsettled delivery 9") as refused:
            client.do(command)
        assert refused.value.code == "unknown-delivery"
    assert client.tags == [1, 2]


def test_a_tag_belongs_to_one_client(stage: Stage) -> None:
    consumer_of(stage, b"1")
    with pytest.raises(Refused, match="no unsettled delivery 1"):
        stage.client().settle(1)


def test_settling_what_was_settled_is_refused(stage: Stage) -> None:
    client = consumer_of(stage, b"1")
    client.settle(1)
    with pytest.raises(Refused, match="it was settled, returned or never existed"):
        client.settle(1)


class TestGivingBack:
    def test_a_message_returns_to_its_original_place(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", b"2", b"3", credit=3)
        stage.decide(stage.client().sending("/queue/a", b"4"))
        client.pause()
        client.give_back(3)
        client.give_back(1)
        assert waiting(stage) == [b"1", b"3", b"4"]

    def test_the_first_delivery_is_not_marked_and_the_next_one_is(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        assert client.take_attempts() == [(b"1", 0)]
        client.give_back(1)
        assert client.take_attempts() == [(b"1", 1)]

    def test_returned_messages_of_one_priority_wait_behind_higher_ones(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", credit=1)
        stage.client().publish("/queue/a", b"urgent", priority=9)
        client.take()
        client.give_back(1)
        assert client.take() == [b"urgent"]

    def test_cumulative_giving_back_keeps_the_order(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", b"2", b"3", ack=c.CLIENT)
        client.take()
        client.give_back(2, cumulative=True)
        assert client.take() == [b"1", b"2"]
        assert client.tags == [3, 4, 5]

    def test_disconnecting_returns_everything(self, stage: Stage) -> None:
        consumer_of(stage, b"1", b"2").disconnect()
        other = stage.client()
        other.subscribe("/queue/a")
        assert other.take_attempts() == [(b"1", 1), (b"2", 1)]

    def test_unsubscribing_returns_everything(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", b"2")
        client.unsubscribe()
        assert client.tags == []
        assert waiting(stage) == [b"1", b"2"]

    def test_unsubscribing_may_leave_deliveries_to_be_settled(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", b"2")
        client.unsubscribe(keep_unsettled=True)
        client.settle(1)
        client.give_back(2)
        assert waiting(stage) == [b"2"]
        assert client.take() == [b"1", b"2"], "an ended subscription gets nothing more"

    def test_deliveries_that_were_not_attempted_do_not_count(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1", b"2")
        stage.decide(c.Pause(client.peer))
        for _ in range(5):
            stage.decide(c.Return(client.peer, list(client.peer.unsettled), attempted=False))
            assert waiting(stage) == [b"1", b"2"]
            stage.decide(c.Resume(client.peer))
            stage.decide(c.Pause(client.peer))
        assert [message.attempts for _, _, message in client.got] == [0] * len(client.got)
        assert len(client.got) == 12
        client.settle(*client.peer.unsettled)
        assert waiting(stage) == [], "and it can be settled"


class TestDeadLetters:
    def test_a_message_that_came_back_too_often_is_dead(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        for tag in (1, 2, 3):
            client.give_back(tag)
        assert client.tags == []
        assert waiting(stage, "/queue/a.dead") == [b"1"]
        assert ends(stage) == [(1, "dead-lettered")]

    def test_a_rejected_message_is_dead_at_once(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        client.reject(1)
        assert waiting(stage, "/queue/a.dead") == [b"1"]
        assert waiting(stage) == []

    def test_a_dead_letter_names_its_origin_and_reason(self, stage: Stage) -> None:
        producer, client = stage.client(), stage.client()
        message = producer.publish("/queue/a:b", b"body", block=b"color:red\n", priority=7)
        client.subscribe("/queue/a:b")
        client.reject(1, detail="line 1\nline 2: \\ \r")
        client.subscribe("/queue/a:b.dead", id="dead")
        (_, _, dead), ids = client.got[-1], MessageIds(stage.tag)
        now_ms = stage.now_ms
        assert dead.envelope.block.decode() == (
            "color:red\norigin:/queue/a\\cb\ndead-reason:REJECTED\ndead-detail:line 1\\nline 2\\c \\\\ \\r\n"
            f"dead-attempts:1\ndead-at:{now_ms}\nsent-at:{now_ms}\ndead-consumer:/1\n"
        )
        assert (dead.body, dead.envelope.priority, dead.attempts) == (b"body", 7, 0)
        assert ids.of(dead) == ids.of(message), "it keeps its id"

    def test_too_many_attempts_are_a_reason_of_their_own(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        for tag in (1, 2, 3):
            client.give_back(tag)
        client.subscribe("/queue/a.dead", id="dead")
        assert client.got[-1][2].envelope.block.startswith(
            b"origin:/queue/a\ndead-reason:MAX_ATTEMPTS\ndead-detail:delivered 3 times\ndead-attempts:3\n"
        )

    def test_the_last_failure_is_in_the_detail(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        for tag, failure in ((1, "no disk"), (2, "no disk"), (3, "no network")):
            stage.decide(c.Return(client.peer, (tag,), detail=failure))
        client.subscribe("/queue/a.dead", id="dead")
        block = client.got[-1][2].envelope.block
        assert b"dead-detail:delivered 3 times; the last time\\c no network\n" in block

    def test_a_dead_letter_never_dies_again(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        client.reject(1)
        client.subscribe("/queue/a.dead", id="dead")
        for tag in range(2, 9):
            client.give_back(tag)
        assert client.tags == [9]
        client.reject(9)
        assert "/queue/a.dead.dead" not in stage.queues
        assert [cause for _, cause in ends(stage)] == ["dead-lettered", "discarded"]
        assert stage.broker.turn.counters["discarded"] == 1

    @pytest.mark.parametrize("address", ["/queue/errors", "/queue/orders.dead", "/queue/a"])
    def test_what_programs_send_to_a_queue_of_dead_letters_can_die_there(
        self, stage: Stage, address: str
    ) -> None:
        few = DestinationPolicy(max_attempts=3)
        stage.give_policies(
            **{"a": replace(few, dead_letters="errors"), "errors": few, "orders.dead": few},
        )
        client = consumer_of(stage, b"1", b"2", b"3", address=address)
        client.reject(1)
        for tag in (2, 4, 5):
            client.give_back(tag)
        grave = "/queue/errors" if address == "/queue/a" else f"{address}.dead"
        assert waiting(stage, grave) == [b"1", b"2"]
        assert stage.broker.turn.counters["discarded"] == 0

    def test_an_expired_message_of_a_queue_of_dead_letters_is_one_of_its_own(self, stage: Stage) -> None:
        stage.give_policies(
            a=DestinationPolicy(dead_letters="errors"),
            errors=DestinationPolicy(dead_letters="graveyard", dead_letter_expired=True),
        )
        stage.client().publish("/queue/errors", b"1", ttl_ms=500)
        stage.pass_time(1_000)
        assert waiting(stage, "/queue/graveyard") == [b"1"]

    def test_a_dead_letter_goes_on_to_where_its_queue_sends_its_own(self, stage: Stage) -> None:
        stage.give_policies(
            a=DestinationPolicy(dead_letters="retry"), retry=DestinationPolicy(dead_letters="graveyard")
        )
        client = consumer_of(stage, b"1")
        client.reject(1)
        client.subscribe("/queue/retry", id="retry")
        client.reject(2)
        client.subscribe("/queue/graveyard", id="graveyard")
        assert b"origin:/queue/a\n" in client.got[-1][2].envelope.block
        assert [cause for _, cause in ends(stage)] == ["dead-lettered", "dead-lettered"]

    def test_in_a_circle_of_dead_letters_each_rejection_moves_a_message_on(self, stage: Stage) -> None:
        stage.give_policies(a=DestinationPolicy(dead_letters="b"), b=DestinationPolicy(dead_letters="a"))
        client = consumer_of(stage, b"1")
        client.subscribe("/queue/b", id="b")
        for tag in range(1, 6):
            client.reject(tag)
        assert client.tags == [6]
        assert stage.broker.turn.counters["discarded"] == 0

    def test_a_circle_of_full_queues_ends(self, stage: Stage) -> None:
        one = DestinationPolicy(max_messages=1)
        stage.give_policies(a=replace(one, dead_letters="b"), b=replace(one, dead_letters="a"))
        producer = stage.client()
        for body in (b"1", b"2", b"3", b"4"):
            producer.publish("/queue/a", body)
        assert (waiting(stage), waiting(stage, "/queue/b")) == ([b"4"], [b"3"])
        assert stage.broker.turn.counters["discarded"] == 2

    def test_in_a_queue_that_names_itself_a_message_dies_once_and_stays(self, stage: Stage) -> None:
        stage.give_policies(a=DestinationPolicy(dead_letters="a"))
        client = consumer_of(stage, b"1")
        client.reject(1)
        assert b"dead-reason:REJECTED\n" in client.got[-1][2].envelope.block
        client.reject(2)
        assert client.tags == []
        assert [cause for _, cause in ends(stage)] == ["dead-lettered", "discarded"]

    def test_temporary_queues_have_no_dead_letters(self, stage: Stage) -> None:
        client = stage.client()
        client.subscribe("/temp-queue/mine")
        stage.client().publish("/temp-queue/mine", b"1")
        for tag in range(1, 8):
            client.give_back(tag)
        client.reject(8)
        assert list(stage.queues) == ["/temp-queue/mine"]
        assert stage.broker.turn.counters["discarded"] == 1

    def test_a_requester_who_takes_no_replies_is_ended_and_not_the_one_that_answers(self) -> None:
        stage = Stage(topic_pending=3)
        slow, server = stage.client(), stage.client()
        slow.subscribe("/temp-queue/mine", credit=1)
        for body in (b"1", b"2", b"3", b"4", b"5", b"6"):
            server.publish("/temp-queue/mine", body)
        assert slow.take() == [b"1"]
        assert [refusal.code for refusal in slow.closed] == ["slow-consumer"]
        assert server.refused == []

    def test_a_dead_letter_does_not_expire(self, stage: Stage) -> None:
        stage.client().publish("/queue/a", b"1", ttl_ms=500)
        client = stage.client()
        client.subscribe("/queue/a")
        client.reject(1)
        stage.pass_time(5_000)
        assert waiting(stage, "/queue/a.dead") == [b"1"]

    def test_the_dead_letters_of_the_longest_name_can_be_consumed(self, stage: Stage) -> None:
        address = "/queue/" + "x" * 255
        client = consumer_of(stage, b"1", address=address)
        client.reject(1)
        client.take()
        client.subscribe(address + ".dead", id="dead")
        assert client.take() == [b"1"]

    def test_moving_is_one_batch(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        client.reject(1)
        moved = [record.kind for record in read(stage.batches[-1])]
        assert moved == [records.RETURNED, records.ACKED, records.PUBLISHED]


class TestLeases:
    def leased(self, stage: Stage) -> Client:
        return consumer_of(stage, b"1", b"2", lease_ms=1_000, credit=2)

    def test_an_unsettled_delivery_comes_back_when_its_lease_ends(self, stage: Stage) -> None:
        client = self.leased(stage)
        client.take()
        stage.pass_time(999)
        assert client.tags == [1, 2]
        client.pause()
        stage.pass_time(1)
        assert waiting(stage) == [b"1", b"2"]
        client.resume()
        assert client.take_attempts() == [(b"1", 1), (b"2", 1)]

    def test_settling_in_time_is_final(self, stage: Stage) -> None:
        client = self.leased(stage)
        client.settle(1)
        stage.pass_time(2_000)
        assert client.tags == [3]
        assert ends(stage) == [(1, "acknowledged")]

    def test_settling_too_late_is_refused(self, stage: Stage) -> None:
        client = self.leased(stage)
        stage.pass_time(1_000)
        with pytest.raises(Refused, match="unsettled delivery 1"):
            client.settle(1)

    def test_a_lease_can_be_extended(self, stage: Stage) -> None:
        client = self.leased(stage)
        stage.pass_time(900)
        client.do(c.Extend(client.peer, [1], 1_000))
        stage.pass_time(999)
        assert client.tags == [1, 3]
        stage.pass_time(1)
        assert 1 not in client.tags

    def test_a_lease_counts_as_an_attempt(self, stage: Stage) -> None:
        self.leased(stage)
        for _ in range(3):
            stage.pass_time(1_000)
        assert waiting(stage, "/queue/a.dead") == [b"1", b"2"]

    def test_the_lease_of_a_client_that_left_means_nothing(self, stage: Stage) -> None:
        self.leased(stage).disconnect()
        stage.pass_time(5_000)
        assert waiting(stage) == [b"1", b"2"]

    def test_without_a_lease_a_delivery_never_comes_back_by_itself(self, stage: Stage) -> None:
        client = consumer_of(stage, b"1")
        stage.pass_time(10**9)
        assert client.tags == [1]


def test_acknowledgements_of_one_batch_are_one_record(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", b"3")
    stage.decide(c.Settle(client.peer, [1]), c.Settle(client.peer, [3, 2]))
    (record,) = read(stage.batches[-1])
    assert (record.kind, record.address, record.numbers) == (records.ACKED, "/queue/a", [1, 3, 2])


def test_a_message_that_is_not_persistent_leaves_no_record(stage: Stage) -> None:
    client = stage.client()
    client.subscribe("/queue/a")
    stage.decide(c.Publish(client.peer, [(Envelope("/queue/a", persistent=False), b"1", None)]))
    client.give_back(1)
    client.give_back(2)
    client.reject(3)
    assert waiting(stage, "/queue/a.dead") == [b"1"]
    assert stage.batches == []


class TestFacts:
    """The record of a message that is gone shows what its clients saw of it."""

    def test_of_each_acknowledged_message(self, stage: Stage) -> None:
        stage.client().publish("/queue/a", b"1", block=b"a:1\n")
        stage.pass_time(40)
        stage.client().publish("/queue/a", b"22")
        consumer = stage.client()
        consumer.subscribe("/queue/a", credit=9)
        consumer.give_back(2)
        stage.pass_time(2)
        consumer.settle(1, 3)
        (record,) = read(stage.batches[-1])
        assert record.facts == {1: Fact(42, 1, 4, 1, 0), 2: Fact(2, 2, 0, 2, 0)}

    def test_of_a_message_that_was_read_back(self) -> None:
        stage = Stage(window=1)
        for body in (b"1", b"22", b"333"):
            stage.client().publish("/queue/a", body)
        stage.restart()
        stage.pass_time(5)
        consumer = stage.client()
        consumer.subscribe("/queue/a", c.AUTO)
        assert consumer.take() == [b"1", b"22", b"333"]
        facts = [record.facts for batch in stage.batches for record in read(batch)]
        found = {position: fact for record in facts if record for position, fact in record.items()}
        assert found == {1: Fact(5, 1, 0, 1, 0), 2: Fact(5, 2, 0, 1, 0), 3: Fact(5, 3, 0, 1, 0)}

    def test_an_expired_message_was_not_delivered(self, stage: Stage) -> None:
        stage.client().publish("/queue/a", b"1", ttl_ms=100)
        stage.pass_time(2_000)
        assert ends(stage) == [(1, "expired")]
        (record,) = read(stage.batches[-1])
        assert record.facts == {1: Fact(2_000, 1, 0, 0, 0)}

    def test_a_message_deleted_with_its_queue_had_the_delivery_that_was_unsettled(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1", b"2", credit=1)
        consumer.unsubscribe(keep_unsettled=True)
        stage.decide(c.DeleteQueue(stage.client().peer, "/queue/a", force=True))
        waiting, unsettled = read(stage.batches[-1])
        assert (waiting.facts, unsettled.facts) == ({2: Fact(0, 1, 0, 0, 0)}, {1: Fact(0, 1, 0, 1, 0)})

    def test_a_purge_shows_those_that_are_in_memory(self) -> None:
        stage = Stage(window=2)
        stage.decide(stage.client().sending("/queue/a", b"1", b"2", b"3"))
        stage.client().purge("/queue/a")
        in_memory, outside = read(stage.batches[-1])
        assert (in_memory.numbers, outside.numbers) == ([1, 2], [3])
        assert (in_memory.facts is not None, outside.facts) == (True, None)

    def test_a_message_that_waited_since_before_the_clock_was_set_back(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1")
        stage.now_us -= 10_000_000
        consumer.settle(1)
        (record,) = read(stage.batches[-1])
        assert record.facts == {1: Fact(0, 1, 0, 1, has_own_id=1)}, "its id does not follow from this time"


def failures(stage: Stage) -> list[list[int]]:
    """(position, number of the delivery) of each delivery that failed."""
    return [
        record.numbers
        for batch in stage.batches
        for record in read(batch)
        if record.kind == records.RETURNED and record.flags == records.GIVEN_BACK
    ]


class TestFailedDeliveries:
    """A delivery that failed has one record, however it failed."""

    def test_given_back_rejected_and_left_behind(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1", b"2", b"3")
        consumer.give_back(1)
        consumer.give_back(4)
        consumer.reject(2)
        consumer.disconnect()
        assert failures(stage) == [[1, 1], [1, 2], [2, 1], [3, 1], [1, 3]]

    def test_a_lease_that_ended(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1", lease_ms=100)
        stage.pass_time(200)
        consumer.settle(2)
        assert failures(stage) == [[1, 1]]

    def test_none_for_an_acknowledgement_or_a_message_that_is_not_recorded(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1")
        consumer.settle(1)
        stage.client().publish("/queue/a", b"2", persistent=False)
        consumer.give_back(2)
        assert failures(stage) == []

    def test_they_change_nothing_of_what_is_recovered(self, stage: Stage) -> None:
        consumer = consumer_of(stage, b"1", b"2", b"3")
        consumer.give_back(2)
        consumer.disconnect()
        with_them = take_snapshot(stage.recovered())
        assert failures(stage) == [[2, 1], [1, 1], [3, 1], [2, 2]]
        assert with_them == stage.take_snapshot()
        stage.restart()
        other = stage.client()
        other.subscribe("/queue/a")
        assert other.take_attempts() == [(b"1", 1), (b"2", 2), (b"3", 1)]
