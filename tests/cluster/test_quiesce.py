"""A broker of a cluster that is quiesced: new clients go to the others, and messages cross all the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import mom_client
from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

QUEUE = "/queue/orders"


async def order(node: NodeProcess, verb: str) -> Any:
    async with node.rest() as http:
        reply = await http.post(f"/broker/{verb}", json={"name": node.name})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def quiesced(seen_by: NodeProcess) -> list[str]:
    """The other brokers that refuse new clients, as one sees them."""
    async with seen_by.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    return [link["broker"] for link in links if link["quiesced"]]


async def test_new_clients_of_a_quiesced_broker_are_sent_to_another(nodes: Nodes) -> None:
    """CL-T16."""
    brokers = Brokers(nodes, BROKERS)
    brokers.start()
    b1, *others = brokers
    for node in brokers:
        await becomes(partial(linked, node), BROKERS - 1)
    async with b1.stomp() as old:
        shown = await order(b1, "quiesce")
        there = {f"stomp://127.0.0.1:{node.stomp_port}" for node in others}
        assert (shown["state"], there - {*shown["other_addresses"]}) == ("QUIESCE_STARTED", set())
        for node in others:
            await becomes(partial(quiesced, node), ["b1"])
        url = f"failover:(stomp://127.0.0.1:{b1.stomp_port})?initialReconnectDelay=10"
        async with mom_client.connect(url, login=b1.user, passcode=b1.password) as client:
            await old.send(QUEUE, b"crosses")
            async with client.subscribe(QUEUE) as messages:
                assert bodies(await take(messages, 1)) == [b"crosses"]
            assert client.address in there
    for node in others:
        await order(node, "quiesce")
    none: list[str] = []
    await becomes(lambda: other_addresses(b1), none)
    await order(b1, "unquiesce")
    async with b1.stomp() as again:
        await again.send(QUEUE, b"here")


async def other_addresses(node: NodeProcess) -> list[str]:
    async with node.rest() as http:
        return list((await http.get("/broker")).json()["other_addresses"])
