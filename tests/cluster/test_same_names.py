"""Brokers of one name, and brokers at one address: the one that is linked stays (CL-T14)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.links import members
from broker_app.features.cluster.links.link import Link
from tests.cluster.conftest import SECRET
from tests.cluster.stranger import stranger
from tests.support.awaiting import until
from tests.support.memory_journal import MemoryJournal

TAKEN = "imq.brokerid: two brokers have the name 'b1', at {} and {}"


class Noting(Cluster):
    """Notes how links end, and which brokers are linked."""

    def __init__(self, engine: Engine, settings: ClusterSettings) -> None:
        super().__init__(engine, settings, lambda: 0)
        self.engine = engine
        self.ends: list[str] = []
        self.ups: list[str] = []
        self.listeners.add(lambda event, name, _: self.ups.append(name) if event == "up" else None)

    def ended(self, link: Link, reason: Refused) -> None:
        super().ended(link, reason)
        self.ends.append(reason.code)

    def address_of(self, name: str) -> str:
        """The address of the broker of this name that is linked."""
        link = self.members.link_to(name)
        return link.broker.address if link is not None and link.broker is not None else ""


@contextlib.asynccontextmanager
async def brokers(*names: str) -> AsyncIterator[list[tuple[Noting, socket.socket]]]:
    """Brokers of which the first knows the addresses of the others, none started, each with its listener."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    addresses = ["{}:{}".format(*listener.getsockname()) for listener in listeners]
    made: list[tuple[Noting, socket.socket]] = []
    for name, address, listener in zip(names, addresses, listeners, strict=True):
        engine = Engine(Broker(), MemoryJournal())
        engine.recover()
        settings = ClusterSettings(
            name=name,
            version="test",
            address=address,
            brokers=tuple(addresses[1:]) if not made else (),
            secret=SECRET,
            most_bytes=1_000_000,
            must_be_equal={},
            uris=(),
            web="",
        )
        made.append((Noting(engine, settings), listener))
    try:
        yield made
    finally:
        for cluster, listener in made:
            await cluster.stop()
            await cluster.engine.stop()
            listener.close()


async def test_of_two_brokers_with_one_name_a_third_one_stays_linked_to_the_first_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "RETRY_REFUSED_S", 0.05)
    async with brokers("b2", "b1", "b1") as ((third, at), (first, first_at), (second, second_at)):
        await third.start(at)
        await first.start(first_at)
        await until(lambda: third.ups == ["b1"])
        link = third.members.link_to("b1")
        await second.start(second_at)
        await until(lambda: third.ends.count("cluster-mismatch") > 10)
        assert third.ups == ["b1"]
        assert third.members.link_to("b1") is link
        assert link is not None and link.is_up
        reason = TAKEN.format(first.settings.address, second.settings.address)
        assert states(third) == {first.settings.address: "up", second.settings.address: "refused"}
        assert reasons(third)[second.settings.address].startswith(reason)
        await until(lambda: reasons(second)[third.settings.address].startswith(reason))
        await first.stop()
        await until(lambda: third.address_of("b1") == second.settings.address)
        assert states(third)[second.settings.address] == "up"


def states(cluster: Cluster) -> dict[str, str]:
    """The state of the link to each address."""
    return {one.address: one.state for one in cluster.report().links}


def reasons(cluster: Cluster) -> dict[str, str]:
    """The reason why there is no link to each address."""
    return {one.address: one.reason for one in cluster.report().links}


async def test_of_two_brokers_at_one_address_the_first_stays_linked() -> None:
    async with brokers("b1") as ((cluster, listener),):
        await cluster.start(listener)
        port = int(cluster.settings.address.rpartition(":")[2])
        async with stranger(port) as first, stranger(port) as second:
            await first.log_in({}, "b2", address="b2.example:1")
            await until(lambda: cluster.ups == ["b2"])
            await second.log_in({}, "b3", address="b2.example:1")
            refusal = await second.end()
            assert refusal is not None
            assert refusal.detail.startswith(
                "imq.cluster.hostname (cluster_host): two brokers, 'b2' and 'b3', have the address b2.example"
            )
            assert cluster.address_of("b2") == "b2.example:1"
        await until(lambda: not cluster.members.links())
        async with stranger(port) as restarted:
            await restarted.log_in({}, "b3", address="b2.example:1")
            await until(lambda: cluster.ups == ["b2", "b3"])
