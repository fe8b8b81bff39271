"""Subscriptions of topics that are not sent what their own connection publishes (`no-local`)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import Client, Stage

TOPIC = "/topic/t"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def relay(stage: Stage, ack: str = c.AUTO, **facts: Any) -> Client:
    client = stage.client()
    client.subscribe(TOPIC, ack, no_local=True, **facts)
    return client


@pytest.mark.parametrize("ack", c.ACK_MODES)
def test_what_a_connection_publishes_itself_does_not_come_back(stage: Stage, ack: str) -> None:
    client, other = relay(stage, ack, render_key="key"), stage.client()
    other.subscribe(TOPIC, render_key="key")
    client.publish(TOPIC, b"own")
    other.publish(TOPIC, b"foreign")
    assert (client.take(), sorted(other.take())) == ([b"foreign"], [b"foreign", b"own"])


def test_a_selector_holds_beside_it(stage: Stage) -> None:
    client, other = relay(stage, selector="JMSPriority > 4"), stage.client()
    for publisher, priority in ((client, 9), (other, 9), (other, 0)):
        publisher.publish(TOPIC, b"%d" % priority, priority=priority)
    assert client.take() == [b"9"]


def test_it_holds_in_a_transaction_and_in_a_history(stage: Stage) -> None:
    stage.policy = DestinationPolicy(retention_ms=60_000)
    stage.decide(c.Reconfigure(Policies(stage.policy)))
    client, other = relay(stage), stage.client()
    for publisher in (client, other):
        publisher.do(c.Begin(publisher.peer, "t"))
        publisher.do(c.Enlist(publisher.peer, "t", publisher.sending(TOPIC, b"%d" % (publisher is other))))
        publisher.do(c.Commit(publisher.peer, "t"))
    assert client.take() == [b"1"]


def test_a_message_that_the_broker_publishes_later_is_delivered_to_all(stage: Stage) -> None:
    """A delayed message does not say who sent it, whose connection may have gone."""
    client = relay(stage)
    client.publish(TOPIC, b"later", options=DeliveryOptions(delay_ms=1_000))
    client.publish(TOPIC, b"now")
    stage.pass_time(2_000)
    assert client.take() == [b"later"]


def test_one_that_waited_for_room_belongs_to_who_sent_it(stage: Stage) -> None:
    stage.policy = DestinationPolicy(max_messages=1)
    stage.decide(c.Reconfigure(Policies(stage.policy)))
    durable, other = stage.client("d"), stage.client()
    durable.subscribe(TOPIC, name="d", durable=True)
    client = relay(stage)
    for publisher in (other, client, other):
        entries = [(Envelope(TOPIC), b"own" if publisher is client else b"foreign", None)]
        stage.decide(c.Publish(publisher.peer, entries))
    while durable.tags:
        durable.settle(*durable.tags)
    assert (client.take(), durable.take()) == ([b"foreign"] * 2, [b"foreign", b"own", b"foreign"])


@pytest.mark.parametrize(
    ("address", "facts"),
    [("/queue/q", {}), (TOPIC, {"name": "d", "durable": True}), (TOPIC, {"start": "first"})],
)
def test_where_it_is_not_known_who_sent_a_message_it_is_refused(
    stage: Stage, address: str, facts: dict[str, Any]
) -> None:
    with pytest.raises(Refused, match="no-local") as refused:
        stage.client().subscribe(address, no_local=True, **facts)
    assert refused.value.code == "unsupported"
