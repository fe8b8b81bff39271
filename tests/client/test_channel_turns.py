"""Channels of the client library: what follows from answers and calls leaves while more are taken."""

from __future__ import annotations

import asyncio

import pytest

import mom_client
from mom_client.channels import Environment, Handler, ResponseChannel
from mom_client.stomp import encode
from mom_client.stomp import frame as wire
from tests.client.stage import ADDRESS, FakeBroker, FakeSession

#: answers, or calls, that come in the same bytes
MANY = 20


@pytest.fixture
def stage() -> FakeBroker:
    return FakeBroker()


async def started(stage: FakeBroker, handler: Handler | None = None) -> tuple[Environment, FakeSession]:
    """An environment that has started, and the broker's end of its connection."""
    env = mom_client.environment(ADDRESS, opener=stage.open)
    if handler is not None:
        await env.repmgr_msg_dispatch(handler)
    starting = asyncio.ensure_future(env.repmgr_start())
    session = await stage.accept()
    await session.welcome(mom_broker="b1")
    if handler is not None:
        session.confirm(await session.expect(wire.SUBSCRIBE))
    await starting
    return env, session


def counted(session: FakeSession) -> list[int]:
    """The number of SEND frames of each write from now on."""
    writes: list[int] = []
    send = session.send

    async def count(data: bytes) -> None:
        writes.append(data.count(b"SEND\n"))
        await send(data)

    session.send = count  # type: ignore[method-assign]
    return writes


async def leave(env: Environment, session: FakeSession) -> None:
    ending = asyncio.ensure_future(env.close())
    while not ending.done():
        frame = await session.expect_any()
        session.confirm(frame)
        if frame.command is wire.DISCONNECT:
            await ending


async def test_the_next_requests_leave_while_further_answers_are_taken(stage: FakeBroker) -> None:
    env, session = await started(stage)
    opening = asyncio.ensure_future(env.repmgr_channel("b2"))
    session.confirm(await session.expect(wire.SEND))
    channel = await opening

    async def ask_twice() -> None:
        await channel.send_request([b"first"])
        await channel.send_request([b"second"])

    asking = [asyncio.ensure_future(ask_twice()) for _ in range(MANY)]
    first = [await session.expect(wire.SEND) for _ in asking]
    writes = counted(session)
    session.say_bytes(b"".join(map(answer, first)))
    second = [await session.expect(wire.SEND) for _ in asking]
    assert {frame.body for frame in second} == {b"second"}
    assert sum(writes) == MANY
    assert max(writes) < MANY, writes
    session.say_bytes(b"".join(map(answer, second)))
    await asyncio.gather(*asking)
    await channel.close()
    await leave(env, session)


def answer(request: wire.Frame) -> bytes:
    """The answer to a request, as the broker sends it."""
    headers = {
        "subscription": "/temp-queue/replies",
        "message-id": "m",
        "correlation-id": request.headers["correlation-id"],
        "channel-status": "ok",
    }
    return encode(wire.MESSAGE, headers)


async def test_answers_leave_while_further_calls_are_taken(stage: FakeBroker) -> None:
    async def handle(channel: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        await channel.send_msg(parts)

    env, session = await started(stage, handle)
    writes = counted(session)
    calls = [
        {"subscription": "1", "message-id": "m", "channel-call": f"c{n}", "need-response": "true"}
        for n in range(MANY)
    ]
    session.say_bytes(b"".join(encode(wire.MESSAGE, call) for call in calls))
    answers = [await session.expect(wire.SEND) for _ in calls]
    assert [frame.headers["channel-call"] for frame in answers] == [call["channel-call"] for call in calls]
    assert sum(writes) == MANY
    assert max(writes) < MANY, writes
    await leave(env, session)
