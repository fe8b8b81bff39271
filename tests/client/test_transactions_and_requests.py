"""Acts that belong together: transactions, and requests with their replies."""

import asyncio

import pytest

import mom_client
from mom_client.stomp import frame as wire
from tests.client.stage import FakeBroker, FakeSession


async def _subscribed(client: mom_client.Client, session: FakeSession) -> mom_client.Subscription:
    subscription = client.subscribe("/queue/a")
    entering = asyncio.ensure_future(subscription.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE))
    return await entering


async def test_a_transaction_commits(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = await _subscribed(client, session)
    session.deliver(subscription.id, 1)
    session.deliver(subscription.id, 2)

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"x", headers={"k": "v"})
            tx.ack(await subscription.get())
            tx.nack(await subscription.get(), requeue=False)

    working = asyncio.ensure_future(work())
    begin = await session.expect(wire.BEGIN)
    id = begin.headers["transaction"]
    session.confirm(begin)
    send = await session.expect(wire.SEND, transaction=id, k="v")
    ack = await session.expect(wire.ACK, id="1", transaction=id)
    nack = await session.expect(wire.NACK, id="2", transaction=id, requeue="false")
    commit = await session.expect(wire.COMMIT, transaction=id)
    assert not working.done()
    session.confirm(send, ack, nack, commit)
    await working
    await stage.leave(client, session)


async def test_an_exception_aborts(stage: FakeBroker) -> None:
    client, session = await stage.client()

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"x")
            raise KeyError("mine")

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.SEND)
    await session.expect(wire.ABORT)
    with pytest.raises(KeyError, match="mine"):
        await working
    await stage.leave(client, session)


async def test_a_refused_command_aborts_the_transaction(stage: FakeBroker) -> None:
    client, session = await stage.client()

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"1")
            await tx.send("/foo", b"2")

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.SEND)
    session.refuse(await session.expect(wire.SEND), "bad-destination")
    session.refuse(await session.expect(wire.COMMIT), "not-found")
    with pytest.raises(mom_client.Refused, match="bad-destination"):
        await working
    await stage.leave(client, session)


async def test_a_connection_lost_within_a_transaction(stage: FakeBroker) -> None:
    """Nothing of it is sent again: the broker has dropped the rest."""
    client, session = await stage.client()

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"1")

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.SEND)
    session.end()
    with pytest.raises(mom_client.ConnectionLost, match="before the answer came"):
        await working
    again = await stage.come_back(client)
    await stage.leave(client, again)


async def test_an_unconfirmed_commit_is_reported(stage: FakeBroker) -> None:
    client, session = await stage.client()

    async def work() -> None:
        async with client.transaction():
            pass

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.COMMIT)
    session.end()
    with pytest.raises(mom_client.ConnectionLost, match="whether the transaction was committed is unknown"):
        await working
    again = await stage.come_back(client)
    await stage.leave(client, again)


async def test_requests_get_their_own_replies(stage: FakeBroker) -> None:
    client, session = await stage.client()
    asking = [asyncio.ensure_future(client.request("/queue/rpc", body)) for body in (b"1", b"2")]
    requests = [await session.expect(wire.SEND, persistent="false") for _ in range(2)]
    session.confirm(*requests)
    assert {request.headers["reply-to"] for request in requests} == {"/temp-queue/replies"}
    for request in reversed(requests):
        correlation_id = request.headers["correlation-id"]
        session.deliver("/temp-queue/replies", 1, b"re:" + request.body, correlation_id=correlation_id)
    assert [(await reply).body for reply in asking] == [b"re:1", b"re:2"]
    await stage.leave(client, session)


async def test_a_request_without_a_reply(stage: FakeBroker) -> None:
    client, session = await stage.client()
    asking = asyncio.ensure_future(client.request("/queue/rpc", b"", timeout_s=5))
    request = await session.expect(wire.SEND)
    with pytest.raises(mom_client.Timeout, match="no reply from /queue/rpc within 5 s"):
        await asking
    session.deliver("/temp-queue/replies", 1, correlation_id=request.headers["correlation-id"])
    await stage.leave(client, session)


async def test_a_refused_request(stage: FakeBroker) -> None:
    client, session = await stage.client()
    asking = asyncio.ensure_future(client.request("/queue/rpc", b""))
    session.refuse(await session.expect(wire.SEND), "not-allowed")
    with pytest.raises(mom_client.Refused, match="not-allowed"):
        await asking
    await stage.leave(client, session)


async def test_a_request_without_a_receipt_is_refused_by_its_correlation_id(stage: FakeBroker) -> None:
    client, session = await stage.client()
    replies = [client.requests.ask("/channel/b2", body)[1] for body in (b"1", b"2")]
    first, second = [await session.expect(wire.SEND) for _ in replies]
    assert first.receipt is None
    session.refuse(second, "not-allowed")
    with pytest.raises(mom_client.Refused, match="not-allowed"):
        await replies[1]
    assert not replies[0].done()
    session.deliver("/temp-queue/replies", 1, correlation_id=first.headers["correlation-id"])
    await replies[0]
    await stage.leave(client, session)


async def test_a_request_ends_with_its_connection(stage: FakeBroker) -> None:
    client, session = await stage.client()
    asking = asyncio.ensure_future(client.request("/queue/rpc", b""))
    await session.expect(wire.SEND)
    session.end()
    with pytest.raises(mom_client.ConnectionLost, match="before the answer came"):
        await asking
    again = await stage.come_back(client)
    await stage.leave(client, again)


async def test_a_reply_goes_where_it_was_asked_for(stage: FakeBroker) -> None:
    client, session = await stage.client()
    subscription = await _subscribed(client, session)
    session.deliver(subscription.id, 1, reply_to="/temp-queue/secret", correlation_id="c-1")
    session.deliver(subscription.id, 2)
    replying = asyncio.ensure_future((await subscription.get()).reply("yes"))
    send = await session.expect(wire.SEND, destination="/temp-queue/secret", correlation_id="c-1")
    session.confirm(send)
    await replying
    with pytest.raises(ValueError, match="m-2 has no reply-to"):
        await (await subscription.get()).reply("to whom?")
    await stage.leave(client, session)
