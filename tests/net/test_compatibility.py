"""Behaviour that clients of other brokers expect beyond the STOMP specification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.patience import patient
from tests.support.small_broker import RawClient, SmallBroker, small_broker


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        yield running


def header(frame: bytes, name: bytes) -> bytes:
    return frame.partition(b"\n%b:" % name)[2].partition(b"\n")[0]


async def sent(client: RawClient, *bodies: bytes, destination: bytes = b"/queue/a") -> None:
    for body in bodies:
        await client.ask(b"SEND\ndestination:%b\nreceipt:s\n\n%b\0" % (destination, body))


# ---------------------------------------------------------------------- subscriptions without an id


@pytest.mark.parametrize("destination", [b"/queue/a", b"/topic/a"])
async def test_a_subscription_without_id_gets_no_subscription_header(
    broker: SmallBroker, destination: bytes
) -> None:
    client, named = await broker.client(version="1.0"), await broker.client(version="1.0")
    await client.ask(b"SUBSCRIBE\ndestination:%b\nreceipt:s\n\n\0" % destination)
    await sent(named, b"1", destination=destination)
    message = await client.frame()
    assert message.startswith(b"MESSAGE\nmessage-id:") and b"\nsubscription:" not in message
    await client.ask(b"UNSUBSCRIBE\ndestination:%b\nreceipt:u\n\n\0" % destination)
    await client.ask(b"SUBSCRIBE\nid:%b\ndestination:%b\nreceipt:s\n\n\0" % (destination, destination))
    await sent(named, b"2", destination=destination)
    assert header(await client.frame(), b"subscription") == destination, "this id was given"


async def test_a_subscription_with_id_gets_its_header_next_to_one_without(broker: SmallBroker) -> None:
    one, other = await broker.client(version="1.0"), await broker.client(version="1.0")
    await one.ask(b"SUBSCRIBE\ndestination:/topic/a\nreceipt:s\n\n\0")
    await other.ask(b"SUBSCRIBE\nid:/topic/a\ndestination:/topic/a\nreceipt:s\n\n\0")
    await sent(await broker.client(), b"1", destination=b"/topic/a")
    assert b"\nsubscription:" not in await one.frame()
    assert header(await other.frame(), b"subscription") == b"/topic/a"


# ---------------------------------------------------------------------- durable, in RabbitMQ's words


async def test_rabbitmqs_former_name_of_durable_is_accepted(broker: SmallBroker) -> None:
    client = await broker.client()
    words = b"id:1\ndestination:/topic/a\npersistent:true\nauto-delete:false\n"
    await client.ask(b"SUBSCRIBE\n%breceipt:s\n\n\0" % words)
    assert "/topic-subscription/1@a" in broker.engine.broker.destinations.named
    await client.ask(b"UNSUBSCRIBE\n%breceipt:u\n\n\0" % words)
    assert not broker.engine.broker.destinations.named


@pytest.mark.parametrize("word", [b"durable", b"persistent"])
async def test_a_durable_subscription_without_a_name_is_refused(broker: SmallBroker, word: bytes) -> None:
    client = await broker.client(version="1.0")
    words = b"destination:/topic/a\n%b:true\nauto-delete:false\n" % word
    answer = await client.ask(b"SUBSCRIBE\n%breceipt:s\n\n\0" % words)
    assert answer.startswith(b"ERROR") and b"durable:true needs an id header" in answer
    assert not broker.engine.broker.destinations.named


# ---------------------------------------------------------------------- ACK and NACK by message-id


async def held(broker: SmallBroker, count: int) -> tuple[RawClient, list[bytes]]:
    client = await broker.client()
    await sent(client, *[b"%d" % number for number in range(count)])
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
    return client, await client.frames(count)


@pytest.mark.parametrize("command", [b"ACK", b"NACK"])
async def test_a_message_id_acknowledges_the_delivery_of_a_message(
    broker: SmallBroker, command: bytes
) -> None:
    client, messages = await held(broker, 3)
    for message in messages[:2]:
        id = header(message, b"message-id")
        client.send(b"%b\nid:%b\nreceipt:r\nrequeue:false\n\n\0" % (command, id))
        assert await client.frame() == b"RECEIPT\nreceipt-id:r\n\n"
    (session,) = [session for session in broker.registry.sessions if session.peer.unsettled]
    assert len(session.peer.unsettled) == 1
    answer = await client.ask(b"ACK\nid:%b\n\n\0" % header(messages[0], b"message-id"))
    assert b"unknown-delivery" in answer, "it is settled"


@pytest.mark.parametrize(
    "frame", [b"ACK\nid:%b\n", b"NACK\nid:%b\nrequeue:false\n", b"ACK\nid:%b\nreceipt:r\n"]
)
@pytest.mark.parametrize("mode", [b"client", b"client-individual"])
async def test_an_acknowledgement_of_a_former_connection_settles_nothing(
    broker: SmallBroker, frame: bytes, mode: bytes
) -> None:
    """A client that connected again by itself goes on with what it had received before."""
    former, messages = await held(broker, 2)
    await former.close()
    client = await broker.client()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%b\n\n\0" % mode)
    again = await client.frames(2)
    assert not {header(one, b"ack") for one in messages} & {header(one, b"ack") for one in again}
    assert b"unknown-delivery" in await client.ask(frame % header(messages[1], b"ack") + b"\n\0")
    await client.ended()
    assert broker.engine.broker.destinations.queues["/queue/a"].depth == 2


async def test_a_transaction_with_an_acknowledgement_of_a_former_connection_does_nothing(
    broker: SmallBroker,
) -> None:
    former, messages = await held(broker, 2)
    await former.close()
    client = await broker.client()
    client.send(b"BEGIN\ntransaction:t\n\n\0ACK\ntransaction:t\nid:%b\n\n\0" % header(messages[0], b"ack"))
    client.send(b"SEND\ntransaction:t\ndestination:/queue/b\n\nx\0")
    assert b"unknown-delivery" in await client.ask(b"COMMIT\ntransaction:t\nreceipt:r\n\n\0")
    await client.ended()
    queues = broker.engine.broker.destinations.queues
    assert queues["/queue/a"].depth == 2
    assert "/queue/b" not in queues or not queues["/queue/b"].depth


@pytest.mark.parametrize("frame", [b"ACK\nid:%b\n", b"NACK\nid:%b\nrequeue:false\n"])
async def test_after_unsubscribe_an_acknowledgement_settles_nothing_and_ends_nothing(
    broker: SmallBroker, frame: bytes
) -> None:
    """A thread of the client was still at work when another one ended the subscription."""
    client, messages = await held(broker, 2)
    await client.ask(b"SUBSCRIBE\nid:other\ndestination:/queue/b\nack:client-individual\nreceipt:s\n\n\0")
    await client.ask(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
    answer = await client.ask(frame % header(messages[0], b"ack") + b"receipt:late\n\n\0")
    assert answer.startswith(b"RECEIPT\nreceipt-id:late")
    assert broker.engine.broker.destinations.queues["/queue/a"].depth == 2
    await sent(await broker.client(), b"goes on", destination=b"/queue/b")
    assert b"goes on" in await client.frame()


async def test_an_unsubscribe_that_keeps_what_is_unsettled_delivers_nothing_new(broker: SmallBroker) -> None:
    client, messages = await held(broker, 2)
    await client.ask(b"UNSUBSCRIBE\nid:1\nkeep-unsettled:true\nreceipt:u\n\n\0")
    await sent(await broker.client(), b"new", destination=b"/queue/a")
    queue = broker.engine.broker.destinations.queues["/queue/a"]
    for left, message in zip((1, 0), messages, strict=True):
        answer = await client.ask(b"ACK\nid:%b\nreceipt:r\n\n\0" % header(message, b"ack"))
        assert answer.startswith(b"RECEIPT\nreceipt-id:r")
        assert (queue.depth, queue.unsettled) == (1, left)


async def test_what_an_unsubscribe_kept_returns_when_the_connection_ends(broker: SmallBroker) -> None:
    client, _ = await held(broker, 1)
    await client.ask(b"UNSUBSCRIBE\nid:1\nkeep-unsettled:true\nreceipt:u\n\n\0")
    await client.ask(b"DISCONNECT\nreceipt:d\n\n\0")
    await client.ended()
    other = await broker.client()
    await other.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert b"\nredelivered:true" in await other.frame()


async def test_a_later_message_can_be_acknowledged_by_its_message_id_too(broker: SmallBroker) -> None:
    client, (message,) = await held(broker, 1)
    await client.ask(b"NACK\nid:%b\n\n\0" % header(message, b"message-id"))
    await client.ask(b"ACK\nid:%b\nreceipt:r\n\n\0" % header(message, b"message-id"))
    assert not broker.engine.broker.destinations.queues["/queue/a"].unsettled


async def test_a_message_with_two_unsettled_deliveries_cannot_be_acknowledged_by_its_id(
    broker: SmallBroker,
) -> None:
    client = await broker.client()
    for id in (b"1", b"2"):
        words = b"id:%b\ndestination:/topic/a\nack:client\nreceipt:s\n" % id
        await client.ask(b"SUBSCRIBE\n%b\n\0" % words)
    client.send(b"SEND\ndestination:/topic/a\n\nx\0")
    one, other = await client.frames(2)
    assert header(one, b"message-id") == header(other, b"message-id")
    assert b"unknown-delivery" in await client.ask(b"ACK\nid:%b\n\n\0" % header(one, b"message-id"))


async def test_of_two_deliveries_of_a_message_a_client_of_1_1_names_the_subscription(
    broker: SmallBroker,
) -> None:
    client = await broker.client(version="1.1")
    for id in (b"1", b"2"):
        await client.ask(b"SUBSCRIBE\nid:%b\ndestination:/topic/a\nack:client\nreceipt:s\n\n\0" % id)
    client.send(b"SEND\ndestination:/topic/a\n\nx\0")
    message_id = header((await client.frames(2))[0], b"message-id")
    words = b"message-id:%b\nreceipt:r\n" % message_id
    assert await client.ask(b"ACK\nsubscription:2\n%b\n\0" % words) == b"RECEIPT\nreceipt-id:r\n\n"
    assert b"add the header subscription" in await client.ask(b"ACK\n%b\n\0" % words)


@pytest.mark.parametrize("subscriptions", [2, 3, 4])
async def test_of_several_deliveries_of_a_message_none_is_taken_for_the_one_that_is_meant(
    broker: SmallBroker, subscriptions: int
) -> None:
    client = await broker.client(version="1.1")
    for id in range(subscriptions):
        await client.ask(b"SUBSCRIBE\nid:%d\ndestination:/topic/a\nack:client\nreceipt:s\n\n\0" % id)
    client.send(b"SEND\ndestination:/topic/a\n\nx\0")
    message_id = header((await client.frames(subscriptions))[0], b"message-id")
    refused = await client.ask(b"ACK\nmessage-id:%b\nreceipt:r\n\n\0" % message_id)
    assert b"add the header subscription" in refused


async def test_nack_is_accepted_in_stomp_1_0(broker: SmallBroker) -> None:
    """1.0 knows no NACK; RabbitMQ takes it."""
    client = await broker.client(version="1.0")
    await sent(client, b"1")
    message = await client.ask(b"SUBSCRIBE\ndestination:/queue/a\nack:client\n\n\0")
    again = await client.ask(b"NACK\nmessage-id:%b\n\n\0" % header(message, b"message-id"))
    assert header(again, b"redelivered") == b"true"


# ---------------------------------------------------------------------- bounds, as documented


async def test_one_header_may_have_as_many_bytes_as_all_may(broker: SmallBroker) -> None:
    client = await broker.client()
    await client.ask(b"SEND\ndestination:/queue/a\nreceipt:r\nx:%b\n\n\0" % (b"y" * 60_000))
    message = await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert header(message, b"x") == b"y" * 60_000


@pytest.mark.parametrize("asked", [b"0", b"200000"])
async def test_refused_credit_names_the_limits(broker: SmallBroker, asked: bytes) -> None:
    client = await broker.client()
    answer = await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\ncredit:%b\n\n\0" % asked)
    assert b"it must be a number from 1 to 100000" in answer


async def test_a_wrong_escape_is_shown_in_its_header_line(broker: SmallBroker) -> None:
    client = await broker.client()
    answer = await client.ask(b"SEND\ndestination:/queue/a\nx:a\\tb\n\n\0")
    assert rb"the header line 'x:a\\tb' has the escape \\t" in answer.partition(b"\n\n")[2], "as JSON has it"


# ---------------------------------------------------------------------- heart-beats


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("1000,2000", "2000,1000"), ("10,10", "250,250"), ("0,400", "400,0"), ("60000,0", "0,60000")],
)
async def test_heart_beats_are_as_fast_as_the_client_asks_for(
    broker: SmallBroker, asked: str, agreed: str
) -> None:
    stranger = await broker.stranger()
    login = f"CONNECT\naccept-version:1.2\nlogin:anna\npasscode:secret\nheart-beat:{asked}\n\n\0"
    assert header(await stranger.ask(login.encode()), b"heart-beat") == agreed.encode()


async def test_a_client_without_heart_beats_is_offered_some_and_owes_none(broker: SmallBroker) -> None:
    stranger = await broker.stranger()
    login = b"CONNECT\naccept-version:1.2\nlogin:anna\npasscode:secret\n\n\0"
    assert header(await stranger.ask(login), b"heart-beat") == b"10000,10000"
    (session,) = broker.registry.sessions
    assert session.heart_beats == (0.0, 0.0)


async def test_fast_heart_beats_come_fast(broker: SmallBroker) -> None:
    client = await broker.client(**{"heart-beat": "0,250"})
    async with asyncio.timeout(patient(9)):  # at the broker's own pace only the first would have come
        assert await client.reader.readexactly(4) == b"\n\n\n\n"


async def test_all_fast_heart_beats_share_one_timer_that_runs_while_there_are_any(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def recorded(delay: float, callback: Any, *given: Any, **facts: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, callback, *given, **facts)
        if getattr(callback, "__self__", None) is broker.registry:
            timers.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", recorded)

    def waiting() -> int:
        return sum(not timer.cancelled() and timer.when() > loop.time() for timer in timers)

    clients = [await broker.client(**{"heart-beat": f"0,{beat}"}) for beat in (3000, 1000, *[250] * 8)]
    async with asyncio.timeout(patient(30)):
        for client in clients:
            assert await client.reader.readexactly(2) == b"\n\n"
            assert waiting() <= 1
        for client in clients:
            await client.close()
        while broker.registry.sessions:
            await asyncio.sleep(0.01)
        assert timers
        while waiting():
            await asyncio.sleep(0.01)
    started = len(timers)
    await (await broker.client()).ask(b"SEND\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert len(timers) == started


async def test_unread_bytes_in_the_socket_count_before_a_client_is_disconnected(broker: SmallBroker) -> None:
    """As after the broker itself was stopped for a while."""
    client = await broker.client(**{"heart-beat": "10000,0"})
    (session,) = broker.registry.sessions
    session.tick(session.conversation.last_received_s + 33.0, 1.0)
    await sent(client, b"1")  # it was on its way
    session.tick(session.conversation.last_received_s + 1.0, 1.0)
    session.tick(session.conversation.last_received_s + 33.0, 1.0)
    await sent(client, b"2")
    session.tick(session.conversation.last_received_s + 33.0, 1.0)
    session.tick(session.conversation.last_received_s + 34.0, 1.0)
    assert b"heart-beat-lost" in await client.frame(), "nothing came between two looks"
