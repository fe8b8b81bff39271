"""Delays before another attempt, and the headers of dead letters."""

import pytest

from broker_app.core import commands as c
from broker_app.core.delivery.delayed_redelivery import retry_delay_ms
from broker_app.core.message import DeliveryOptions, Duplicate
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.core.publishing.dedup import DedupWindows
from tests.core.stage import Client, Stage

A = "/queue/a"


def growing(**facts: object) -> Stage:
    return Stage(policy=DestinationPolicy(retry_delay_ms=1_000, max_retry_delay_ms=3_000, **facts))  # type: ignore[arg-type]


def one_at_a_time(stage: Stage, *bodies: bytes) -> Client:
    client = stage.client("anna")
    stage.decide(client.sending(A, *bodies))
    client.subscribe(A, credit=1)
    return client


def test_the_wait_grows_up_to_a_bound() -> None:
    policy = DestinationPolicy(retry_delay_ms=1_000, retry_factor=3.0, max_retry_delay_ms=20_000)
    assert [retry_delay_ms(policy, n) for n in (1, 2, 3, 4, 1_000)] == [1_000, 3_000, 9_000, 20_000, 20_000]
    assert retry_delay_ms(DestinationPolicy(), 5) == 0


def test_a_message_that_came_back_waits_while_others_pass() -> None:
    stage = growing()
    client = one_at_a_time(stage, b"1", b"2", b"3")
    client.give_back(1)
    assert client.take() == [b"1", b"2"]
    stage.pass_time(999)
    assert client.take() == []
    client.give_back(2)
    stage.pass_time(1)
    client.settle(3)
    assert client.take_attempts() == [(b"3", 0), (b"1", 1)], "at its old place, before what is behind it"


def test_each_wait_is_longer_than_the_one_before() -> None:
    stage = growing()
    client = one_at_a_time(stage, b"1")
    for tag, wait in ((1, 1_000), (2, 2_000), (3, 3_000), (4, 3_000)):
        client.give_back(tag)
        client.take()
        stage.pass_time(wait - 1)
        assert client.take() == []
        stage.pass_time(1)
        assert client.take() == [b"1"]


def test_messages_that_wait_for_another_attempt_can_be_delivered_now() -> None:
    stage = growing()
    client = one_at_a_time(stage, b"1", b"2")
    other = stage.client("bob")
    stage.decide(other.sending("/queue/b", b"3"))
    other.subscribe("/queue/b", credit=1)
    for one in (client, other):
        one.give_back(1)
        one.take()
    stage.decide(c.RetryDelayed(client.peer, A))
    client.settle(2)
    assert client.take_attempts() == [(b"1", 1)], "at its place before its time"
    stage.pass_time(1_000)
    assert client.take() == [], "it does not come twice"
    assert other.take() == [b"3"], "that of another queue waited"


def test_a_consumer_may_say_how_long_to_wait() -> None:
    stage = Stage()
    client = one_at_a_time(stage, b"1")
    client.give_back(1, delay_ms=30_000)
    client.take()
    stage.pass_time(29_999)
    assert client.take() == []
    stage.pass_time(1)
    assert client.take_attempts() == [(b"1", 1)]


def test_a_restart_ends_the_wait_and_keeps_the_count() -> None:
    stage = growing()
    client = one_at_a_time(stage, b"1")
    client.give_back(1)
    stage.pass_time(1_000)
    client.give_back(2)
    stage.restart()
    client = stage.client()
    client.subscribe(A)
    assert client.take_attempts() == [(b"1", 2)]


def test_more_than_may_wait_come_back_at_once() -> None:
    stage = Stage(policy=DestinationPolicy(retry_delay_ms=1_000), delayed_redeliveries=1)
    client = stage.client()
    stage.decide(client.sending(A, b"1", b"2"))
    client.subscribe(A)
    client.take()
    client.give_back(1, 2)
    assert client.take() == [b"2"]


@pytest.mark.parametrize("consumed", [True, False])
def test_expired_messages_go_to_the_dead_letters_where_the_policy_says_so(consumed: bool) -> None:
    stage = Stage(policy=DestinationPolicy(dead_letter_expired=True))
    client = stage.client()
    client.publish(A, b"1", ttl_ms=100)
    stage.pass_time(1_000)
    if consumed:
        client.subscribe(A)
    stage.pass_time(1_000)
    assert client.take() == []
    (dead,) = next(iter(stage.queue(A + ".dead").lanes)).in_memory()
    assert b"dead-reason:EXPIRED\n" in dead.envelope.block
    assert dead.expires_ms == 0


def test_dead_letters_may_have_a_queue_of_another_name_which_has_none_itself() -> None:
    stage = Stage(policy=DestinationPolicy(dead_letters="graveyard"))
    client = one_at_a_time(stage, b"1")
    client.reject(1)
    client.subscribe("/queue/graveyard", id="2")
    assert client.take() == [b"1", b"1"]
    client.reject(2)
    assert set(stage.queues) == {A, "/queue/graveyard"}
    assert stage.queue("/queue/graveyard").depth == 0


def test_dead_letters_of_another_name_are_bounded_like_all_others() -> None:
    stage = Stage()
    stage.decide(
        c.Reconfigure(
            Policies(
                exact={
                    A: DestinationPolicy(dead_letters="graveyard"),
                    "/queue/graveyard": DestinationPolicy(max_messages=1),
                }
            )
        )
    )
    client = one_at_a_time(stage, b"1", b"2")
    client.reject(1)
    client.reject(2)
    assert [message.body for message in stage.queue("/queue/graveyard").lanes[0].in_memory()] == [b"2"]
    assert (
        Policies(DestinationPolicy(dead_letters="graveyard")).of("/queue/graveyard").max_messages == 100_000
    )


def test_a_second_death_keeps_where_the_first_was_and_when_it_was_sent() -> None:
    stage = Stage()
    client = one_at_a_time(stage, b"1")
    sent_ms = stage.now_ms
    stage.pass_time(5_000)
    client.reject(1, detail="first")
    (dead,) = stage.queue(A + ".dead").lanes[0].in_memory()
    client.do(c.Transfer(client.peer, A + ".dead", [c.Chosen(dead.position)], "/queue/b"))
    other = stage.client("bob")
    other.subscribe("/queue/b")
    other.reject(1, detail="second")
    (dead,) = stage.queue("/queue/b.dead").lanes[0].in_memory()
    facts = dict(line.split(":", 1) for line in dead.envelope.block.decode().splitlines())
    assert (facts["origin"], facts["dead-detail"], facts["dead-consumer"]) == (A, "second", "bob/1")
    assert (int(facts["sent-at"]), int(facts["dead-at"])) == (sent_ms, stage.now_ms)


def test_attempts_are_bounded_by_the_policy_of_the_queue() -> None:
    stage = Stage()
    policies = Policies(stage.policy, {A: DestinationPolicy(max_attempts=1)})
    stage.decide(c.Reconfigure(policies))
    client = one_at_a_time(stage, b"1")
    client.give_back(1)
    assert stage.queue(A + ".dead").depth == 1


def test_a_repeat_is_answered_with_the_first_and_not_stored() -> None:
    stage = Stage()
    client = stage.client()
    ids = stage.broker.turn.ids
    first = client.publish(A, b"1", options=DeliveryOptions(dedup_id="x"))
    repeat = client.publish(A, b"1 again", options=DeliveryOptions(dedup_id="x"))
    assert (ids.of(repeat), stage.queue(A).depth) == (ids.of(first), 1)
    assert stage.broker.turn.counters["duplicates"] == 1
    client.publish("/queue/b", b"1", options=DeliveryOptions(dedup_id="x"))
    assert stage.queue("/queue/b").depth == 1, "each destination has a window of its own"


def test_a_window_holds_over_a_crash_after_the_message_is_gone_and_ends_in_time() -> None:
    stage = Stage()
    client = one_at_a_time(stage)
    client.publish(A, b"1", options=DeliveryOptions(dedup_id="x"))
    client.settle(1)
    snapshot, before = stage.take_snapshot(), len(stage.batches)
    stage.broker = stage.recovered(snapshot, before)
    stage.client().publish(A, b"1", options=DeliveryOptions(dedup_id="x"))
    assert stage.broker.turn.counters["duplicates"] == 1
    stage.pass_time(600_000)
    stage.client().publish(A, b"1", options=DeliveryOptions(dedup_id="x"))
    assert stage.queue(A).depth == 1


def test_too_many_ids_shorten_the_window_visibly() -> None:
    stage = Stage(dedup_ids=3)
    client = stage.client()
    for number in range(5):
        client.publish(A, b"", options=DeliveryOptions(dedup_id=str(number)))
        stage.pass_time(1_000)
    duplicates = stage.broker.publisher.dedup_windows
    assert duplicates.facts(A, stage.now_ms, 600_000) == (3, 3_000)
    assert duplicates.facts("/queue/none", stage.now_ms, 600_000) == (0, 600_000)


def test_ids_of_so_many_destinations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DedupWindows, "MAX_DESTINATIONS", 2)
    stage = Stage()
    client = stage.client()
    for address in ("/topic/a", "/topic/b", "/topic/c"):
        client.publish(address, options=DeliveryOptions(dedup_id="x"))
    found = [
        stage.broker.publisher.dedup_windows.facts(f"/topic/{name}", stage.now_ms, 1)[0] for name in "abc"
    ]
    assert found == [0, 1, 1]
    assert not isinstance(client.publish("/topic/a", options=DeliveryOptions(dedup_id="x")), Duplicate)
    assert isinstance(client.publish("/topic/c", options=DeliveryOptions(dedup_id="x")), Duplicate)


def test_a_transaction_decides_about_repeats_at_its_commit() -> None:
    stage = Stage()
    client = stage.client()
    client.do(c.Begin(client.peer, "t"))
    client.do(
        c.Enlist(client.peer, "t", client.sending(A, b"1", b"2", options=DeliveryOptions(dedup_id="x")))
    )
    client.publish(A, b"0", options=DeliveryOptions(dedup_id="x"))
    client.do(c.Commit(client.peer, "t"))
    assert stage.queue(A).depth == 1
