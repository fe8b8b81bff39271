"""The watch over a stop: it reports what is waited for, and ends what does not end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import pytest

from broker_app.journal.worker import Worker
from broker_app.node.stop_watch import StopWatch, ended_in_parts
from tests.support.patience import patient


class Ended:
    """The status that a process would have ended with."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._ended = threading.Event()

    def __call__(self, status: int) -> None:
        self.status = status
        self._ended.set()

    def wait(self) -> int | None:
        self._ended.wait(patient(5))
        return self.status


def test_a_thread_that_is_joined_and_does_not_end_is_reported_and_ends_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hung, ended = threading.Event(), Ended()
    worker = Worker("journal-sync", lambda *_: None)
    worker.submit(hung.wait, lambda *_: None)
    watch = StopWatch(0.01, 0.05, ended)

    def stop() -> None:
        watch.begin()
        worker.close()

    joined = threading.Thread(target=stop)
    joined.start()
    try:
        assert ended.wait() == 1
    finally:
        watch.finish()
        hung.set()
        joined.join()
    first, last = (record.getMessage() for record in caplog.records)
    assert "its thread is in" in first
    assert "close (worker.py:" in first
    assert "thread journal-sync:" in last
    assert "worker.py" in last


async def test_a_task_that_does_not_end_is_reported_with_its_calls(caplog: pytest.LogCaptureFixture) -> None:
    async def closes_the_mirror() -> None:
        await asyncio.Event().wait()

    async def stops() -> None:
        await closes_the_mirror()

    ended = Ended()
    watch = StopWatch(0.01, 0.05, ended)
    watch.task = asyncio.create_task(stops())
    await asyncio.sleep(0)
    watch.begin()
    assert await asyncio.to_thread(ended.wait) == 1
    watch.finish()
    watch.task.cancel()
    assert "stops (line" in caplog.text
    assert "closes_the_mirror (line" in caplog.text
    assert "Event.wait (line" in caplog.text


def test_a_stop_that_ends_in_time_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    ended = Ended()
    watch = StopWatch(3600, 0, ended)
    for _ in range(3):
        watch.begin()
        watch.begin()
        watch.finish()
        watch.finish()
    for thread in threading.enumerate():
        if thread.name == "stop watch":
            thread.join(patient(5))
            assert not thread.is_alive()
    assert ended.status is None
    assert not caplog.records


def test_a_log_that_takes_nothing_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, ended = threading.Event(), Ended()

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stuck.wait()

    monkeypatch.setattr("broker_app.node.stop_watch._WORDS_S", 0.01)
    log, handler = logging.getLogger("broker_app.node.stop_watch"), Stuck()
    log.addHandler(handler)
    watch = StopWatch(0.01, 0.01, ended)
    try:
        watch.begin()
        assert ended.wait() == 1
    finally:
        watch.finish()
        stuck.set()
        log.removeHandler(handler)


async def test_parts_that_do_not_end_are_cancelled_one_after_the_other() -> None:
    reached: list[str] = []

    async def hangs(name: str) -> None:
        reached.append(name)
        await asyncio.Event().wait()

    async def stop() -> None:
        async with contextlib.AsyncExitStack() as parts:
            parts.callback(reached.append, "the journal")
            for name in ("the second", "the first"):
                parts.push_async_callback(hangs, name)

    async with asyncio.timeout(patient(5)):
        assert not await ended_in_parts(asyncio.create_task(stop()), 0, 0.01)
    assert reached == ["the first", "the second", "the journal"]


async def test_a_stop_in_time_is_not_cancelled_and_its_error_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("the mirror")

    assert await ended_in_parts(asyncio.create_task(asyncio.sleep(0)), 60, 60)
    with pytest.raises(ValueError, match="the mirror"):
        await ended_in_parts(asyncio.create_task(fails()), 60, 60)
