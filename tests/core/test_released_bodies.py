"""Large bodies are released while their deliveries are unsettled, and read again when those return."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.delivery.unsettled import LARGE_BODY
from broker_app.core.header_block import headers
from broker_app.core.inspection.browse import UNSETTLED, browse
from broker_app.core.policy import DestinationPolicy
from tests.core.stage import Client, Stage, read

A, GRAVE = "/queue/a", "/queue/a.dead"


def large(name: bytes) -> bytes:
    return name.ljust(LARGE_BODY + 1, b".")


@pytest.fixture
def stage() -> Stage:
    return Stage(policy=DestinationPolicy(max_attempts=3))


def released(stage: Stage, consumer: Client) -> list[bool]:
    """Release what a consumer was sent; returns which of its unsettled deliveries have no body then."""
    stage.broker.unsettled.release_bodies(consumer.got)
    return [not message.has_body for _, message in consumer.peer.unsettled.values()]


def consumer_of(stage: Stage, *bodies: bytes, persistent: bool = True) -> Client:
    """A consumer that was sent these messages, and has settled none."""
    stage.decide(stage.client().sending(A, *bodies, persistent=persistent))
    consumer = stage.client()
    consumer.subscribe(A)
    return consumer


def test_only_large_bodies_that_the_journal_has_are_released(stage: Stage) -> None:
    consumer = consumer_of(stage, large(b"1"), b"small")
    assert released(stage, consumer) == [True, False]
    stage.decide(stage.client().sending("/queue/b", large(b"3"), persistent=False))
    consumer.subscribe("/queue/b", id="2")
    assert released(stage, consumer) == [True, False, False]
    (_, first), *_ = consumer.peer.unsettled.values()
    assert len(first.body) == LARGE_BODY + 1


def test_what_was_released_is_acknowledged_with_the_size_of_its_body(stage: Stage) -> None:
    consumer = consumer_of(stage, large(b"1"))
    assert all(released(stage, consumer))
    consumer.do(c.Settle(consumer.peer, [1]))
    (record,) = read(stage.batches[-1])
    (fact,) = (record.facts or {}).values()
    assert fact.body_bytes == LARGE_BODY + 1 and not stage.queue(A).unsettled


def test_a_body_is_read_again_when_its_delivery_returns_and_keeps_its_order(stage: Stage) -> None:
    consumer = consumer_of(stage, b"0", large(b"1"), b"2", large(b"3"))
    assert released(stage, consumer) == [False, True, False, True]
    stage.decide(stage.client().sending(A, b"4"))
    stage.decide(c.Disconnect(consumer.peer))
    stage.decide(stage.client().sending(A, b"5"))
    other = stage.client()
    other.subscribe(A)
    assert other.take() == [b"0", large(b"1"), b"2", large(b"3"), b"4", b"5"]
    assert [message.attempts for _, message in other.peer.unsettled.values()] == [1, 1, 1, 1, 1, 0]


def test_what_waits_in_memory_stays_behind_what_is_read_again(stage: Stage) -> None:
    stage.decide(stage.client().sending(A, large(b"1"), b"2", b"3"))
    consumer = stage.client()
    consumer.subscribe(A, credit=1)
    released(stage, consumer)
    stage.decide(stage.client().sending(A, b"4", persistent=False))
    consumer.do(c.Return(consumer.peer, [1]))
    other = stage.client()
    other.subscribe(A)
    assert consumer.take()[-1:] + other.take() == [large(b"1"), b"2", b"3", b"4"]


@pytest.mark.parametrize("reason", ["REJECTED", ""])
def test_a_dead_letter_has_the_body_that_was_read_again(stage: Stage, reason: str) -> None:
    consumer = consumer_of(stage, large(b"1"))
    for tag in (1, 2, 3):
        if stage.queue(A).unsettled:
            assert all(released(stage, consumer))
            consumer.do(c.Return(consumer.peer, [tag], dead_reason=reason, detail="why"))
    assert not stage.queue(A).depth and not stage.queue(A).unsettled
    (letter,) = stage.queue(GRAVE).lanes[0].ready
    facts = headers(letter.envelope.block)
    assert (letter.body, facts["dead-reason"]) == (large(b"1"), reason or "MAX_ATTEMPTS")
    assert "why" in facts["dead-detail"] and facts["dead-consumer"] == "/1"


def test_a_body_that_cannot_be_read_again_is_a_damaged_dead_letter(stage: Stage) -> None:
    consumer = consumer_of(stage, large(b"1"))
    assert all(released(stage, consumer))
    stage.damaged.update(message.position for _, message in consumer.peer.unsettled.values())
    consumer.do(c.Return(consumer.peer, [1], dead_reason="REJECTED"))
    (letter,) = stage.queue(GRAVE).lanes[0].ready
    assert not letter.body and headers(letter.envelope.block)["dead-reason"] == "DAMAGED"
    assert not stage.queue(A).unsettled


def test_a_queue_may_be_deleted_while_a_dead_letter_of_it_is_read(stage: Stage) -> None:
    consumer = consumer_of(stage, large(b"1"))
    assert all(released(stage, consumer))
    stage.loading = False
    consumer.do(c.Return(consumer.peer, [1], dead_reason="REJECTED"))
    consumer.do(c.RetryDelayed(consumer.peer, A))
    assert stage.queue(A).unsettled == 1
    consumer.unsubscribe()
    consumer.do(c.DeleteQueue(consumer.peer, A, True))
    stage.load()
    assert GRAVE not in stage.queues and not stage.broker.unsettled.delayed.peer.unsettled


def test_a_released_body_returns_to_consumers_with_selectors(stage: Stage) -> None:
    stage.decide(stage.client().sending(A, large(b"1"), b"2", block=b"colour:red\n"))
    consumer, other = stage.client(), stage.client()
    consumer.subscribe(A, credit=1, selector="colour = 'red'")
    assert released(stage, consumer) == [True]
    other.subscribe(A, selector="colour = 'red'")
    stage.decide(c.Disconnect(consumer.peer))
    assert other.take() == [b"2", large(b"1")]


def test_browsing_shows_an_unsettled_delivery_whose_body_has_to_be_read(stage: Stage) -> None:
    consumer = consumer_of(stage, large(b"1"))
    assert all(released(stage, consumer))
    (item,) = browse(stage.broker, A) or []
    assert (item.state, item.attempts, item.message) == (UNSETTLED, 0, None)


def test_a_message_that_does_not_fit_into_what_is_left_of_memory_waits_in_the_journal() -> None:
    stage = Stage(memory_bytes=3 * LARGE_BODY)
    stage.decide(stage.client().sending(A, large(b"1"), large(b"2"), large(b"3")))
    (lane,) = stage.queue(A).lanes
    assert (len(lane.ready), len(lane.paged)) == (2, 1)
    assert stage.broker.store.memory_bytes < 3 * LARGE_BODY
