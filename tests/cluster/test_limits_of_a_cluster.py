"""Limits of destinations in a cluster: each broker has its own, or all share one (CL-T04)."""

from __future__ import annotations

import asyncio
from functools import partial

import mom_client
from tests.cluster.conftest import BROKERS, Brokers
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

QUEUE = "/queue/orders"


async def limit(node: NodeProcess) -> dict[str, object]:
    """The limit of messages of the queue, as a broker shows it."""
    async with node.rest() as http:
        found = (await http.get("/queues/orders")).json()["limits"]["max_messages"]
    return {name: found[name] for name in ("limit", "scope", "brokers", "effective")}


MOST = 100


async def taken(client: mom_client.Client, number: int = 2 * MOST) -> int:
    """How many of so many messages a broker takes."""
    sends = (client.send(QUEUE, b"%d" % one) for one in range(number))
    ends = await asyncio.gather(*sends, return_exceptions=True)
    assert all(end is None or isinstance(end, mom_client.Refused) for end in ends), ends
    return ends.count(None)


def limited(nodes: Nodes, scope: str) -> Brokers:
    """Brokers that run, with a queue of 100 messages."""
    brokers = Brokers(nodes, BROKERS)
    rows = {QUEUE: {"max_messages": MOST, "limit_behavior": "REJECT_NEWEST", "scope": scope}}
    for node in brokers:
        node.destinations = rows
    brokers.start()
    return brokers


async def figures(node: NodeProcess) -> dict[str, float]:
    async with node.rest() as http:
        found = (await http.get("/queues/orders")).json()
        return {"depth": found["depth"], "fill": round(found["fill"], 2)}


async def test_each_broker_has_a_limit_and_refuses_what_is_persistent_beyond_it(nodes: Nodes) -> None:
    brokers = limited(nodes, "broker")
    shown = {"limit": MOST, "scope": "broker", "brokers": BROKERS, "effective": BROKERS * MOST}
    for node in brokers:
        await becomes(partial(limit, node), shown)
        async with node.stomp() as client:
            assert await taken(client) == MOST
            await client.send(QUEUE, b"one too many", persistent=False)
        assert (await figures(node))["depth"] == MOST


async def test_all_brokers_together_have_a_limit(nodes: Nodes) -> None:
    b1, b2, *_, last = brokers = limited(nodes, "cluster")
    shown = {"limit": MOST, "scope": "cluster", "brokers": BROKERS, "effective": MOST}
    for node in brokers:
        await becomes(partial(limit, node), shown)
    async with b1.stomp() as first, b2.stomp() as second, last.stomp() as third:
        assert await taken(first, 60) == 60
        await becomes(partial(figures, b2), {"depth": 0, "fill": 0.6})
        assert await taken(second) == 40
        await becomes(partial(figures, last), {"depth": 0, "fill": 1.0})
        assert await taken(third) == 0
