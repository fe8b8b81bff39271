"""The client of the engine within the process keeps nothing of what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope, Message
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.journal.port import Damaged, Found
from tests.support.memory_journal import MemoryJournal


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


class Sink:
    """Takes deliveries and the end of a subscription."""

    def collect(self, tag: int, message: Message) -> None: ...
    def end(self, refusal: Refused) -> None: ...


async def test_a_client_that_leaves_as_its_newer_connection_takes_over_is_no_internal_error(
    client: EngineClient,
) -> None:
    former, newer = EngineClient(client.engine, "anna"), EngineClient(client.engine, "anna")
    before = internal_errors.total
    for one in (former, newer):
        one.peer.client_key = "anna", None, "", "app-7"
        id = one.open_collection(Sink(), "anna")
        one.submit(c.Subscribe(one.peer, id, "/topic/a", c.INDIVIDUAL, name="mine", durable=True))
        if one is former:
            await client.turn()
    former.disconnect()
    await client.turn()
    assert (internal_errors.total, list(newer.peer.subscriptions)) == (before, [id])


async def test_a_client_that_leaves_as_too_much_waits_for_its_subscription_is_no_internal_error() -> None:
    engine = Engine(Broker(limits=Limits(topic_pending=3)), MemoryJournal())
    engine.recover()
    sender, reader = EngineClient(engine, "test"), EngineClient(engine, "anna")
    before = internal_errors.total
    reader.submit(c.Subscribe(reader.peer, reader.open_collection(Sink(), "anna"), "/topic/a", c.INDIVIDUAL))
    await sender.turn()
    sender.submit(c.Publish(sender.peer, [(Envelope("/topic/a"), b"x", None)] * 5))
    reader.disconnect()
    await sender.turn()
    await engine.stop()
    assert internal_errors.total == before


async def test_records_of_which_only_heads_are_needed_are_kept_without_bodies() -> None:
    engine = Engine(Broker(limits=Limits(window=1)), LateJournal())
    engine.recover()
    client, envelope = EngineClient(engine, "test"), Envelope("/queue/a", b"kind:a\n")
    client.submit(c.Publish(client.peer, [(envelope, b"x" * 10_000, None)] * 3))
    await client.turn()
    (lane,) = engine.broker.destinations.queues["/queue/a"].lanes
    positions = list(lane.paged)
    assert len(positions) == 2

    def read() -> list[bytes]:
        return [engine.records((position,))[0] for position in positions]

    whole, heads = await client.inspect(read), await client.inspect_heads(read)
    assert [head + b"x" * 10_000 for head in heads] == whole
    await engine.stop()


class LateJournal(MemoryJournal):
    """A journal whose records take until the next turn of the loop to read."""

    def read(self, positions: Sequence[int], found: Found) -> None:
        def later(records: list[bytes | Damaged] | None, error: Exception | None) -> None:
            asyncio.get_running_loop().call_soon(found, records, error)

        super().read(positions, later)
