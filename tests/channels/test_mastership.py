"""Channels to the master of brokers that share a journal: the one that holds the lease, whichever that is.

`SOAK=1` moves mastership ten times under ten thousand requests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mom_client import MASTER
from tests.channels.calls import Calls, environment
from tests.support.awaiting import until
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, mirrors_in, wait_until_serving
from tests.support.patience import patient

pytestmark = pytest.mark.process

MOVES, REQUESTS = (10, 10_000) if "SOAK" in os.environ else (1, 300)
IN_FLIGHT = 8


@pytest.fixture
def mirrors(processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with mirrors_in(tmp_path, "shop", f"file:{tmp_path / 'journal'}") as made:
        yield made


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
    calls = Calls()
    stop = asyncio.Event()
    (broker, _), uri, site = mirrors.brokers, mirrors.uri, mirrors.name
    handling = await environment(broker, calls.handler(), uri=uri, site=site)
    async with handling, await environment(broker, uri=uri, site=site) as env:
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
