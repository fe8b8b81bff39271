"""The client of the engine within the process keeps nothing of what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.journal.memory import MemoryJournal


@pytest.fixture
async def client() -> AsyncIterator[EngineClient]:
    engine = Engine(Broker(), MemoryJournal())
    engine.recover()
    client = EngineClient(engine, "test")
    yield client
    if engine.ended is None:
        await engine.stop()


async def test_an_answered_question_is_forgotten(client: EngineClient) -> None:
    assert await client.ask(c.Answer(client.peer, None), lambda _: 7) == 7
    assert await client.inspect(lambda: 8) == 8
    assert not client._open


async def test_a_question_whose_answer_cannot_be_used_fails_alone(client: EngineClient) -> None:
    with pytest.raises(ZeroDivisionError):
        await client.inspect(lambda: 1 // 0)
    assert await client.inspect(lambda: 8) == 8
    assert not client._open


async def test_an_answer_is_used_although_nobody_waits_for_it_any_more(client: EngineClient) -> None:
    used: list[bool] = []
    asked = asyncio.create_task(client.inspect(lambda: used.append(True)))
    await asyncio.sleep(0)
    asked.cancel()
    await client.turn()
    assert used == [True]
    assert not client._open


async def test_questions_end_with_the_engine(client: EngineClient) -> None:
    reply = client.pending_reply()
    client.engine_ended(OSError("no disk"))
    with pytest.raises(Refused, match="no disk"):
        await client.answer(reply)
    await client.engine.stop()
    with pytest.raises(Refused, match="not-active"):
        await client.inspect(lambda: None)
