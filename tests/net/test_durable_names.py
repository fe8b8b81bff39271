"""Durable and shared subscriptions on the wire, by the headers of MOM, RabbitMQ, ActiveMQ and Artemis."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.small_broker import RawClient, SmallBroker, small_broker

TOPIC = "/topic/prices"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as broker:
        yield broker


async def subscribe(client: RawClient, id: str = "1", **headers: str) -> bytes:
    """The answer to a SUBSCRIBE with a receipt; underscores stand for hyphens."""
    given = {"id": id, "destination": TOPIC, "receipt": "s"} | headers
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in given.items())
    return await client.ask(f"SUBSCRIBE\n{lines}\n\0".encode())


async def unsubscribe(client: RawClient, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return await client.ask(f"UNSUBSCRIBE\n{lines}receipt:u\n\n\0".encode())


async def publish(broker: SmallBroker, body: str, **headers: str) -> None:
    client = await broker.client()
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    answer = await client.ask(f"SEND\ndestination:{TOPIC}\n{lines}receipt:p\n\n{body}\0".encode())
    assert answer.startswith(b"RECEIPT\n"), answer
    await client.close()


async def leave(client: RawClient) -> None:
    await client.ask(b"DISCONNECT\nreceipt:bye\n\n\0")
    await client.close()


FORMS = {
    "MOM": ({"durable_name": "audit"}, {}, "audit"),
    "RabbitMQ": ({"durable": "true", "auto_delete": "false"}, {}, "1@prices"),
    "ActiveMQ": ({"activemq.subscriptionName": "audit"}, {"client-id": "app"}, "app.audit"),
    "ActiveMQ without client-id": ({"activemq.subscriptionName": "audit"}, {}, "audit"),
    "Artemis": ({"durable_subscription_name": "audit"}, {"client-id": "app"}, "app.audit"),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_durable_subscription_keeps_messages_for_a_returning_client(
    broker: SmallBroker, form: str
) -> None:
    headers, connect, name = FORMS[form]
    reader = await broker.client(**connect)
    assert (await subscribe(reader, **headers)).startswith(b"RECEIPT\n")
    await leave(reader)
    await publish(broker, "kept")
    assert list(broker.engine.broker.destinations.named) == [f"/topic-subscription/{name}"]
    reader = await broker.client(**connect)
    await subscribe(reader, **headers)
    message = await reader.frame()
    assert b"\ndestination:/topic/prices\n" in message
    assert message.endswith(b"\n\nkept")


DELETIONS = {
    "MOM by id": ("MOM", {"id": "1", "delete": "true"}),
    "MOM by name": ("MOM", {"durable_name": "audit", "delete": "true"}),
    "RabbitMQ": ("RabbitMQ", {"id": "1", "durable": "true", "auto_delete": "false"}),
    "RabbitMQ by destination": ("RabbitMQ", {"id": "1", "destination": TOPIC, "durable": "true"}),
    "ActiveMQ": ("ActiveMQ", {"id": "1", "activemq.subscriptionName": "audit"}),
    "Artemis": ("Artemis", {"id": "1", "durable_subscription_name": "audit"}),
}


@pytest.mark.parametrize("form", DELETIONS)
async def test_it_is_deleted_when_requested(broker: SmallBroker, form: str) -> None:
    dialect, headers = DELETIONS[form]
    subscribed, connect, _ = FORMS[dialect]
    reader = await broker.client(**connect)
    await subscribe(reader, **subscribed)
    assert (await unsubscribe(reader, **headers)).startswith(b"RECEIPT\n")
    assert broker.engine.broker.destinations.named == {}


async def test_a_plain_unsubscribe_deletes_nothing(broker: SmallBroker) -> None:
    reader = await broker.client()
    await subscribe(reader, durable_name="audit")
    await unsubscribe(reader, id="1")
    assert list(broker.engine.broker.destinations.named) == ["/topic-subscription/audit"]


async def test_an_id_of_rabbitmq_belongs_to_its_topic(broker: SmallBroker) -> None:
    for topic in ("/topic/a", "/topic/b"):
        client = await broker.client()
        assert (await subscribe(client, durable="true", destination=topic)).startswith(b"RECEIPT\n")
    assert sorted(named.name for named in broker.engine.broker.destinations.named.values()) == ["1@a", "1@b"]


async def test_an_auto_delete_subscription_of_rabbitmq_is_not_durable(broker: SmallBroker) -> None:
    client = await broker.client()
    await subscribe(client, durable="true", auto_delete="true")
    assert broker.engine.broker.destinations.named == {}


async def test_durable_has_no_effect_on_a_queue(broker: SmallBroker) -> None:
    client = await broker.client()
    answer = await subscribe(client, destination="/queue/a", durable="true", auto_delete="false")
    assert answer.startswith(b"RECEIPT\n")


async def test_connections_divide_the_messages_of_a_shared_subscription(broker: SmallBroker) -> None:
    one, two = await broker.client(), await broker.client()
    await subscribe(one, share="team")
    await subscribe(two, share="team")
    await publish(broker, "1")
    await publish(broker, "2")
    assert (await one.frame()).endswith(b"\n\n1")
    assert (await two.frame()).endswith(b"\n\n2")


async def test_a_durable_one_is_shared_if_both_request_it(broker: SmallBroker) -> None:
    one, two = await broker.client(), await broker.client()
    await subscribe(one, durable_name="audit", share="true")
    assert (await subscribe(two, durable_name="audit", share="true")).startswith(b"RECEIPT\n")


async def test_a_second_subscriber_gets_the_name_of_the_first(broker: SmallBroker) -> None:
    one, two = await broker.client(), await broker.client()
    await subscribe(one, id="mine", durable_name="audit")
    answer = await subscribe(two, durable_name="audit")
    assert answer.startswith(b"ERROR\n")
    assert b"/docs/problems/conflict" in answer
    assert b"user 'anna' (its subscription id there: 'mine')" in answer


@pytest.mark.parametrize(
    "headers",
    [
        {"durable_name": "a", "share": "b"},
        {"share": "true"},
        {"durable_name": "a", "destination": "/queue/q"},
        {"durable_name": "a.dead"},
    ],
)
async def test_contradicting_headers_are_refused(broker: SmallBroker, headers: dict[str, str]) -> None:
    client = await broker.client()
    assert b"/docs/problems/invalid" in await subscribe(client, **headers)


async def test_the_queue_behind_a_name_is_not_accessible(broker: SmallBroker) -> None:
    client = await broker.client()
    await subscribe(client, durable_name="audit")
    answer = await client.ask(b"SEND\ndestination:/topic-subscription/audit\nreceipt:1\n\nx\0")
    assert b"/docs/problems/bad-destination" in answer


async def test_a_message_that_is_explicitly_not_persistent_is_not_recorded(broker: SmallBroker) -> None:
    reader = await broker.client()
    await subscribe(reader, durable_name="audit")
    before = broker.journal.statistics()["records"]
    await publish(broker, "fleeting", persistent="false")
    assert broker.journal.statistics()["records"] == before
    await publish(broker, "kept")
    assert broker.journal.statistics()["records"] > before
