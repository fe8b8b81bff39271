"""Subscriptions with ack AUTO whose deliveries a part of the node settles for the client."""

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from tests.core.stage import Client, Stage

A = "/queue/a"
TOPIC = "/topic/t"
DEAD = "/queue/a.dead"


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def client(stage: Stage) -> Client:
    return stage.client("anna")


def test_deliveries_are_unsettled_until_they_are_settled_for_the_client(stage: Stage, client: Client) -> None:
    client.subscribe(A, c.AUTO, inner_ack=True)
    client.publish(A, b"1")
    ((_, tag, message),) = client.got
    assert (message.body, stage.queues[A].unsettled) == (b"1", 1)
    stage.decide(c.Settle(client.peer, [tag], lenient=True))
    assert (stage.queues[A].unsettled, stage.queues[A].counters.acked) == (0, 1)


def test_a_delivery_can_become_a_dead_letter(stage: Stage, client: Client) -> None:
    client.subscribe(A, c.AUTO, inner_ack=True)
    client.publish(A, b"1")
    stage.decide(c.Return(client.peer, [client.got[0][1]], dead_reason="FILTERED", lenient=True))
    assert stage.queues[DEAD].depth == 1


def test_other_modes_are_not_changed(stage: Stage, client: Client) -> None:
    subscription = client.subscribe(A, c.CLIENT, inner_ack=True)
    stage.decide(c.SetInnerAck(subscription, True))
    assert (subscription.ack, subscription.inner_ack) == (c.CLIENT, False)


def test_a_subscription_is_changed_while_messages_come(stage: Stage, client: Client) -> None:
    subscription = client.subscribe(A, c.AUTO)
    client.publish(A, b"1")
    stage.decide(c.SetInnerAck(subscription, True))
    client.publish(A, b"2")
    stage.decide(c.SetInnerAck(subscription, False))
    client.publish(A, b"3")
    assert [(bool(tag), message.body) for _, tag, message in client.got] == [
        (False, b"1"),
        (True, b"2"),
        (False, b"3"),
    ]


def test_a_subscription_leaves_its_fanout_group_and_returns_to_it(stage: Stage, client: Client) -> None:
    subscription = client.subscribe(TOPIC, c.AUTO, render_key="look")
    other = stage.client("bob")
    other.subscribe(TOPIC, c.AUTO, render_key="look")
    outcome = stage.decide(client.sending(TOPIC, b"1"), c.SetInnerAck(subscription, True))
    (fanout,) = outcome.fanouts
    assert fanout.members == (other.peer.subscriptions["1"],)
    assert [(bool(tag), message.body) for _, tag, message in client.got] == [(True, b"1")]
    stage.decide(c.SetInnerAck(subscription, False))
    (fanout,) = stage.decide(client.sending(TOPIC, b"2")).fanouts
    assert len(fanout.members) == 2


def test_a_tag_that_is_gone_is_an_error_unless_it_may_be(stage: Stage, client: Client) -> None:
    client.do(c.Settle(client.peer, [7], lenient=True))
    client.do(c.Return(client.peer, [7], lenient=True))
    with pytest.raises(Refused):
        client.do(c.Settle(client.peer, [7]))
