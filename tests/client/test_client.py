"""Logging in, sending, receiving and leaving."""

import asyncio
import re

import pytest

import mom_client
from mom_client.stomp import frame as wire
from tests.client.stage import FakeBroker, FakeSession


async def test_sends_its_login(stage: FakeBroker) -> None:
    client = stage.connect(login="anna", passcode="secret", headers={"x": "y"})
    opening = asyncio.ensure_future(client.open())
    session = await stage.accept()
    connect = await session.welcome(server="MOM/1")
    await opening
    headers = dict(connect.headers)
    assert re.fullmatch("[0-9a-f]{16}", headers.pop("client-instance")), "by chance, the same for one client"
    assert headers == {
        "accept-version": "1.0,1.1,1.2", "heart-beat": "10000,10000", "host": "/", "mom-soft-errors": "true",
        "login": "anna", "passcode": "secret", "x": "y",
    }  # fmt: skip
    assert client.connected
    assert client.server["server"] == "MOM/1"
    await stage.leave(client, session)
    assert not client.connected


async def test_takes_address_and_token_from_the_environment(
    stage: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOM_URL", "stomp://a:1, ws://b:2/ws")
    monkeypatch.setenv("MOM_TOKEN", "mom_secret")
    client = mom_client.connect(opener=stage.open)
    opening = asyncio.ensure_future(client.open())
    session = await stage.accept()
    connect = await session.welcome()
    await opening
    assert session.address == "stomp://a:1"
    assert (connect.headers["login"], connect.headers["passcode"]) == ("token", "mom_secret")
    await stage.leave(client, session)


async def test_a_refused_login_is_final(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect("stomp://one:1", "stomp://two:2").open())
    session = await stage.accept()
    await session.expect(wire.CONNECT)
    body = b'{"type": "/docs/problems/not-authenticated", "detail": "who?"}'
    session.say(wire.ERROR, {"message": "no"}, body)
    with pytest.raises(mom_client.Refused, match="who") as caught:
        await opening
    assert caught.value.code == "not-authenticated"
    assert session.closed.is_set()
    assert len(stage.attempts) == 1


async def test_an_unreachable_address_is_named(stage: FakeBroker) -> None:
    stage.down = {"stomp://one:1"}
    with pytest.raises(mom_client.ConnectionLost, match="stomp://one:1: nobody at"):
        await stage.connect("stomp://one:1").open()


async def test_a_silent_broker_is_given_up(stage: FakeBroker) -> None:
    with pytest.raises(mom_client.ConnectionLost, match="no answer within 3 s"):
        await stage.connect(connect_timeout_s=3).open()


async def test_a_broker_that_speaks_no_stomp_is_given_up(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect().open())
    session = await stage.accept()
    session.say_bytes(b"220 smtp.example.org ESMTP\r\n")
    with pytest.raises(mom_client.ConnectionLost, match="220 smtp"):
        await opening


async def test_send_waits_for_the_receipt(stage: FakeBroker) -> None:
    client, session = await stage.client()
    sending = asyncio.ensure_future(
        client.send("/queue/a", "hällo", persistent=True, priority=7, ttl_s=1.5, headers={"k:1": "a\nb"})
    )
    send = await session.expect(wire.SEND)
    assert send.body == "hällo".encode()
    assert send.headers == {
        "destination": "/queue/a", "persistent": "true", "priority": "7", "ttl-s": "1.5",
        "content-type": "text/plain; charset=utf-8", "k:1": "a\nb",
    }  # fmt: skip
    assert not sending.done()
    session.confirm(send)
    await sending
    await stage.leave(client, session)


async def test_many_sends_share_the_way(stage: FakeBroker) -> None:
    client, session = await stage.client()
    sending = asyncio.gather(*(client.send("/queue/a", b"%d" % number) for number in range(100)))
    sends = [await session.expect(wire.SEND) for _ in range(100)]
    assert [send.body for send in sends] == [b"%d" % number for number in range(100)]
    session.confirm(*sends)
    await sending
    await stage.leave(client, session)


async def test_send_without_confirmation(stage: FakeBroker) -> None:
    client, session = await stage.client()
    await client.send("/queue/a", b"x", confirm=False)
    send = await session.expect(wire.SEND)
    assert send.receipt is None
    await stage.leave(client, session)


async def test_send_json(stage: FakeBroker) -> None:
    client, session = await stage.client()
    sending = asyncio.ensure_future(client.send_json("/queue/a", {"ä": [1, None]}, dedup_id="d"))
    send = await session.expect(wire.SEND, content_type="application/json", dedup_id="d")
    assert send.body == '{"ä":[1,null]}'.encode()
    session.confirm(send)
    await sending
    await stage.leave(client, session)


async def test_a_refused_send_leaves_the_connection_alone(stage: FakeBroker) -> None:
    client, session = await stage.client()
    sending = asyncio.ensure_future(client.send("/queue/full", b"x"))
    session.refuse(await session.expect(wire.SEND), "queue-full")
    with pytest.raises(mom_client.Refused) as caught:
        await sending
    assert (caught.value.code, caught.value.detail) == ("queue-full", "because")
    await stage.leave(client, session)


async def test_send_gives_up_waiting(stage: FakeBroker) -> None:
    client, session = await stage.client()
    with pytest.raises(mom_client.Timeout, match="/queue/a within 2 s"):
        await client.send("/queue/a", b"x", timeout_s=2)
    session.confirm(await session.expect(wire.SEND))  # too late, and harmless
    await stage.leave(client, session)


async def test_sends_in_flight_are_bounded(stage: FakeBroker) -> None:
    client, session = await stage.client(max_unconfirmed=2)
    sending = [asyncio.ensure_future(client.send("/queue/a", b"%d" % number)) for number in range(3)]
    first = await session.expect(wire.SEND)
    second = await session.expect(wire.SEND)
    await asyncio.sleep(1)
    assert session.quiet
    session.confirm(first)
    third = await session.expect(wire.SEND)
    assert third.body == b"2"
    session.confirm(second, third)
    await asyncio.gather(*sending)
    await stage.leave(client, session)


async def test_messages_come_to_their_subscriptions(stage: FakeBroker) -> None:
    client, session = await stage.client()
    async with asyncio.TaskGroup() as group:
        group.create_task(_consume_three(client))
        subscribe = await session.expect(
            wire.SUBSCRIBE, destination="/queue/a", ack="client-individual", credit="7", selector="a = 1"
        )
        session.confirm(subscribe)
        id = subscribe.headers["id"]
        session.deliver(id, 1, b'{"n": 1}', redelivered="false", attempt="1")
        session.deliver(id, 2, b"two", redelivered="true", attempt="2")
        session.deliver("another", 9)
        session.deliver(id, 3)
        await session.expect(wire.ACK, id="1")
        await session.expect(wire.NACK, id="2")
        await session.expect(wire.NACK, id="3", requeue="false")
        session.confirm(await session.expect(wire.UNSUBSCRIBE, id=id))
    await stage.leave(client, session)


async def _consume_three(client: mom_client.Client) -> None:
    async with client.subscribe("/queue/a", credit=7, selector="a = 1") as messages:
        first = await messages.get()
        assert (first.json(), first.redelivered, first.attempt, first.id) == ({"n": 1}, False, 1, "m-1")
        await first.ack()
        second = await anext(messages)
        assert (second.text, second.redelivered, second.attempt) == ("two", True, 2)
        await second.nack()
        async for third in messages:
            await third.nack(requeue=False)
            break


async def test_ack_with_confirmation(stage: FakeBroker) -> None:
    client, session = await stage.client()
    message = await _one_message(client, session)
    acking = asyncio.ensure_future(message.ack(confirm=True))
    ack = await session.expect(wire.ACK, id="1")
    assert not acking.done()
    session.confirm(ack)
    await acking
    await stage.leave(client, session)


async def _one_message(client: mom_client.Client, session: FakeSession) -> mom_client.Message:
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.deliver(subscription.id, 1, b"x")
    return await subscription.get()


async def test_no_message_in_time(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    with pytest.raises(mom_client.Timeout, match="no message on /queue/a within 60 s"):
        await subscription.get(60)
    await stage.leave(client, session)


async def test_a_refused_subscription(stage: FakeBroker) -> None:
    client, session = await stage.client()
    entering = asyncio.ensure_future(client.subscribe("/queue/a").__aenter__())
    session.refuse(await session.expect(wire.SUBSCRIBE), "not-allowed")
    with pytest.raises(mom_client.Refused, match="not-allowed"):
        await entering
    await stage.leave(client, session)


async def test_closing_ends_the_iteration(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    waiting = asyncio.ensure_future(subscription.__anext__())
    await stage.leave(client, session)
    with pytest.raises(StopAsyncIteration):
        await waiting
    with pytest.raises(mom_client.ConnectionLost, match="closed"):
        await client.send("/queue/a", b"")


async def test_an_automatic_subscription_is_bounded(
    stage: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mom_client.subscription, "MAX_WAITING_BYTES", 5000)
    client, session = await stage.client()
    subscription = client.subscribe("/topic/a", ack="auto")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE, ack="auto"))
    await entering
    for number in range(6):
        session.deliver(subscription.id, number)
    await session.expect(wire.UNSUBSCRIBE)
    assert [(await subscription.get()).id for _ in range(5)] == ["m-0", "m-1", "m-2", "m-3", "m-4"]
    await subscription.get()
    with pytest.raises(mom_client.Overrun, match="wait unread"):
        await subscription.get()
    await stage.leave(client, session)


async def test_an_error_frame_names_the_send_it_refuses(stage: FakeBroker) -> None:
    """Brokers without soft errors end the connection; the refused message must not be sent for ever."""
    client, session = await stage.client()
    sending = asyncio.ensure_future(client.send("/queue/a", b"x"))
    send = await session.expect(wire.SEND)
    assert send.receipt is not None
    session.say(wire.ERROR, {"message": "not yours", "receipt-id": send.receipt.decode()}, b"go away")
    with pytest.raises(mom_client.Refused, match="not yours: go away"):
        await sending
    again = await stage.come_back(client)
    await stage.leave(client, again)


async def test_an_error_frame_at_the_end_of_a_client_that_does_not_come_back(stage: FakeBroker) -> None:
    client, session = await stage.client(reconnect=False)
    waiting = asyncio.ensure_future(client.request("/queue/a", b"x"))
    await session.expect(wire.SEND)
    session.say(wire.ERROR, {}, b'{"type": "/docs/problems/not-active", "detail": "the broker stops"}')
    with pytest.raises(mom_client.ConnectionLost, match="the broker stops"):
        await waiting
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a", b"x")
    await client.close()


async def test_heart_beats_both_ways(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect(heart_beat_s=10, reconnect=False).open())
    session = await stage.accept()
    await session.welcome(heart_beat="10000,10000")
    client = await opening
    for _ in range(20):
        await asyncio.sleep(10)
        session.say_bytes(b"\n")
    assert session.beats >= 20
    assert client.connected
    with pytest.raises(mom_client.ConnectionLost, match="silent for too long"):
        await client.request("/queue/a", timeout_s=100)
    assert 20 <= session.loop.time() - 200 <= 40
    await client.close()


async def test_leaving_waits_for_what_was_sent(stage: FakeBroker) -> None:
    client, session = await stage.client()
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(client.send("/queue/a", b"x"))
        send = await session.expect(wire.SEND)
        leaving = group.create_task(client.close())
        disconnect = await session.expect(wire.DISCONNECT)
        assert not sending.done()
        assert not leaving.done()
        session.confirm(send, disconnect)
    assert session.closed.is_set()


async def test_leaving_a_broker_that_does_not_answer(stage: FakeBroker) -> None:
    client, session = await stage.client(connect_timeout_s=5)
    await client.close()
    assert session.loop.time() == pytest.approx(5)
    assert session.closed.is_set()
    await client.close()


async def test_talks_to_a_broker_of_1_0(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect().open())
    session = await stage.accept()
    await session.expect(wire.CONNECT)
    session.say(wire.CONNECTED)
    client = await opening
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.deliver(subscription.id, 1, note="a\\nb")
    message = await subscription.get()
    await message.ack()
    await session.expect(wire.ACK, message_id="m-1", subscription=subscription.id)
    await stage.leave(client, session)
