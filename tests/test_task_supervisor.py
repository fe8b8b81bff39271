"""The supervision of background tasks: what fails begins again, ever more slowly, and is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from broker_app.base.internal_errors import internal_errors
from broker_app.base.process.task_supervisor import FIRST_PAUSE_S, TaskSupervisor, count_unhandled
from tests.support.patience import patient


@pytest.fixture
async def supervisor() -> AsyncIterator[TaskSupervisor]:
    supervisor = TaskSupervisor()
    yield supervisor
    await supervisor.stop()


async def test_a_task_that_fails_is_counted_and_begins_again_after_a_growing_pause(
    supervisor: TaskSupervisor, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []
    well = asyncio.Event()

    async def failing_twice() -> None:
        starts.append(time.monotonic())
        if len(starts) < 3:
            raise LookupError("a fault in a task")
        well.set()
        await asyncio.Event().wait()

    before = internal_errors.of("a background task")
    supervisor.start("of a test", failing_twice)
    async with asyncio.timeout(patient(30)):
        await well.wait()
    first, second, third = starts
    assert second - first >= FIRST_PAUSE_S
    assert third - second >= 2 * FIRST_PAUSE_S
    assert internal_errors.of("a background task") == before + 2


async def test_one_that_fails_leaves_the_others_alone_and_all_end_at_once(
    supervisor: TaskSupervisor,
) -> None:
    ended = asyncio.Event()
    ticks: asyncio.Queue[None] = asyncio.Queue()

    async def failing() -> None:
        raise LookupError("a fault in a task")

    async def well() -> None:
        try:
            while True:
                ticks.put_nowait(None)
                await asyncio.sleep(0)
        finally:
            ended.set()

    supervisor.start("failing", failing)
    supervisor.start("well", well)
    async with asyncio.timeout(patient(30)):
        for _ in range(100):
            await ticks.get()
    await supervisor.stop()
    assert ended.is_set()


async def test_unhandled_errors_of_callbacks_are_counted() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(count_unhandled)
    before = internal_errors.of("the event loop")
    handled = asyncio.Event()

    def failing() -> None:
        loop.call_soon(handled.set)
        raise LookupError("a fault in a callback")

    try:
        loop.call_soon(failing)
        await handled.wait()
    finally:
        loop.set_exception_handler(None)
    assert internal_errors.of("the event loop") == before + 1
