"""Reflexes and bridges: forwarded messages that are refused, and copies for another broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from broker_app.engine.read_budget import NODE_BYTES
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, SERVICE, Declaration
from tests.bridge.pair import Pair, pair, receive, until

NUMBERS = Declaration(
    "numbers", ARRIVAL, "mom-schema", "check_schema", "orders", options={"schema": {"type": "number"}}
)
COPY = Declaration("copy", ARRIVAL, "mom", "copy_to_broker", "stock", options={"broker": "oslo"})
DELETE = Declaration("delete", DELIVERY, "mom", "delete_copy", "stock", options={"broker": "oslo"})
DELETES = Declaration("deletes", SERVICE, "mom", "delete_copies", "RE_deleteCopy")


@pytest.mark.usefixtures("processes")
async def test_a_refused_message_of_a_bridge_becomes_a_dead_letter_and_the_next_ones_pass(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, dead_letter_after=2) as both, both.home.stomp("john") as john:
        await both.away.change(reflexes=(NUMBERS,))
        await both.send(john, "orders", "1", "2", "no number", "4", "neither", "6")
        async with both.away.stomp("john") as there:
            assert await receive(there, "orders", 4) == [b"1", b"2", b"4", b"6"]
        await until(lambda: both.home.depth("storeAndForward:oslo/queue/orders.dead") == 2)
        flow = both.flow("orders")
        assert (flow["accepted"], flow["gap"], flow["duplicate"]) == (4, 0, 0)
        lanes = both.home.node.broker.destinations.queues[both.source("orders") + ".dead"].lanes
        blocks = [message.envelope.block for lane in lanes for message in lane.in_memory()]
        assert all(b"refused 2 times by oslo\\c" in block and b"reflex numbers" in block for block in blocks)


@pytest.mark.usefixtures("processes")
async def test_a_refused_message_waits_at_home_until_the_reflex_lets_it_pass(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await both.away.change(reflexes=(NUMBERS,))
        await both.send(john, "orders", "1", "no number", "3")
        await until(lambda: both.flow("orders")["error"])
        error = both.flow("orders")["error"]
        assert "the message to /queue/orders was refused by reflex numbers" in error["detail"]
        assert both.away.depth("orders") == 1
        await both.away.change(reflexes=())
        async with both.away.stomp("john") as there:
            assert await receive(there, "orders", 3) == [b"1", b"no number", b"3"]


async def mirrored(both: Pair) -> None:
    """Have copies of `stock` made and deleted."""
    await both.home.change(reflexes=(COPY, DELETE))
    await both.away.change(reflexes=(DELETES,))


async def purge(both: Pair) -> None:
    """Purge `stock`."""
    async with both.home.rest("admin") as admin:
        reply = await admin.delete("/queues/stock/messages", params={"all": "true"})
    assert reply.status_code < 300, reply.text


async def test_a_copy_is_made_and_deleted_when_its_original_has_ended(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await mirrored(both)
        for number in range(6):
            await john.send("/queue/stock", str(number), headers={"colour": "red"})
        await john.send("/queue/stock", "expires", ttl_s=0.2)
        await john.send("/queue/stock", "not persistent", persistent=False)
        await until(lambda: both.away.depth("stock") == 7)
        async with both.away.stomp("john") as there, there.subscribe("/queue/stock", credit=1) as messages:
            copy = await anext(messages)
            assert (copy.body, copy.headers["colour"]) == (b"0", "red")
            assert copy.headers["mom-copy-id"].startswith("home-")
            await copy.nack()
        assert await receive(john, "stock", 3) == [b"0", b"1", b"2"]
        await until(lambda: both.away.depth("stock") == 3, 20)
        await purge(both)
        await until(lambda: both.away.depth("stock") == 0, 20)
        requests = both.away.node.broker.destinations.queues["/queue/RE_deleteCopy"]
        await until(lambda: requests.depth + requests.unsettled == 0, 20)


async def test_copies_of_messages_that_are_not_in_memory_are_deleted_as_well(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        turn = both.home.node.broker.turn
        turn.limits = replace(turn.limits, window=5)
        await mirrored(both)
        await asyncio.gather(*(john.send("/queue/stock", str(number)) for number in range(20)))
        await until(lambda: both.away.depth("stock") == 20)
        budget = both.home.node.engine._read_budget
        async with budget.hold(NODE_BYTES):
            await purge(both)
            await until(lambda: budget._waiting)  # those in memory need no turn to be read
            await until(lambda: both.away.depth("stock") < 20, 20)
            assert both.away.depth("stock") > 0
        await until(lambda: both.away.depth("stock") == 0, 20)


async def test_a_copy_that_arrives_behind_the_request_to_delete_it_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.reflex.shipped.copy_deletion.SEARCH_S", 0.1)
    monkeypatch.setattr("broker_app.reflex.local_services.FIRST_RETRY_S", 0.1)
    async with pair(tmp_path, paused_queues=frozenset({"stock"})) as both, both.home.stomp("john") as john:
        await mirrored(both)
        await john.send("/queue/stock", "1")
        assert await receive(john, "stock", 1) == [b"1"]
        queues = both.away.node.broker.destinations.queues
        await until(
            lambda: (
                "/queue/RE_deleteCopy" in queues and queues["/queue/RE_deleteCopy"].counters.delivered >= 2
            )
        )
        await both.change(paused_queues=frozenset())
        await until(lambda: "/queue/stock" in queues and queues["/queue/stock"].counters.acked == 1, 20)
        await until(lambda: queues["/queue/RE_deleteCopy"].unsettled == 0, 20)
        assert both.away.depth("stock") == 0
