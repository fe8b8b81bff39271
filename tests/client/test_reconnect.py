"""The effect of a lost connection on each operation."""

import asyncio

import pytest

import mom_client
from mom_client.connection.pace import Pace
from mom_client.stomp import frame as wire
from tests.client.stage import FakeBroker, FakeSession


async def test_unconfirmed_sends_are_sent_again_in_order(stage: FakeBroker) -> None:
    client, session = await stage.client()
    sending = [asyncio.ensure_future(client.send("/queue/a", b"%d" % number)) for number in range(3)]
    session.confirm(await session.expect(wire.SEND))
    await session.expect(wire.SEND)
    session.end()
    again = await stage.accept()
    during = asyncio.ensure_future(client.send("/queue/a", b"3"))
    await again.welcome()
    sends = [await again.expect(wire.SEND) for _ in range(3)]
    assert [send.body for send in sends] == [b"1", b"2", b"3"]
    again.confirm(*sends)
    await asyncio.gather(*sending, during)
    await stage.leave(client, again)


@pytest.mark.parametrize("named", [True, False])
async def test_a_client_whose_client_id_another_one_took_over_does_not_fight_for_it(
    stage: FakeBroker, named: bool
) -> None:
    client, session = await stage.client(headers={"client-id": "app"} if named else {})
    session.say(wire.ERROR, {}, b'{"type": "/docs/problems/taken-over", "detail": "it was taken over"}')
    if named:
        with pytest.raises(mom_client.Refused, match="taken over"):
            await client.send("/queue/a", "x")
        await client.close()
    else:  # it was a connection of its own
        await stage.leave(client, await stage.come_back(client))


async def test_a_send_that_was_cancelled_without_a_connection_is_not_sent_later(stage: FakeBroker) -> None:
    client, session = await stage.client(max_unconfirmed=2)
    session.end()
    again = await stage.accept()
    cancelled, kept = [asyncio.ensure_future(client.send("/queue/a", b"%d" % number)) for number in range(2)]
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await again.welcome()
    send = await again.expect(wire.SEND)
    assert send.body == b"1"
    again.confirm(send)
    await kept
    more = [asyncio.ensure_future(client.send("/queue/a", b"more")) for _ in range(2)]
    sends = [await again.expect(wire.SEND) for _ in more]  # there is room for them
    again.confirm(*sends)
    await asyncio.gather(*more)
    await stage.leave(client, again)


async def test_sends_without_a_connection_fail_at_their_deadline(stage: FakeBroker) -> None:
    client, session = await stage.client(resend_s=30)
    loop = asyncio.get_running_loop()
    stage.down = {"stomp://one:1"}
    began = loop.time()
    sending = asyncio.ensure_future(client.send("/queue/a", b"0"))
    await session.expect(wire.SEND)
    session.end(ConnectionResetError("gone"))
    await asyncio.sleep(10)
    later = asyncio.ensure_future(client.send("/queue/a", b"1"))
    with pytest.raises(mom_client.ConnectionLost, match="may or may not have been stored"):
        await sending
    assert loop.time() - began == pytest.approx(30)
    with pytest.raises(mom_client.ConnectionLost):
        await later
    assert loop.time() - began == pytest.approx(40)
    with pytest.raises(mom_client.ConnectionLost, match="no connection for 30 s"):
        await client.send("/queue/a", b"2", confirm=False)
    stage.down = set()
    again = await stage.come_back(client)
    alive = asyncio.ensure_future(client.send("/queue/a", b"3"))
    again.confirm(await again.expect(wire.SEND))
    await alive
    await stage.leave(client, again)


async def test_subscriptions_are_made_again(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a", credit=3)
    entering = asyncio.ensure_future(subscription.__aenter__())
    first = await session.expect(wire.SUBSCRIBE)
    session.confirm(first)
    await entering
    session.deliver(subscription.id, 1, b"taken")
    stale = await subscription.get()
    session.deliver(subscription.id, 2, b"not taken")
    session.end()
    again = await stage.come_back(client)
    second = await again.expect(wire.SUBSCRIBE)
    assert second.headers == first.headers
    again.confirm(second)
    again.deliver(subscription.id, 7, b"not taken", redelivered="true")
    message = await subscription.get()
    assert (message.body, message.redelivered) == (b"not taken", True)
    await stale.ack()  # passes silently: it comes again
    with pytest.raises(mom_client.ConnectionLost, match="connection was lost"):
        await stale.ack(confirm=True)
    await message.ack()
    await again.expect(wire.ACK, id="7")
    await stage.leave(client, again)


async def test_a_subscription_refused_the_second_time_ends(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.end()
    again = await stage.come_back(client)
    again.refuse(await again.expect(wire.SUBSCRIBE), "not-allowed")
    with pytest.raises(mom_client.Refused, match="not-allowed"):
        await subscription.get()
    await stage.leave(client, again)


@pytest.mark.parametrize("code", ["conflict", "too-many", "busy"])
async def test_a_subscription_whose_place_the_former_connection_holds_is_tried_again(
    stage: FakeBroker, code: str
) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/topic/a", durable="mine")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.end()
    again = await stage.come_back(client)
    for _ in range(3):
        again.refuse(await again.expect(wire.SUBSCRIBE), code)
    again.confirm(await again.expect(wire.SUBSCRIBE))
    again.deliver(subscription.id, 1, b"there")
    assert (await subscription.get()).body == b"there"
    await stage.leave(client, again)


async def test_a_place_that_stays_taken_is_given_up_after_two_minutes(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/topic/a", durable="mine")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.end()
    again = await stage.come_back(client)
    began = asyncio.get_running_loop().time()
    getting = asyncio.ensure_future(subscription.get())
    attempts = 0
    while not getting.done():
        expected = asyncio.ensure_future(again.expect(wire.SUBSCRIBE))
        await asyncio.wait((expected, getting), return_when=asyncio.FIRST_COMPLETED)
        if expected.done():
            again.refuse(expected.result(), "conflict")
            attempts += 1
        else:
            expected.cancel()
    with pytest.raises(mom_client.Refused, match="conflict"):
        await getting
    assert 110 < asyncio.get_running_loop().time() - began <= 120
    assert 20 < attempts < 40
    await stage.leave(client, again)


async def test_no_attempt_is_left_when_the_connection_breaks_again(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.end()
    again = await stage.come_back(client)
    again.refuse(await again.expect(wire.SUBSCRIBE), "busy")
    await asyncio.sleep(0.1)
    again.end()
    third = await stage.come_back(client)
    third.confirm(await third.expect(wire.SUBSCRIBE))
    await asyncio.sleep(10)
    assert third.quiet
    await stage.leave(client, third)


async def test_a_subscription_entered_while_the_connection_breaks(stage: FakeBroker) -> None:
    client, session = await stage.client()
    entering = asyncio.ensure_future(client.subscribe("/queue/a").__aenter__())
    await session.expect(wire.SUBSCRIBE)
    session.end()
    again = await stage.come_back(client)
    again.confirm(await again.expect(wire.SUBSCRIBE))
    await entering
    await stage.leave(client, again)


async def test_a_confirmed_ack_fails_with_the_connection(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.deliver(subscription.id, 1)
    message = await subscription.get()
    acking = asyncio.ensure_future(message.ack(confirm=True))
    await session.expect(wire.ACK)
    session.end()
    with pytest.raises(mom_client.ConnectionLost, match="before the answer came"):
        await acking
    again = await stage.come_back(client)
    again.confirm(await again.expect(wire.SUBSCRIBE))
    await stage.leave(client, again)


async def test_the_wait_between_sweeps_grows(stage: FakeBroker) -> None:
    pace = Pace(first_delay_s=0.1, max_delay_s=1.0, jitter=0, sweeps=7)
    client, session = await stage.client("stomp://one:1", "stomp://two:2", pace=pace)
    stage.down = {"stomp://one:1", "stomp://two:2"}
    stage.attempts.clear()
    session.end()
    with pytest.raises(mom_client.ConnectionLost, match=r"stomp://two:2: nobody.*stomp://one:1: nobody"):
        await client.send("/queue/a")
    times = [when for when, _ in stage.attempts]
    waits = [0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5]
    assert times == pytest.approx([wait for wait in waits for _ in range(2)])
    assert [address for _, address in stage.attempts[:2]] == ["stomp://two:2", "stomp://one:1"]
    await client.close()


async def test_goes_to_the_next_broker_when_one_is_not_active(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect("stomp://one:1", "stomp://two:2").open())
    standby = await stage.accept()
    await standby.expect(wire.CONNECT)
    standby.say(wire.ERROR, {}, b'{"type": "/docs/problems/not-active", "detail": "standby"}')
    active = await stage.accept()
    await active.welcome()
    client = await opening
    assert client.address == "stomp://two:2"
    await stage.leave(client, active)


async def test_learns_the_brokers_list(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect("stomp://one:1").open())
    session = await stage.accept()
    await session.welcome(mom_failover="stomp://three:3,nonsense, stomp://one:1")
    client = await opening
    session.end()
    again = await stage.accept()
    assert again.address == "stomp://three:3"
    await again.welcome()
    await client.send("/queue/a", b"", confirm=False)
    await again.expect(wire.SEND)
    await stage.leave(client, again)


async def test_without_reconnect_the_loss_is_final(stage: FakeBroker) -> None:
    client, session = await stage.client(reconnect=False)
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    sending = asyncio.ensure_future(client.send("/queue/a", b"x"))
    await session.expect(wire.SEND)
    session.end(ConnectionResetError("the cable"))
    with pytest.raises(mom_client.ConnectionLost, match="the cable"):
        await sending
    with pytest.raises(mom_client.ConnectionLost, match="the cable"):
        await subscription.get()
    await client.close()


async def test_closing_while_reconnecting(stage: FakeBroker) -> None:
    client, session = await stage.client()
    stage.down = {"stomp://one:1"}
    sending = asyncio.ensure_future(client.send("/queue/a", b"x"))
    await session.expect(wire.SEND)
    session.end()
    await asyncio.sleep(1)
    await client.close()
    with pytest.raises(mom_client.ConnectionLost, match="closed"):
        await sending


async def test_a_replay_goes_on_behind_the_last_message_that_was_taken(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = client.subscribe("/topic/a", ack="client-individual", start="first")
    entering = asyncio.ensure_future(subscription.__aenter__())
    first = await session.expect(wire.SUBSCRIBE)
    assert first.headers["from"] == "first"
    session.confirm(first)
    await entering
    for seq in (7, 9):
        session.say(wire.MESSAGE, {"subscription": subscription.id, "message-id": str(seq), "seq": str(seq)})
    assert (await subscription.get()).seq == 7
    session.end()
    again = await stage.come_back(client)
    assert (await again.expect(wire.SUBSCRIBE)).headers["from"] == "seq:8"
    await stage.leave(client, again)


async def test_a_replay_names_the_journal_of_its_last_message_at_whichever_broker_it_goes_on(
    stage: FakeBroker,
) -> None:
    opening = asyncio.ensure_future(stage.connect().open())
    session = await stage.accept()
    await session.welcome(mom_journal="a1")
    client = await opening
    subscription = client.subscribe("/topic/a", ack="client-individual", start="first")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    await entering
    session.say(wire.MESSAGE, {"subscription": subscription.id, "message-id": "7", "seq": "7"})
    assert (await subscription.get()).seq == 7
    # Of another journal, twice without a message from it, of a former version, and again of the first.
    for journal, start in (("b2", "a1-8"), ("b2", "a1-8"), ("", "8"), ("a1", "a1-8")):
        session.end()
        session = await stage.accept()
        await session.welcome(**({"mom_journal": journal} if journal else {}))
        assert (await session.expect(wire.SUBSCRIBE)).headers["from"] == f"seq:{start}"
    await stage.leave(client, session)


def error(session: FakeSession, **headers: str) -> None:
    """An ERROR that ends the connection because of a frame."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    session.say(wire.ERROR, named, b'{"type": "/docs/problems/too-large", "detail": "the body has 9 bytes"}')
    session.end()


async def test_a_frame_that_ended_the_connection_fails_and_is_not_sent_again(stage: FakeBroker) -> None:
    client, session = await stage.client()
    large = asyncio.ensure_future(client.send("/queue/a", b"too large"))
    other = asyncio.ensure_future(client.send("/queue/a", b"other"))
    sent = await session.expect(wire.SEND)
    await session.expect(wire.SEND)
    assert sent.receipt is not None
    error(session, receipt_id=sent.receipt.decode())
    with pytest.raises(mom_client.Refused, match="too-large: the body has 9 bytes"):
        await large
    again = await stage.come_back(client)
    again.confirm(await again.expect(wire.SEND))
    await other
    await stage.leave(client, again)


async def test_a_frame_that_ends_one_connection_after_the_other_fails_though_it_is_not_named(
    stage: FakeBroker,
) -> None:
    client, session = await stage.client()
    first = asyncio.ensure_future(client.send("/queue/a", b"0"))
    large = asyncio.ensure_future(client.send("/queue/a", headers={"x": "too long"}))
    session.confirm(await session.expect(wire.SEND))
    await session.expect(wire.SEND)
    error(session)
    again = await stage.come_back(client)
    await first
    await again.expect(wire.SEND)
    assert not large.done()
    error(again)
    with pytest.raises(mom_client.Refused, match="too-large"):
        await large
    await stage.leave(client, await stage.come_back(client))


async def test_a_transaction_fails_with_the_reason_why_the_broker_ended_the_connection(
    stage: FakeBroker,
) -> None:
    client, session = await stage.client()

    async def transact() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/a", b"too large")

    work = asyncio.ensure_future(transact())
    session.confirm(await session.expect(wire.BEGIN))
    sent = await session.expect(wire.SEND)
    assert sent.receipt is not None
    error(session, receipt_id=sent.receipt.decode())
    with pytest.raises(mom_client.Refused, match="too-large"):
        await work
    await stage.leave(client, await stage.come_back(client))
