"""Links that another broker refuses, and links of the same brokers afterwards."""

from __future__ import annotations

import asyncio

from broker_app.features.cluster.links import frames as f
from tests.cluster.conftest import Brokers
from tests.support.awaiting import becomes, until
from tests.support.node_process import Nodes


async def test_a_broker_that_refused_one_of_two_connections_is_linked_over_the_other(nodes: Nodes) -> None:
    """Both dial at once, and the refusal comes before the connection that is kept."""
    brokers = Brokers(nodes, 2)
    b1, b2 = brokers
    refused: list[asyncio.StreamWriter] = []

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f.encode(f.Refuse("duplicate", "another connection between these brokers is kept")))
        writer.close()
        await writer.wait_closed()
        refused.append(writer)

    async with await asyncio.start_server(refuse, "127.0.0.1", brokers.ports[1]):
        await asyncio.to_thread(b1.start)
        await until(lambda: refused)
    await asyncio.to_thread(b2.start)

    async def links() -> list[tuple[str, str]]:
        async with b1.rest() as http:
            found = (await http.get("/cluster/links")).json()["items"]
        return [(row["broker"], row["state"]) for row in found]

    await becomes(links, [("b2", "up")], 5)
