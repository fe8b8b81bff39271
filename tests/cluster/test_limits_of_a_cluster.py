"""Limits of destinations in a cluster: each broker has its own, or all share one (CL-T04)."""

from __future__ import annotations

import pytest

import mom_client
from tests.cluster.conftest import Brokers
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

QUEUE = "/queue/orders"


async def limit(node: NodeProcess) -> dict[str, object]:
    """The limit of messages of the queue, as a broker shows it."""
    async with node.rest() as http:
        found = (await http.get("/queues/orders")).json()["limits"]["max_messages"]
    return {name: found[name] for name in ("limit", "scope", "brokers", "effective")}


@pytest.mark.parametrize(("scope", "effective"), [("broker", 6), ("cluster", 3)])
async def test_a_limit_is_of_each_broker_or_of_all_together(nodes: Nodes, scope: str, effective: int) -> None:
    brokers = Brokers(nodes, 2)
    rows = {QUEUE: {"max_messages": 3, "limit_behavior": "REJECT_NEWEST", "scope": scope}}
    for node in brokers:
        node.destinations = rows
    brokers.start()
    b1, b2 = brokers
    shown = {"limit": 3, "scope": scope, "brokers": 2, "effective": effective}
    await becomes(lambda: limit(b2), shown)
    async with b1.stomp() as first, b2.stomp() as second:
        for _ in range(2):
            await first.send(QUEUE, b"1")

        async def sent() -> int:
            """How many messages the second broker takes besides."""
            taken = 0
            try:
                while taken < 10:
                    await second.send(QUEUE, b"2")
                    taken += 1
            except mom_client.Refused:
                return taken
            return taken

        if scope == "cluster":

            async def fill() -> float:
                async with b2.rest() as http:
                    found: float = (await http.get("/queues/orders")).json()["fill"]
                    return round(found, 2)

            await becomes(fill, 0.67)
        assert await sent() == (3 if scope == "broker" else 1)
