"""Two brokers that connect to each other at the same moment."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_app.core.broker import Broker
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from tests.support.awaiting import becomes
from tests.support.memory_journal import MemoryJournal


@asynccontextmanager
async def a_pair() -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Two brokers in one loop: each dials before it is dialled."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in listeners]
    engines = [Engine(Broker(), MemoryJournal()) for _ in addresses]
    pair = []
    for at, engine in enumerate(engines):
        engine.recover()
        settings = ClusterSettings(
            name=f"b{at + 1}",
            version="0",
            address=addresses[at],
            brokers=tuple(addresses),
            secret="a secret of this test",
            most_bytes=1 << 20,
            must_be_equal={},
            uris=(),
            web="",
        )
        pair.append(Cluster(engine, settings, lambda: 0))
    for cluster, listener in zip(pair, listeners, strict=True):
        await cluster.start(listener)
    try:
        yield pair[0], pair[1]
    finally:
        for cluster in pair:
            await cluster.stop()
        for engine in engines:
            await engine.stop()


async def test_of_two_connections_that_cross_one_is_kept_and_both_brokers_know_it() -> None:
    async with a_pair() as pair:

        async def links() -> list[list[tuple[str, str]]]:
            return [[(link.broker, link.state) for link in one.report().links] for one in pair]

        await becomes(links, [[("b2", "up")], [("b1", "up")]], 5)
