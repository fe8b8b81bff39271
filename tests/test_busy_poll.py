"""The duration of busy polling, and its end."""

from __future__ import annotations

import asyncio
import time

from broker_app.engine.busy_poll import MOMENT_S, RARELY, TRUST, BusyPoll
from tests.support.patience import patient


async def fall_asleep(poll: BusyPoll) -> None:
    async with asyncio.timeout(patient(10)):
        while poll.awake:
            await asyncio.sleep(0)


async def tried(poll: BusyPoll, occasions: int) -> int:
    """On how many of so many occasions it stayed awake, in vain."""
    count = 0
    for _ in range(occasions):
        poll.start()
        count += poll.awake
        await fall_asleep(poll)
    return count


async def test_without_success_it_is_tried_rarely() -> None:
    assert await tried(BusyPoll(asyncio.get_running_loop()), 3 * RARELY) == 3


async def test_success_makes_it_try_every_time_and_failures_wear_that_off() -> None:
    poll = BusyPoll(asyncio.get_running_loop())
    await tried(poll, RARELY - 1)
    for _ in range(TRUST):
        poll.start()
        assert poll.awake
        poll.hit()
        assert not poll.awake
    assert TRUST <= await tried(poll, RARELY - 1) <= TRUST + 1


async def test_it_sleeps_when_the_moment_is_over() -> None:
    poll = BusyPoll(asyncio.get_running_loop())
    await tried(poll, RARELY - 1)
    began = time.perf_counter()
    poll.start()
    await fall_asleep(poll)
    assert time.perf_counter() - began >= MOMENT_S
