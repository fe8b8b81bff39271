"""Slow consumers are shown, and ended where the policy demands it."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import Stage


def stage_with(address: str, slow_consumer_ms: int) -> Stage:
    stage = Stage()
    policy = DestinationPolicy(slow_consumer_ms=slow_consumer_ms)
    stage.decide(c.Reconfigure(Policies(exact={address: policy})))
    return stage


def pass_seconds(stage: Stage, seconds: int) -> None:
    for _ in range(seconds):
        stage.pass_time(1_000)


def test_a_consumer_that_uses_all_its_credit_while_messages_wait_is_shown_and_then_ended() -> None:
    stage = stage_with("/queue/a", 5_000)
    slow, other = stage.client(), stage.client()
    subscription = slow.subscribe("/queue/a", credit=1)
    stage.decide(other.sending("/queue/a", b"1", b"2"))
    stage.pass_time(1_000)
    since_ms = stage.broker.subscriptions.slow_consumers.since_ms(subscription)
    assert since_ms == stage.now_ms
    pass_seconds(stage, 4)
    assert not slow.closed
    assert stage.broker.subscriptions.slow_consumers.since_ms(subscription) == since_ms
    pass_seconds(stage, 1)
    (reason,) = slow.closed
    assert reason.code == "slow-consumer"
    assert "settled nothing for 5 s while messages waited for it, with 1 unsettled" in reason.detail
    other.subscribe("/queue/a")
    assert other.take_attempts() == [(b"1", 1), (b"2", 0)]


def test_a_client_that_settles_now_and_then_is_not_slow() -> None:
    stage = stage_with("/queue/a", 3_000)
    client = stage.client()
    client.subscribe("/queue/a", credit=1)
    stage.decide(client.sending("/queue/a", *(b"%d" % number for number in range(9))))
    for tag in range(1, 6):
        pass_seconds(stage, 2)
        client.settle(tag)
    assert not client.closed


def test_a_client_that_has_nothing_waiting_may_take_its_time() -> None:
    stage = stage_with("/queue/a", 3_000)
    client = stage.client()
    client.subscribe("/queue/a", credit=1)
    client.publish("/queue/a", b"1")
    pass_seconds(stage, 10)
    assert not client.closed
    assert len(stage.broker.subscriptions.slow_consumers) == 0


def test_a_client_that_reads_nothing_is_slow_too() -> None:
    stage = stage_with("/queue/a", 3_000)
    client = stage.client()
    client.subscribe("/queue/a", c.AUTO)
    client.pause()
    client.publish("/queue/a", b"1")
    pass_seconds(stage, 4)
    assert [reason.code for reason in client.closed] == ["slow-consumer"]


def test_a_slow_consumer_of_a_topic_is_ended() -> None:
    stage = stage_with("/topic/t", 3_000)
    client = stage.client()
    subscription = client.subscribe("/topic/t", credit=1)
    stage.decide(client.sending("/topic/t", b"1", b"2"))
    stage.pass_time(1_000)
    assert stage.broker.subscriptions.slow_consumers.since_ms(subscription)
    pass_seconds(stage, 3)
    assert [reason.code for reason in client.closed] == ["slow-consumer"]
    stage.pass_time(1_000)
    assert not stage.broker.subscriptions.slow_consumers.behind


def test_leases_end_by_themselves_and_are_never_slow() -> None:
    stage = stage_with("/queue/a", 2_000)
    client = stage.client()
    client.subscribe("/queue/a", credit=1, lease_ms=60_000)
    stage.decide(client.sending("/queue/a", b"1", b"2"))
    pass_seconds(stage, 5)
    assert not client.closed


def test_without_a_policy_slow_consumers_are_shown_alone() -> None:
    stage = Stage()
    client = stage.client()
    subscription = client.subscribe("/queue/a", credit=1)
    stage.decide(client.sending("/queue/a", b"1", b"2"))
    pass_seconds(stage, 100)
    assert not client.closed
    assert stage.now_ms - stage.broker.subscriptions.slow_consumers.since_ms(subscription) == 99_000


def test_a_client_is_not_slow_while_the_broker_is_paused() -> None:
    stage = stage_with("/queue/a", 3_000)
    client = stage.client()
    client.subscribe("/queue/a", credit=1)
    stage.decide(client.sending("/queue/a", b"1", b"2"))
    client.peer.suspended = True
    pass_seconds(stage, 10)
    client.peer.suspended = False
    pass_seconds(stage, 3)
    assert not client.closed
    pass_seconds(stage, 1)
    assert [reason.code for reason in client.closed] == ["slow-consumer"]
