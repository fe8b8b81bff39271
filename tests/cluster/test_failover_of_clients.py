"""Clients of a cluster know where they may go, go there when their broker dies, and fill a new one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import mom_client
from tests.cluster.conftest import Brokers
from tests.cluster.test_messages_across_brokers import take
from tests.support.account import Account, grown, working
from tests.support.awaiting import becomes, until
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient

QUEUE = "/queue/orders"


async def linked(node: NodeProcess) -> int:
    """The number of brokers that a broker is linked to."""
    async with node.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    return sum(link["state"] == "up" for link in links)


async def test_a_client_that_knows_one_broker_goes_to_another_when_that_dies_unless_it_takes_no_lists(
    nodes: Nodes,
) -> None:
    """AF-T09: the other client tries the broker that it was given, and none else."""
    brokers = Brokers(nodes, 2, update_cluster_clients=True)
    b1, b2 = brokers
    b1.start()
    first, second = (f"stomp://127.0.0.1:{node.stomp_port}" for node in brokers)
    tried: list[str] = []

    def note(event: mom_client.ConnectionEvent) -> None:
        tried.append(event.address)

    def connect(options: str, listener: Callable[[mom_client.ConnectionEvent], None]) -> mom_client.Client:
        url = f"failover:({first})?{options}"
        return mom_client.connect(url, login=b1.user, passcode=b1.password, listener=listener)

    async with (
        connect("initialReconnectDelay=10", lambda _: None) as client,
        connect("updateURIsSupported=false&maxReconnectDelay=50", note) as deaf,
        deaf.subscribe("/topic/$mom.failover", ack="auto") as lists,
    ):
        b2.start()  # the list with it comes over the topic
        await becomes(lambda: linked(b1), 1)
        assert second.encode() in (await take(lists, 1, ack=False))[0].body
        async with b1.rest() as http:
            listed = (await http.get("/failover-list")).json()["uris"]
        assert [uri for uri in listed if uri.startswith("stomp:")] == [second, first]
        await client.send(QUEUE, b"1")
        b1.kill()
        await client.send(QUEUE, b"2")
        assert client.address == second
        await until(lambda: len(tried) > 5)
        assert not deaf.connected
        b1.start()
        await deaf.send(QUEUE, b"3")
        assert (deaf.address, set(tried)) == (first, {first})
        async with client.subscribe(QUEUE) as messages:
            assert {message.body for message in await take(messages, 3)} == {b"1", b"2", b"3"}


async def test_a_client_that_is_given_one_broker_is_at_the_other_within_five_seconds_and_loses_nothing(
    nodes: Nodes,
) -> None:
    """AF-T01 of the specification, with the defaults of all options."""
    brokers = Brokers(nodes, 2, update_cluster_clients=True)
    brokers.start()
    b1, b2 = brokers
    for node in brokers:
        await becomes(partial(linked, node), 1)
    first, second = (f"stomp://127.0.0.1:{node.stomp_port}" for node in brokers)
    reconnected: list[tuple[str, float]] = []

    def note(event: mom_client.ConnectionEvent) -> None:
        if event.kind == "reconnected":
            reconnected.append((event.address, time.monotonic()))

    account = Account(QUEUE)
    async with mom_client.connect(
        f"failover:({first})", login=b1.user, passcode=b1.password, listener=note
    ) as client:
        assert {uri for uri in client.server["mom-failover"].split(",") if uri.startswith("stomp:")} == {
            first,
            second,
        }
        async with working(account.send(10_000, client, window=20)):
            await grown([account], 100)
            killed = time.monotonic()
            b1.kill()
            await grown([account], 100)
        ((address, at),) = reconnected
        assert (address, at - killed < patient(5)) == (second, True)
    b1.start()
    await becomes(partial(linked, b1), 1)
    await account.drain(b2, QUEUE.removeprefix("/queue/"))
    assert account.promised <= set(account.arrived)


async def test_a_broker_that_joins_is_filled_by_the_others(nodes: Nodes) -> None:
    brokers = Brokers(nodes, 3, update_cluster_clients=True, rebalance_cluster_clients=True)
    b1, b2, b3 = brokers
    b1.start()
    b2.start()
    await becomes(lambda: linked(b1), 1)
    connected: dict[int, int] = {}
    async with AsyncExitStack() as stack:
        clients = []
        for at in range(30):
            node = (b1, b2)[at % 2]
            url = f"failover:(stomp://127.0.0.1:{node.stomp_port})"

            def note(event: mom_client.ConnectionEvent, at: int = at) -> None:
                if event.kind == "reconnected":
                    connected[at] = connected.get(at, 0) + 1

            client = mom_client.connect(url, login=node.user, passcode=node.password, listener=note)
            clients.append(await stack.enter_async_context(client))
        b3.start()
        names = {f"stomp://127.0.0.1:{node.stomp_port}": node.name for node in brokers}

        async def spread() -> bool:
            where = [names[client.address] for client in clients]
            return all(8 <= where.count(name) <= 12 for name in ("b1", "b2", "b3"))

        await becomes(spread, True, 30)
        assert set(connected.values()) == {1}, "nobody moves twice"
