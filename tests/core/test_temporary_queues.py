"""Temporary queues: one connection consumes each; those of clients of other brokers outlive a link."""

from __future__ import annotations

import pytest

from broker_app.base.deadline import Deadline
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from tests.core.stage import Client, Stage

REPLIES = "/temp-queue/replies-1"
KEPT_MS = 1_000


@pytest.fixture
def stage() -> Stage:
    return Stage(suspended_queue_ms=KEPT_MS)


def link(stage: Stage, broker: str = "b1") -> Client:
    """A link to another broker, one of whose clients has the queue."""
    made = stage.client(f"broker {broker}")
    made.subscribe(REPLIES, remote=True)
    return made


def test_what_is_sent_while_a_link_is_cut_is_delivered_over_the_next_one(stage: Stage) -> None:
    first, service = link(stage), stage.client()
    service.publish(REPLIES, b"1")
    assert first.take() == [b"1"]
    first.disconnect()
    service.publish(REPLIES, b"2")
    stage.pass_time(KEPT_MS - 1)
    second = link(stage)
    assert second.take_attempts() == [(b"1", 1), (b"2", 0)]
    second.settle(*second.tags)
    service.publish(REPLIES, b"3")
    assert second.take() == [b"3"]


def test_a_queue_whose_broker_does_not_come_back_is_deleted_with_its_memory(stage: Stage) -> None:
    first, service = link(stage), stage.client()
    first.disconnect()
    service.publish(REPLIES, b"1")
    assert stage.broker.store.memory_bytes
    stage.pass_time(KEPT_MS)
    stage.pass_time(1_000)  # the next sweep
    assert REPLIES not in stage.queues
    assert not stage.broker.store.memory_bytes
    assert not stage.broker.accounts.users
    service.publish(REPLIES, b"2")  # dropped, as for a client that has left
    assert link(stage).take() == []


def test_a_queue_ends_with_the_subscription_of_its_client(stage: Stage) -> None:
    first, service = link(stage), stage.client()
    service.publish(REPLIES, b"1")
    first.settle(*first.tags)
    first.unsubscribe(keep_unsettled=True)
    assert REPLIES not in stage.queues
    first.disconnect()
    assert not stage.broker.accounts.users


def test_a_client_that_subscribes_again_gets_what_it_has_not_settled(stage: Stage) -> None:
    first, service = link(stage), stage.client()
    service.publish(REPLIES, b"1")
    first.unsubscribe()
    first.got.clear()
    first.subscribe(REPLIES, remote=True)
    assert first.take() == [b"1"]


def test_a_new_link_takes_the_queue_over_while_the_former_one_is_being_ended(stage: Stage) -> None:
    first, service = link(stage), stage.client()
    second = link(stage)
    first.disconnect()
    service.publish(REPLIES, b"1")
    assert second.take() == [b"1"]
    stage.pass_time(2 * KEPT_MS)
    assert REPLIES in stage.queues


def test_no_other_broker_and_no_client_consumes_it(stage: Stage) -> None:
    link(stage).disconnect()
    with pytest.raises(Refused, match="belongs to another connection"):
        link(stage, "b2")
    with pytest.raises(Refused, match="belongs to another connection"):
        stage.client("broker b1").subscribe(REPLIES)
    stage.client().subscribe("/temp-queue/of-a-client")
    with pytest.raises(Refused, match="belongs to another connection"):
        stage.client("broker b1").subscribe("/temp-queue/of-a-client", remote=True)


def test_a_clock_that_is_set_forward_ends_none(stage: Stage) -> None:
    link(stage).disconnect()
    stage.now_us += 3_600_000_000
    stage.decide(c.ClockStepped(3_600_000))
    stage.pass_time(KEPT_MS - 1)
    assert REPLIES in stage.queues


def test_many_that_are_overdue_are_deleted_a_turn_at_a_time(stage: Stage) -> None:
    first = stage.client("broker b1")
    for number in range(100):
        first.subscribe(f"/temp-queue/{number}", id=str(number), remote=True)
    first.disconnect()
    stage.deadline = Deadline(iter(range(1_000_000)).__next__)  # it has passed whenever it is asked
    stage.now_us += KEPT_MS * 1_000
    stage.decide()
    assert 0 < len(stage.queues) < 100
    for _ in range(10):
        stage.pass_time(1_000)
    assert not stage.queues


def test_a_link_may_have_more_subscriptions_than_a_client_has() -> None:
    stage = Stage(subscriptions_per_peer=1, subscription_bytes_per_peer=30, subscriptions_per_link=2)
    one = stage.client("broker b1")
    for number in range(2):
        one.subscribe("/queue/a-name-of-twenty-letters", id=str(number), remote=True)
    with pytest.raises(Refused, match="may have 2 subscriptions"):
        one.subscribe("/queue/b", id="2", remote=True)
