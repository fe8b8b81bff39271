"""The lag of the event loop: it is measured, and what held the loop up is named."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
import weakref
from collections.abc import AsyncIterator, Iterator
from types import FrameType, SimpleNamespace

import pytest

from broker_app.telemetry import loop_lag
from broker_app.telemetry.loop_lag import BEAT_S, LoopLag
from tests.support.patience import patient


@pytest.fixture
async def lag() -> AsyncIterator[LoopLag]:
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(3 * BEAT_S)
    yield lag
    lag.stop()


def a_call_that_sleeps_in_the_loop(seconds: float = 0.5) -> None:
    time.sleep(seconds)


async def test_a_blocked_loop_is_measured_and_logged_with_its_stack(
    lag: LoopLag, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(patient(50)):
        while "a_call_that_sleeps_in_the_loop" not in caplog.text:  # the lag of a busy machine may come first
            a_call_that_sleeps_in_the_loop()
            await asyncio.sleep(3 * BEAT_S)
    assert "the event loop was held up for" in caplog.text
    assert lag.lag_s(60) >= 0.4
    assert lag.blocked_s(60) >= 0.3


class Large:
    """The argument of a call."""


def a_call_that_works_on(large: Large) -> None:
    time.sleep(0.5)


async def test_what_a_reported_call_worked_on_is_released_when_it_returns(
    lag: LoopLag, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(patient(50)):
        while "a_call_that_works_on" not in caplog.text:
            large = Large()
            released = weakref.ref(large)
            a_call_that_works_on(large)
            del large
            await asyncio.sleep(3 * BEAT_S)
    assert released() is None


async def test_a_second_without_lag_does_not_show_that_of_a_minute(lag: LoopLag) -> None:
    a_call_that_sleeps_in_the_loop()
    async with asyncio.timeout(patient(60)):
        while lag.lag_s(60) < 0.4:
            await asyncio.sleep(BEAT_S)
        while lag.lag_s(1) >= 0.4:  # until the second is over
            await asyncio.sleep(BEAT_S)
    assert lag.lag_s(60) >= 0.4


async def test_a_loop_that_only_waits_has_no_lag_of_its_own(
    lag: LoopLag, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.sleep(1)
    assert lag.blocked_s(60) < 0.4


async def test_computing_is_distinguished_from_waiting(lag: LoopLag) -> None:
    a_call_that_sleeps_in_the_loop()
    async with asyncio.timeout(patient(60)):
        while lag.lag_s(60) < 0.4:
            await asyncio.sleep(BEAT_S)
    assert lag.busy_s(60) < 0.3
    until = time.thread_time() + 0.5
    while time.thread_time() < until:
        pass
    async with asyncio.timeout(patient(60)):
        while lag.busy_s(60) < 0.4:
            await asyncio.sleep(BEAT_S)


async def test_short_turns_before_a_wait_are_not_computing_at_a_stretch(lag: LoopLag) -> None:
    for number in range(4):
        until = time.monotonic() + (1 + number / 4) * BEAT_S  # the wait begins at any time between two beats
        while time.monotonic() < until:
            await asyncio.sleep(0)
        a_call_that_sleeps_in_the_loop(0.1)
        await asyncio.sleep(BEAT_S)
    assert lag.blocked_s(60) > BEAT_S
    assert lag.busy_s(60) < 0.5 * BEAT_S


async def test_where_no_other_thread_could_look_only_what_is_certain_is_computing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = SimpleNamespace(now_s=1.0, cpu_s=0.0)
    times = SimpleNamespace(monotonic=lambda: clocks.now_s, thread_time=lambda: clocks.cpu_s)
    monkeypatch.setattr(loop_lag, "time", times)
    lag = LoopLag()
    with monkeypatch.context() as busy_machine:
        busy_machine.setattr(threading.Thread, "start", lambda _: None)
        lag.start()
    # All of what a beat takes was perhaps computed before the next one was due.
    for late_s, computed_s, certain_s in ((0.25, BEAT_S, 0.0), (0.5, 0.4, 0.4 - BEAT_S)):
        clocks.now_s, clocks.cpu_s = clocks.now_s + BEAT_S + late_s, clocks.cpu_s + computed_s
        async with asyncio.timeout(patient(10)):
            while lag.lag_s(60) < late_s:
                await asyncio.sleep(BEAT_S)
        assert lag.busy_s(60) == pytest.approx(certain_s)
    lag.stop()


def stack_of_a_call_that_is(deep: int) -> str:
    return stack_of_a_call_that_is(deep - 1) if deep else loop_lag._stack_of(threading.get_ident())


def test_of_a_deep_stack_no_more_frames_are_read_than_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    read, walk = [], traceback.walk_stack

    def walk_and_note(frame: FrameType) -> Iterator[tuple[FrameType, int]]:
        for one in walk(frame):
            read.append(one)
            yield one

    monkeypatch.setattr(traceback, "walk_stack", walk_and_note)
    shown = stack_of_a_call_that_is(deep=100)
    assert len(read) == loop_lag.FRAMES
    assert "in _stack_of" in shown[shown.rindex("File ") :], "the innermost is the last"


def test_a_frame_that_has_ended_meanwhile_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk_what_has_gone(_: FrameType) -> Iterator[tuple[FrameType, int]]:
        raise AttributeError("'HttpConnection' object has no attribute 'f_lineno'")

    monkeypatch.setattr(traceback, "walk_stack", walk_what_has_gone)
    assert stack_of_a_call_that_is(deep=3) == ""
