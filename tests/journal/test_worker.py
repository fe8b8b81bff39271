"""The thread that does the slow system calls of a journal."""

from __future__ import annotations

import asyncio
import gc
import weakref

from broker_app.journal.worker import Worker
from tests.support.patience import patient


class _Content:
    """Content that a job has read."""


async def test_nothing_of_a_job_is_in_memory_when_it_was_reported() -> None:
    loop = asyncio.get_running_loop()
    worker = Worker("reads", loop.call_soon_threadsafe)
    reported: asyncio.Future[weakref.ref[_Content]] = loop.create_future()

    def report(content: _Content | None, error: Exception | None) -> None:
        assert content is not None and error is None
        reported.set_result(weakref.ref(content))

    worker.submit(_Content, report)
    async with asyncio.timeout(patient(10)):
        content = await reported
    try:
        gc.collect()
        assert content() is None
    finally:
        worker.close()
