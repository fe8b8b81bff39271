"""Queues of first use: local until they have a consumer, and deleted when no broker uses them (CL-T03)."""

from __future__ import annotations

import asyncio

import mom_client
from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

REAP_S = 2.0
QUEUE, OTHER = "/queue/first-use", "/queue/other"


async def propagation(node: NodeProcess, queue: str = QUEUE) -> str | None:
    """How a broker knows a queue; None if it does not list it."""
    async with node.rest() as http:
        rows = (await http.get("/queues")).json()["items"]
    return next((row["propagation"] for row in rows if f"/queue/{row['name']}" == queue), None)


async def is_listed(brokers: Brokers, queue: str) -> list[bool]:
    return [await propagation(node, queue) is not None for node in brokers]


async def visit(client: mom_client.Client, queue: str) -> None:
    """Subscribe to a queue, and leave it."""
    async with client.subscribe(queue):
        pass


async def test_a_queue_of_first_use_is_known_with_its_consumers_and_goes_when_all_brokers_are_done_with_it(
    nodes: Nodes,
) -> None:
    brokers = Brokers(nodes, BROKERS, queue_reap=REAP_S)
    brokers.start()
    b1, b2, *_ = brokers
    for node in brokers:
        await becomes(lambda node=node: linked(node), BROKERS - 1)  # type: ignore[misc]
    async with b1.stomp() as producer, b2.stomp() as consumer:
        await producer.send(QUEUE, b"stored at b1")
        assert await propagation(b1) == "local"
        # What b1 told the others after that has arrived, and QUEUE was not in it.
        async with producer.subscribe(OTHER):
            for node in brokers.all[1:]:
                await becomes(lambda node=node: has(node, OTHER), True)  # type: ignore[misc]
                assert await propagation(node) is None

        async with consumer.subscribe(QUEUE) as messages:
            await becomes(lambda: is_listed(brokers, QUEUE), [True] * BROKERS)
            await take(messages, 1, ack=False)
        # Nothing but the message at b1 keeps it from now on: another queue that is left later goes.
        await visit(consumer, OTHER)
        await becomes(lambda: is_listed(brokers, OTHER), [False] * BROKERS, 60)
        assert await is_listed(brokers, QUEUE) == [True] * BROKERS

        async with producer.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, 1)) == [b"stored at b1"]
            left = asyncio.get_running_loop().time()
        await becomes(lambda: is_listed(brokers, QUEUE), [False] * BROKERS, 60)
        assert asyncio.get_running_loop().time() - left >= REAP_S


async def has(node: NodeProcess, queue: str) -> bool:
    return await propagation(node, queue) is not None
