"""Limits of an environment, refused before it sends, and handlers that fail, at one site."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import mom_client
from broker_app.features.channels.requests import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS
from mom_client import MASTER
from mom_client import channels as ch
from mom_client.channel_parts import MAX_BYTES, MAX_PARTS, joined, parts_of
from tests.support.patience import patient
from tests.support.small_broker import PASSWORD, SmallBroker, small_broker


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker(name="b1") as running:
        yield running


@asynccontextmanager
async def started(broker: SmallBroker, handler: ch.Handler | None = None) -> AsyncIterator[ch.Environment]:
    url = f"stomp://127.0.0.1:{broker.port}"
    async with mom_client.environment(url, site="b1", login="anna", passcode=PASSWORD) as env:
        if handler is not None:
            await env.repmgr_msg_dispatch(handler)
        await env.repmgr_start()
        yield env


@pytest.mark.parametrize("parts", [[], [b""], [b"a"], [b"", b""], [b"a", b"", b"ccc"]])
def test_parts_come_as_they_were_sent(parts: list[bytes]) -> None:
    assert parts_of(*joined(parts)) == parts


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (itertools.repeat(b"", MAX_PARTS + 1), "1000 parts, not 1001"),
        ([bytes(MAX_BYTES), b"1"], f"{MAX_BYTES} bytes, not {MAX_BYTES + 1}"),
    ],
)
async def test_too_many_parts_or_bytes_are_refused_before_they_are_sent(
    broker: SmallBroker, parts: list[bytes], why: str
) -> None:
    """CH-A09."""
    async with started(broker) as env:
        channel = await env.repmgr_channel("b1")
        with pytest.raises(ch.EINVAL, match=why):
            await channel.send_msg(parts)
        assert broker.registry.channels.report().sites[0].sent == 0


async def test_the_time_of_a_request_is_its_own_or_that_of_the_channel(broker: SmallBroker) -> None:
    """CH-P03, CH-P04, CH-T05."""
    assert ch.DEFAULT_TIMEOUT_S * 1000 == DEFAULT_TIMEOUT_MS == 5_000
    released = asyncio.Event()

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        if parts == [b"wait"]:
            await released.wait()
        await channel.send_msg(parts)

    async with started(broker, handler) as env:
        channel = await env.repmgr_channel(MASTER)
        for wrong in (-1, MAX_TIMEOUT_MS / 1000 + 1):
            with pytest.raises(ch.EINVAL, match="timeout_s"):
                await channel.send_request([b"?"], wrong)
        for wrong in (0, -1, MAX_TIMEOUT_MS / 1000 + 1):
            with pytest.raises(ch.EINVAL, match="timeout_s"):
                channel.set_timeout(wrong)
        channel.set_timeout(0.1)
        with pytest.raises(ch.DB_TIMEOUT, match="within 100 ms"):
            await channel.send_request([b"wait"], 0)
        channel.set_timeout(patient(30))
        asked = asyncio.create_task(channel.send_request([b"wait"]))
        assert await channel.send_request([b"not late"]) == b"not late"
        released.set()
        assert await asked == b"wait"


async def test_an_environment_that_has_ended_opens_no_channel(broker: SmallBroker) -> None:
    """CH-P01."""
    async with started(broker) as env:
        await env.close()
        with pytest.raises(ch.EINVAL, match="not started"):
            await env.repmgr_channel("b1")


async def test_a_handler_may_be_set_after_the_start_and_what_comes_before_is_dropped_and_counted(
    broker: SmallBroker,
) -> None:
    """CH-S19, CH-A05."""

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        await channel.send_msg(parts)

    async with started(broker) as env:
        channel = await env.repmgr_channel("b1")
        await channel.send_msg([b"too early"])
        with pytest.raises(ch.DB_NOSERVER):
            await channel.send_request([b"too early"])
        assert broker.registry.channels.report().sites[0].dropped == {"noserver": 1}
        await env.repmgr_msg_dispatch(handler)
        assert await channel.send_request([b"in time"]) == b"in time"


async def test_a_handler_that_fails_has_not_answered_and_its_channel_ends_with_it(
    broker: SmallBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """CH-P07, CH-P10, CH-P20."""
    channels: list[ch.ResponseChannel] = []

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        channels.append(channel)
        if parts == [b"fail"]:
            raise KeyError("of the application")
        await channel.send_msg(parts)

    async with started(broker, handler) as env:
        channel = await env.repmgr_channel("b1")
        with pytest.raises(ch.DB_KEYEMPTY):
            await channel.send_request([b"fail"])
        assert "the handler of messages failed" in caplog.messages
        assert await channel.send_request([b"next"]) == b"next"
        for ended in channels:
            with pytest.raises(ch.EINVAL, match="has returned"):
                await ended.send_msg([b"late"])
