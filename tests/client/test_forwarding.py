"""Sends that are for a queue of another broker: applications name queue and broker, never both as one."""

import asyncio

import pytest

import mom_client
import mom_client.blocking
from mom_client.stomp import frame as wire
from tests.client.stage import FakeBroker, FakeSession


async def one_send(stage: FakeBroker, session: FakeSession, sending: "asyncio.Future[None]") -> str:
    """The destination of a message."""
    frame = await session.expect(wire.SEND)
    session.confirm(frame)
    await sending
    return frame.headers["destination"]


async def test_a_connection_forwards_all_that_it_sends_to_queues(stage: FakeBroker) -> None:
    client, session = await stage.client(store_and_forward=True, broker="broker1")
    for given in ("/queue/queue1", "/queue/storeAndForward:broker1/queue/queue1"):
        place = await one_send(stage, session, client.send_nowait(given, "x"))
        assert place == "/queue/storeAndForward:broker1/queue/queue1"
    reply = await one_send(stage, session, client.send_nowait("/temp-queue/replies", "x"))
    assert reply == "/temp-queue/replies", "who asked is connected here"
    await stage.leave(client, session)


async def test_a_destination_forwards_what_is_sent_to_it_alone(stage: FakeBroker) -> None:
    client, session = await stage.client()
    far = client.destination("queue1", store_and_forward=True, broker="broker1")
    near = client.destination("queue1")
    assert await one_send(stage, session, client.send_nowait(far, "x")) == (
        "/queue/storeAndForward:broker1/queue/queue1"
    )
    assert await one_send(stage, session, client.send_nowait(near, "x")) == "/queue/queue1"
    await stage.leave(client, session)


async def test_a_client_knows_the_broker_of_its_destinations(stage: FakeBroker) -> None:
    client, session = await stage.client(broker="broker1")
    far = client.destination("/queue/a/b", store_and_forward=True)
    assert await one_send(stage, session, client.send_nowait(far)) == (
        "/queue/storeAndForward:broker1/queue/a/b"
    )
    assert await one_send(stage, session, client.send_nowait("/queue/a/b")) == "/queue/a/b"
    await stage.leave(client, session)


async def test_a_transaction_forwards_too(stage: FakeBroker) -> None:
    client, session = await stage.client(store_and_forward=True, broker="broker1")

    async def act() -> None:
        async with client.transaction() as transaction:
            await transaction.send("/queue/queue1", "x")

    acting = asyncio.ensure_future(act())
    for command in (wire.BEGIN, wire.SEND, wire.COMMIT):
        frame = await session.expect(command)
        session.confirm(frame)
        if command is wire.SEND:
            assert frame.headers["destination"] == "/queue/storeAndForward:broker1/queue/queue1"
    await acting
    await stage.leave(client, session)


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        (None, "needs the broker to forward to"),
        ("", "broker name .* is empty"),
        ("b" * 21, "broker name .* has 21 characters; at most 20"),
        ("a/b", "broker name 'a/b' .* contains '/'"),
        ("a:b", "broker name 'a:b' .* contains ':'"),
    ],
)
async def test_an_invalid_broker_name_is_reported_before_connecting(
    stage: FakeBroker, broker: str | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        stage.connect(store_and_forward=True, broker=broker)
    with pytest.raises(ValueError, match=said):
        stage.connect().destination("queue1", store_and_forward=True, broker=broker)


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("/queue/" + "q" * 80, "queue name .* has 80 characters; at most 79"),
        ("/queue/", "queue name .* is empty"),
        ("/topic/news", "/topic/news is no queue"),
    ],
)
async def test_a_destination_that_cannot_be_forwarded_is_reported_and_nothing_is_sent(
    stage: FakeBroker, destination: str, said: str
) -> None:
    client, session = await stage.client(store_and_forward=True, broker="broker1")
    with pytest.raises(ValueError, match=said):
        await client.send(destination, "x")
    with pytest.raises(ValueError, match=said):
        client.destination(destination, store_and_forward=True)
    assert session.quiet
    longest = "/queue/" + "q" * 79
    assert (await one_send(stage, session, client.send_nowait(longest))).endswith("q" * 79)
    await stage.leave(client, session)


async def test_a_request_cannot_be_forwarded(stage: FakeBroker) -> None:
    client, session = await stage.client(store_and_forward=True, broker="broker1")
    with pytest.raises(ValueError, match="reply"):
        await client.request("/queue/questions", "?")
    await stage.leave(client, session)


def test_a_broker_without_store_and_forward_is_a_mistake(stage: FakeBroker) -> None:
    with pytest.raises(ValueError, match="store_and_forward=True"):
        stage.connect().destination("queue1", broker="broker1")


def test_the_blocking_client_does_the_same() -> None:
    client = mom_client.blocking.connect("stomp://127.0.0.1:1", broker="broker1")
    far = client.destination("queue1", store_and_forward=True)
    assert far == "/queue/storeAndForward:broker1/queue/queue1"
    with pytest.raises(ValueError, match="at most 20"):
        mom_client.blocking.connect(store_and_forward=True, broker="b" * 21)
