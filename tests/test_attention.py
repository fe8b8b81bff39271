"""How long the loop stays awake, and when it stops trying."""

from __future__ import annotations

import asyncio
import time

from broker_app.busy_poll import MOMENT_S, RARELY, TRUST, BusyPoll


async def fall_asleep(attention: BusyPoll) -> None:
    async with asyncio.timeout(10):
        while attention.awake:
            await asyncio.sleep(0)


async def tried(attention: BusyPoll, occasions: int) -> int:
    """On how many of so many occasions it stayed awake, in vain."""
    count = 0
    for _ in range(occasions):
        attention.stay()
        count += attention.awake
        await fall_asleep(attention)
    return count


async def test_without_success_it_is_tried_rarely() -> None:
    assert await tried(BusyPoll(asyncio.get_running_loop()), 3 * RARELY) == 3


async def test_success_makes_it_try_every_time_and_failures_wear_that_off() -> None:
    attention = BusyPoll(asyncio.get_running_loop())
    await tried(attention, RARELY - 1)
    for _ in range(TRUST):
        attention.stay()
        assert attention.awake
        attention.came()
        assert not attention.awake
    assert TRUST <= await tried(attention, RARELY - 1) <= TRUST + 1


async def test_it_sleeps_when_the_moment_is_over() -> None:
    attention = BusyPoll(asyncio.get_running_loop())
    await tried(attention, RARELY - 1)
    began = time.perf_counter()
    attention.stay()
    await fall_asleep(attention)
    assert time.perf_counter() - began >= MOMENT_S
