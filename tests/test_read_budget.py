"""The budget of bytes that are read back at once."""

from __future__ import annotations

import asyncio
import contextlib

from broker_app.engine.read_budget import ReadBudget


def test_those_who_wait_begin_in_their_order_however_little_they_want() -> None:
    budget, begun = ReadBudget(100), list[str]()
    budget.take(80, lambda: begun.append("first"))
    budget.take(60, lambda: begun.append("second"))
    budget.take(10, lambda: begun.append("third"))
    assert begun == ["first"]
    budget.give_back(80)
    assert begun == ["first", "second", "third"]


def test_what_is_larger_than_the_budget_is_read_alone() -> None:
    budget, begun = ReadBudget(100), list[str]()
    budget.take(1, lambda: begun.append("small"))
    budget.take(500, lambda: begun.append("large"))
    assert begun == ["small"]
    budget.give_back(1)
    assert begun == ["small", "large"]
    budget.take(1, lambda: begun.append("next"))
    assert begun == ["small", "large"]
    budget.give_back(500)
    assert begun[-1] == "next"


async def test_a_task_that_is_cancelled_keeps_nothing_of_the_budget() -> None:
    budget, begun = ReadBudget(100), list[str]()
    budget.take(100, lambda: begun.append("first"))

    async def read() -> None:
        async with budget.hold(100):
            begun.append("task")

    waiting = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    budget.give_back(100)
    budget.take(100, lambda: begun.append("next"))
    assert begun == ["first", "next"]
