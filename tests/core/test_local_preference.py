"""Queues that prefer local consumers: those of other brokers are served where local ones do not keep up."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.delivery.local_preference import WAIT_MS
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import Client, Stage

QUEUE = "/queue/orders"
PREFERRING = DestinationPolicy(prefer_local=True)


@pytest.fixture
def stage() -> Stage:
    return Stage(policy=PREFERRING)


def consumer(stage: Stage, credit: int = 1, *, remote: bool = False, priority: int = 0) -> Client:
    client = stage.client("b3" if remote else "local")
    client.subscribe(QUEUE, credit=credit, remote=remote, priority=priority)
    return client


def publish(stage: Stage, *bodies: bytes, priority: int = 4) -> None:
    for body in bodies:
        stage.client().publish(QUEUE, body, priority=priority)


def test_a_message_waits_for_a_local_consumer_that_is_without_credit_for_a_moment(stage: Stage) -> None:
    remote, local = consumer(stage, 9, remote=True), consumer(stage, 2)
    publish(stage, b"0", b"1", b"2")
    stage.pass_time(WAIT_MS - 1)
    local.settle(local.tags[0])
    assert (local.take(), remote.take()) == ([b"0", b"1", b"2"], [])


def test_a_message_waits_for_no_longer_than_its_time_however_often_a_local_consumer_returns(
    stage: Stage,
) -> None:
    remote, local = consumer(stage, 9, remote=True), consumer(stage)
    publish(stage, b"0", b"1", b"2")
    stage.pass_time(WAIT_MS // 2)
    publish(stage, b"3")
    local.settle(*local.tags)
    assert (local.take(), remote.take()) == ([b"0", b"1"], [])
    until_ms = stage.now_ms + WAIT_MS // 2
    assert stage.broker.turn.next_call_ms == until_ms, "the engine has to be called then"
    stage.pass_time(WAIT_MS // 2 - 1)
    assert remote.take() == []
    stage.pass_time(1)
    assert remote.take() == [b"2", b"3"]


def test_each_time_that_a_local_consumer_takes_a_message_the_next_one_waits_for_it(stage: Stage) -> None:
    remote, local = consumer(stage, remote=True), consumer(stage)
    publish(stage, b"0")
    for number in range(1, 5):
        stage.pass_time(WAIT_MS * 3 // 4)
        publish(stage, b"%d" % number)
        assert remote.take() == []
        local.settle(*local.tags)
        assert local.take()[-1] == b"%d" % number


def test_messages_that_come_back_wait_no_longer_than_others(stage: Stage) -> None:
    remote, one, other = consumer(stage, 9, remote=True), consumer(stage, 2), consumer(stage, 2)
    publish(stage, b"0", b"1", b"2")
    stage.pass_time(WAIT_MS // 2)
    publish(stage, b"3")
    one.disconnect()
    other.settle(other.tags[0])
    assert (other.take(), remote.take()) == ([b"1", b"3", b"0"], [])
    stage.pass_time(WAIT_MS // 2)
    assert remote.take() == [b"2"]


def test_messages_that_have_waited_cross_at_once_when_a_local_consumer_has_taken_one(stage: Stage) -> None:
    publish(stage, b"0", b"1", b"2")
    stage.pass_time(WAIT_MS)
    local = consumer(stage)
    remote = consumer(stage, remote=True)
    assert (local.take(), remote.take()) == ([b"0"], [b"1"])
    local.settle(*local.tags)
    remote.settle(*remote.tags)
    assert (local.take(), remote.take()) == ([b"2"], [])


def test_a_local_consumer_that_is_stuck_delays_the_first_message_only(stage: Stage) -> None:
    remote, local = consumer(stage, remote=True), consumer(stage)
    publish(stage, b"0", b"1")
    stage.pass_time(WAIT_MS)
    assert (local.take(), remote.take()) == ([b"0"], [b"1"])
    for number in range(3):
        remote.settle(*remote.tags)
        publish(stage, b"%d" % number)
        assert remote.take() == [b"%d" % number]


def test_a_consumer_of_another_broker_that_has_credit_again_waits_like_others(stage: Stage) -> None:
    remote, local = consumer(stage, remote=True), consumer(stage)
    publish(stage, b"0", b"1")
    stage.pass_time(WAIT_MS)
    local.settle(*local.tags)
    publish(stage, b"2", b"3")
    assert (local.take(), remote.take()) == ([b"0", b"2"], [b"1"])
    remote.settle(*remote.tags)
    assert remote.take() == [], "the local consumer was served a moment ago"
    other = consumer(stage, remote=True)
    stage.pass_time(WAIT_MS)
    publish(stage, b"4")
    assert (remote.take(), other.take()) == ([b"3"], [b"4"])


def test_nothing_waits_where_no_consumer_is_local(stage: Stage) -> None:
    remote = consumer(stage, remote=True)
    for number in range(3):
        publish(stage, b"%d" % number)
        assert remote.take() == [b"%d" % number]
        remote.settle(*remote.tags)


def test_a_message_of_low_priority_does_not_wait_behind_newer_ones_for_ever(stage: Stage) -> None:
    remote, local = consumer(stage, remote=True), consumer(stage)
    publish(stage, b"first")
    publish(stage, b"low", priority=0)
    for _ in range(WAIT_MS - 1):
        publish(stage, b"high", priority=9)
        stage.pass_time(1)
        local.settle(*local.tags)
    assert remote.take() == []
    publish(stage, b"high", priority=9)
    stage.pass_time(1)
    assert remote.take() == [b"high"]
    publish(stage, b"high", priority=9)
    local.settle(*local.tags)
    remote.settle(*remote.tags)
    assert remote.take() == [b"low"]


def test_others_wait_for_all_local_consumers_whatever_their_priority(stage: Stage) -> None:
    remote = consumer(stage, remote=True, priority=9)
    low, high = consumer(stage, priority=-1), consumer(stage)
    publish(stage, b"0", b"1", b"2")
    assert (high.take(), low.take(), remote.take()) == ([b"0"], [b"1"], [])
    low.settle(*low.tags)
    assert (high.take(), low.take(), remote.take()) == ([], [b"2"], [])


def test_consumers_of_other_brokers_keep_their_order_while_they_wait(stage: Stage) -> None:
    one, low = consumer(stage, remote=True), consumer(stage, remote=True, priority=-1)
    consumer(stage)
    publish(stage, b"0")
    two = consumer(stage, remote=True)
    publish(stage, b"1", b"2", b"3", b"4")
    stage.now_us += WAIT_MS * 1_000
    three = consumer(stage, remote=True)
    assert (one.take(), two.take(), three.take(), low.take()) == ([b"1"], [b"2"], [b"3"], [b"4"])


def test_one_that_leaves_while_it_waits_is_served_no_more(stage: Stage) -> None:
    one, other = consumer(stage, remote=True), consumer(stage, remote=True)
    consumer(stage)
    publish(stage, b"0", b"1")
    one.disconnect()
    stage.pass_time(WAIT_MS)
    assert (one.take(), other.take()) == ([], [b"1"])
    other.settle(*other.tags)
    other.disconnect()
    publish(stage, b"2")
    stage.pass_time(WAIT_MS)
    assert stage.queue(QUEUE).depth == 1


def test_a_backlog_in_the_journal_crosses_at_once() -> None:
    stage = Stage(policy=PREFERRING, window=2)
    remote, local = consumer(stage, 9, remote=True), consumer(stage, 2)
    remote.pause()
    local.pause()
    publish(stage, *(b"%d" % number for number in range(6)))
    stage.decide(c.Resume(remote.peer), c.Resume(local.peer))
    assert (local.take(), remote.take()) == ([b"0", b"1"], [b"2", b"3", b"4", b"5"])


def test_messages_wait_no_longer_after_the_clock_was_set_back(stage: Stage) -> None:
    remote, local = consumer(stage, 9, remote=True), consumer(stage)
    publish(stage, b"0", b"1", b"2")
    stage.now_us -= 3_600_000_000
    stage.decide(c.ClockStepped(-3_600_000))
    stage.pass_time(WAIT_MS - 1)
    assert remote.take() == []
    local.settle(*local.tags)
    assert remote.take() == [b"2"], "its time is not known any more"


def test_they_wait_no_longer_than_that_after_the_clock_was_set_while_they_do(stage: Stage) -> None:
    remote, local = consumer(stage, 9, remote=True), consumer(stage)
    publish(stage, b"0")
    stage.pass_time(1)
    local.settle(*local.tags)
    publish(stage, b"1", b"2")
    stage.now_us -= 3_600_000_000
    stage.decide(c.ClockStepped(-3_600_000))
    stage.pass_time(WAIT_MS)
    assert remote.take() == [b"2"]


def test_those_that_wait_are_served_when_the_queue_prefers_local_consumers_no_longer(stage: Stage) -> None:
    one, other = consumer(stage, remote=True), consumer(stage, remote=True)
    consumer(stage)
    publish(stage, b"0", b"1", b"2")
    stage.decide(c.Reconfigure(Policies(DestinationPolicy())))
    assert (one.take(), other.take()) == ([b"1"], [b"2"])


def test_those_that_wait_are_served_when_consumers_choose_messages_from_now_on(stage: Stage) -> None:
    remote = consumer(stage, 9, remote=True)
    consumer(stage)
    publish(stage, b"0", b"1")
    assert remote.take() == []
    stage.client().subscribe(QUEUE, selector="colour = 'red'")
    assert remote.take() == [b"1"]


def test_a_queue_prefers_local_consumers_that_came_before_the_first_of_another_broker(stage: Stage) -> None:
    local = consumer(stage)
    remote = consumer(stage, 9, remote=True)
    publish(stage, b"0", b"1")
    assert (local.take(), remote.take()) == ([b"0"], [])
