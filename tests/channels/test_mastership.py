"""Channels to the master of brokers that share a journal: the one that holds the lease, whichever that is.

`SOAK=1` moves mastership ten times under ten thousand requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import mom_client
from mom_client import MASTER
from mom_client import channels as ch
from tests.support.awaiting import until
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, mirrors_in, wait_until_serving
from tests.support.patience import patient

pytestmark = pytest.mark.process

MOVES, REQUESTS = (10, 10_000) if "SOAK" in os.environ else (1, 300)
IN_FLIGHT = 8
#: of a call; those that wait for an answer of a broker that was killed end with it
TIMEOUT_S = 3.0
#: a call that may have been made, and whose answer is not known
UNKNOWN = (ch.DB_TIMEOUT, ch.DB_REP_UNAVAIL, ch.DB_NOSERVER)


@pytest.fixture
def mirrors(processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with mirrors_in(tmp_path, "shop", f"file:{tmp_path / 'journal'}") as made:
        yield made


class Calls:
    """The calls of one application to the master, and what its handler saw of them."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._next = 0
        self.handled: Counter[bytes] = Counter()
        self.outcomes: Counter[str] = Counter()

    async def environment(self, handler: ch.Handler | None = None) -> ch.Environment:
        broker = self._mirrors.brokers[0]
        env = await mom_client.environment(
            self._mirrors.uri, site=self._mirrors.name, login=broker.user, passcode=broker.password
        )
        if handler is not None:
            await env.repmgr_msg_dispatch(handler)
        await env.repmgr_start()
        return env

    async def handle(self, channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        (number,) = parts
        self.handled[number] += 1
        with contextlib.suppress(ch.EINVAL):  # the broker that asked has ended
            await channel.send_msg([b"answer to " + number])

    async def answered(self, more: int) -> None:
        """Wait until so many more calls are answered."""
        wanted = self.outcomes["answered"] + more
        await until(lambda: self.outcomes["answered"] >= wanted, 30)

    async def make(self, channel: ch.Channel, stop: asyncio.Event) -> None:
        """Make one call after the other, until `stop`."""
        while not stop.is_set():
            self._next += 1
            number = str(self._next).encode()
            try:
                answer = await channel.send_request([number], timeout_s=TIMEOUT_S)
            except UNKNOWN as error:
                self.outcomes[type(error).__name__] += 1
                await asyncio.sleep(0.02)
            else:
                assert answer == b"answer to " + number, "the answer of another call"
                assert self.handled[number] == 1
                self.outcomes["answered"] += 1


async def move(mirrors: Mirrors, at: int) -> None:
    """Kill the broker that serves, and start it again as the standby of the other."""
    served, other = mirrors.brokers[at % 2], mirrors.brokers[(at + 1) % 2]
    await until(lambda: is_followed(served), 30)
    served.kill()
    await asyncio.to_thread(wait_until_serving, other)
    await asyncio.to_thread(start_again, served)


def start_again(broker: BrokerProcess) -> None:
    broker.start(standby=True)


async def test_calls_to_the_master_follow_the_lease_and_none_is_made_twice(mirrors: Mirrors) -> None:
    await asyncio.to_thread(mirrors.pair)
    calls = Calls(mirrors)
    stop = asyncio.Event()
    handling = await calls.environment(calls.handle)
    async with handling, await calls.environment() as env:
        channel = await env.repmgr_channel(MASTER)
        async with asyncio.timeout(patient(60 + 20 * MOVES)), asyncio.TaskGroup() as callers:
            for _ in range(IN_FLIGHT):
                callers.create_task(calls.make(channel, stop))
            for at in range(MOVES):
                await calls.answered(50)
                await move(mirrors, at)
            await until(lambda: calls.outcomes.total() >= REQUESTS, 600)
            await calls.answered(1)
            stop.set()
    print(dict(calls.outcomes))
    assert max(calls.handled.values()) == 1, "a call was made twice"
    assert calls.outcomes["answered"] > REQUESTS / 2
