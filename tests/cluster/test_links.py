"""Links of two brokers: one connection is kept, which carries what consumers want and what has changed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.features.cluster import frames as f
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.link import Link
from broker_app.journal.memory import MemoryJournal
from tests.support.awaiting import until


class Noting(Cluster):
    """Notes the availability that other brokers send."""

    def __init__(self, engine: Engine, settings: ClusterSettings) -> None:
        super().__init__(engine, settings, lambda: self.clients_here)
        self.clients_here = 0
        self.noted: list[f.Availability] = []

    def availability(self, link: Link, frame: f.Availability) -> None:
        super().availability(link, frame)
        self.noted.append(frame)


@contextlib.asynccontextmanager
async def two_clusters() -> AsyncIterator[list[tuple[Engine, Noting]]]:
    """Two brokers that begin to dial each other in the same turn of the loop."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = ["{}:{}".format(*listener.getsockname()) for listener in listeners]
    brokers = []
    for at, address in enumerate(addresses):
        engine = Engine(Broker(), MemoryJournal())
        engine.recover()
        settings = ClusterSettings(
            name=f"b{at + 1}",
            version="test",
            address=address,
            brokers=tuple(other for other in addresses if other != address),
            secret="a secret of this test",
            most_bytes=1_000_000,
            must_be_equal={},
            uris=(),
            web="",
        )
        brokers.append((engine, Noting(engine, settings)))
    for (_, cluster), listener in zip(brokers, listeners, strict=True):
        await cluster.start(listener)
    try:
        yield brokers
    finally:
        for engine, cluster in brokers:
            await cluster.stop()
            await engine.stop()


async def test_of_two_connections_that_cross_one_is_kept_and_both_brokers_know_it() -> None:
    async with two_clusters() as ((engine, first), (_, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        consumer = Peer(InnerReceiver())
        engine.submit(c.Subscribe(consumer, "1", "/queue/orders", c.INDIVIDUAL, credit=10))
        await until(lambda: [one.broker for one in second.report().interest] == ["b1"])
        assert [link.state for one in (first, second) for link in one.report().links] == ["up", "up"]
        assert second.report(interest=False).interest == []


async def test_availability_is_sent_when_it_has_changed_and_addresses_when_they_have() -> None:
    async with two_clusters() as ((_, first), (_, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        first.each_second()
        await answered(first)
        second.noted.clear()
        for _ in range(3):
            first.each_second()
            await answered(first)
        assert not second.noted
        first.clients_here = 7
        first.each_second()
        await until(lambda: second.noted == [f.Availability(False, 7, [])])
        first.members.learn(["192.0.2.1:7676"])
        first.each_second()
        await until(lambda: len(second.noted) == 2)
        assert "192.0.2.1:7676" in second.noted[1].brokers


async def answered(cluster: Cluster) -> None:
    """Wait for the answer to the last heart-beat: all that was sent before it has arrived."""
    (link,) = cluster.members.links()
    link.round_trip_ms = None
    await until(lambda: link.round_trip_ms is not None)
