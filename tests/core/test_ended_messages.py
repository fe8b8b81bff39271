"""The ends of the messages of watched queues are reported."""

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.outcome import MessagesEnded, Outcome
from tests.core.stage import Client, Stage

A = "/queue/a"


@pytest.fixture
def stage() -> Stage:
    stage = Stage(window=2)
    stage.broker.store.watches_ends = lambda address: address == A
    return stage


@pytest.fixture
def client(stage: Stage) -> Client:
    return stage.client("anna")


def ended(outcome: Outcome) -> list[tuple[str, list[bytes], list[int]]]:
    return [
        (event.cause, [message.body for message in event.messages], list(event.positions))
        for event in outcome.take_events()
        if isinstance(event, MessagesEnded)
    ]


@pytest.mark.parametrize("ack", [c.AUTO, c.INDIVIDUAL])
def test_an_acknowledgement_is_reported(stage: Stage, client: Client, ack: str) -> None:
    client.publish(A, b"1")
    subscribe = c.Subscribe(client.peer, "1", A, ack)
    outcome = stage.decide(subscribe)
    if ack == c.INDIVIDUAL:
        assert ended(outcome) == []
        outcome = stage.decide(c.Settle(client.peer, [1]))
    assert ended(outcome) == [("acknowledged", [b"1"], [])]


def test_messages_that_are_not_in_memory_are_reported_by_position(stage: Stage, client: Client) -> None:
    positions = [client.publish(A, body).position for body in (b"1", b"2", b"3")]
    outcome = stage.decide(c.Purge(client.peer, A))
    assert ended(outcome) == [("purged", [b"1", b"2"], []), ("purged", [], positions[2:])]


def test_a_message_that_expires_is_reported(stage: Stage, client: Client) -> None:
    client.publish(A, b"1", ttl_ms=100)
    stage.now_us += 200_000
    assert ended(stage.decide(c.Subscribe(client.peer, "1", A))) == [("expired", [b"1"], [])]


@pytest.mark.parametrize("options", [{"address": "/queue/b"}, {"address": A, "persistent": False}])
def test_other_messages_are_not_reported(stage: Stage, client: Client, options: dict[str, Any]) -> None:
    address = options.pop("address")
    client.publish(address, b"1", **options)
    assert ended(stage.decide(c.Subscribe(client.peer, "1", address, c.AUTO))) == []
