"""Addresses of brokers that only others have named: they cost no broker its place, and end."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from broker_app.core.broker import Broker
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links import members
from tests.cluster.conftest import SECRET
from tests.cluster.stranger import stranger
from tests.support.awaiting import until
from tests.support.memory_journal import MemoryJournal


@contextlib.asynccontextmanager
async def cluster_of(*brokers: str) -> AsyncIterator[tuple[Cluster, int]]:
    """Broker b1, which knows others at these addresses; and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    engine = Engine(Broker(), MemoryJournal())
    engine.recover()
    cluster = Cluster(
        engine,
        ClusterSettings(
            name="b1",
            version="test",
            address=f"127.0.0.1:{port}",
            brokers=brokers,
            secret=SECRET,
            most_bytes=1_000_000,
            must_be_equal={},
            uris=(),
            web="",
        ),
        lambda: 0,
    )
    await cluster.start(listener)
    try:
        yield cluster, port
    finally:
        await cluster.stop()
        await engine.stop()


@pytest.fixture
def nowhere() -> list[str]:
    """The addresses of as many brokers as a cluster may have, where none is."""
    return [f"127.0.0.9:{port}" for port in range(1, f.MOST_BROKERS + 1)]


def known(cluster: Cluster) -> set[str]:
    return {member.address for member in cluster.members.all()}


async def test_a_broker_that_connects_has_a_place_though_others_have_named_as_many_as_there_may_be(
    nowhere: list[str],
) -> None:
    async with cluster_of("127.0.0.8:1") as (cluster, port), stranger(port) as hostile, stranger(port) as b2:
        await hostile.log_in({}, "b9")
        hostile.say(f.Availability(False, 0, nowhere))
        await until(lambda: len(known(cluster)) == f.MOST_BROKERS)
        await b2.log_in({}, "b2")
        await until(lambda: cluster.members.link_to("b2") is not None)
        cluster.members.learn(["127.0.0.8:2"], "registry")
        assert {"127.0.0.8:1", "127.0.0.8:2", "b2.example:1", "b9.example:1"} < known(cluster)
        assert len(known(cluster)) == f.MOST_BROKERS
        assert not set(cluster.identity().brokers) & set(nowhere), "it passes on what it knows itself"


async def test_a_broker_that_others_have_named_and_that_is_not_there_is_forgotten(
    nowhere: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "RETRY_S", 0.01)
    async with cluster_of("127.0.0.8:1") as (cluster, port), stranger(port) as hostile:
        await hostile.log_in({}, "b9", brokers=nowhere[:5])
        await until(lambda: known(cluster) > set(nowhere[:5]))
        await until(lambda: known(cluster) == {"127.0.0.8:1", "b9.example:1"})


async def test_brokers_that_were_linked_once_give_way_after_those_that_never_were(nowhere: list[str]) -> None:
    async with cluster_of() as (cluster, port):
        cluster.members.learn([f"127.0.0.8:{port}" for port in range(1, f.MOST_BROKERS - 1)], "broker")
        for name in ("b8", "b9"):
            async with stranger(port) as one:
                await one.log_in({}, name)
                await until(lambda name=name: cluster.members.link_to(name) is not None)  # type: ignore[misc]
            await until(lambda: not cluster.members.links())
        once = {"b8.example:1", "b9.example:1"}
        assert len(known(cluster)) == f.MOST_BROKERS
        cluster.members.learn(nowhere[2:], "registry")
        assert known(cluster) == {*nowhere[2:], *once}
        cluster.members.learn(nowhere, "registry")
        assert known(cluster) == set(nowhere)
        async with stranger(port) as late:
            await late.log_in({}, "b7")
            refusal = await late.end()
            assert refusal is not None
            assert refusal.detail == "the cluster has 200 brokers, the maximum"
