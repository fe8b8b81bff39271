"""The master in an enhanced cluster: a member that dies is followed by one with handlers of its own.

`SOAK=1` moves mastership ten times under ten thousand requests.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mom_client import MASTER
from tests.channels.calls import Calls, environment
from tests.enhanced_cluster.members import MemberProcess, Members, linked, running
from tests.support.awaiting import becomes, until
from tests.support.patience import patient

pytestmark = pytest.mark.process

MOVES, REQUESTS = (10, 10_000) if "SOAK" in os.environ else (1, 200)
IN_FLIGHT = 8
SERVING = ("b1", "b2")


async def master(broker: MemberProcess) -> str:
    """The master, as a member sees it; empty if it sees none."""
    async with broker.rest() as http:
        sites = (await http.get("/sites")).json()["items"]
    return next((site["name"] for site in sites if site["is_master"]), "")


async def test_calls_to_the_master_go_to_another_member_with_handlers_when_it_dies(tmp_path: Path) -> None:
    """CH-T04, by a takeover: b1 and b2 have handlers, b3 asks. Without a master, calls fail at once."""
    calls, stop, old = Calls(), asyncio.Event(), ""
    with running(Members(tmp_path, f"file:{tmp_path / 'shared'}", 3)) as members:
        b3 = members.all[2]
        await becomes(lambda: linked(b3), ["b1", "b2"], 30)
        by_name = dict(zip(("b1", "b2", "b3"), members, strict=True))
        handling = [await environment(by_name[name], calls.handler(name)) for name in SERVING]

        async def serves() -> bool:
            return await master(b3) in SERVING

        async with await environment(b3) as env:
            await becomes(serves, True, 30)
            channel = await env.repmgr_channel(MASTER)
            async with asyncio.timeout(patient(60 + 30 * MOVES)), asyncio.TaskGroup() as callers:
                for _ in range(IN_FLIGHT):
                    callers.create_task(calls.make(channel, stop))
                for move in range(MOVES):
                    if move:
                        await asyncio.to_thread(by_name[old].start)  # its application comes back to it
                    await calls.answered(50)
                    old = await master(b3)
                    (other,) = {*SERVING} - {old}
                    by_name[old].kill()
                    await calls.answered_by(other)
                await until(lambda: calls.outcomes.total() >= REQUESTS, 600)
                await calls.answered(50)
                stop.set()
        for one in handling:
            await one.close()
    print(dict(calls.outcomes), dict(calls.by_handler))
    assert max(calls.handled.values()) == 1, "a call was made twice"
