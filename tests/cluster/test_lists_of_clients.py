"""Lists of brokers that clients are sent, by the settings of their broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import mom_client
from tests.cluster.conftest import SECRET
from tests.cluster.test_failover_of_clients import linked
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient
from tests.support.ports import reserve_ports

LISTS = "/topic/$mom.failover"
#: seconds in which clients are sent a changed list when a broker has ended, whose connections end with it
SOON_S = 2.0


@pytest.fixture(scope="module")
def brokers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NodeProcess]]:
    """A1 follows brokers that join and leave, and offers some of them; B7 follows those that join; C3 only
    rebalances. The cluster is written as ActiveMQ's users write it."""
    settings: dict[str, dict[str, Any]] = {
        "A1": {
            "update_cluster_clients": True,
            "update_cluster_clients_on_remove": True,
            "update_cluster_filter": "A.*,B.*",
        },
        "B7": {"update_cluster_clients": True},
        "C3": {"rebalance_cluster_clients": True},
    }
    ports = reserve_ports(3)
    connector = f"static:({','.join(f'tcp://127.0.0.1:{port}' for port in ports)})"
    with nodes_in(tmp_path_factory.mktemp("lists")) as nodes:
        made = {}
        for (name, own), port in zip(settings.items(), ports, strict=True):
            common: dict[str, Any] = {
                "cluster_port": port,
                "network_connector": connector,
                "cluster_secret": SECRET,
            }
            made[name] = nodes.node(name, None, **common, **own)
            made[name].start()
        yield made


async def offered(broker: NodeProcess) -> list[str]:
    """The names of the brokers that a client which connects now is sent, by their STOMP ports."""
    async with broker.stomp() as client:
        uris = client.server.get("mom-failover", "").split(",")
    return [uri.rpartition(":")[2] for uri in uris if uri.startswith("stomp:")]


def ports(*brokers: NodeProcess) -> list[str]:
    return [str(broker.stomp_port) for broker in brokers]


async def test_brokers_that_the_filter_matches_are_offered_and_the_own_one_last(
    brokers: dict[str, NodeProcess],
) -> None:
    a1, b7, c3 = brokers.values()
    for broker in (a1, b7, c3):
        await becomes(partial(linked, broker), 2)
    assert await offered(a1) == ports(b7, a1)
    async with a1.rest() as http:
        places = (await http.get("/cluster/lists")).json()["brokers"]
    assert {one["broker"]: one["state"] for one in places} == {"B7": "listed", "C3": "filtered"}
    found = await offered(b7)
    assert (set(found), found[-1]) == (set(ports(a1, b7, c3)), str(b7.stomp_port))


async def test_rebalancing_alone_sends_no_list_and_says_so(brokers: dict[str, NodeProcess]) -> None:
    c3 = brokers["C3"]
    assert await offered(c3) == []
    assert "rebalance_cluster_clients alone has no effect: set update_cluster_clients as well" in c3.log
    a1, b7, _ = brokers.values()
    b7.kill()
    await becomes(partial(linked, a1), 1)
    async with (
        c3.stomp() as client, client.subscribe(LISTS, ack="auto") as lists,
        a1.stomp() as other, other.subscribe(LISTS, ack="auto") as others,
    ):  # fmt: skip
        b7.start()
        # The broker that sends lists does so in time; this one sends none when its link is up, too.
        await becomes(partial(linked, c3), 2)
        message = await others.get(timeout_s=patient(SOON_S))
        assert len([uri for uri in json.loads(message.body) if uri.startswith("stomp:")]) == 2
        with pytest.raises(mom_client.Timeout):
            await lists.get(timeout_s=0)
        async with c3.rest() as http:
            (warning,) = (await http.get("/cluster/lists")).json()["warnings"]
    assert warning.startswith("rebalance_cluster_clients alone has no effect")


async def test_a_broker_that_left_is_taken_off_the_list_only_where_that_is_wanted(
    brokers: dict[str, NodeProcess],
) -> None:
    a1, b7, _ = brokers.values()
    for broker in (a1, b7):
        await becomes(partial(linked, broker), 2)
    before = await offered(b7)
    async with a1.stomp() as client, client.subscribe(LISTS, ack="auto") as lists:
        b7.kill()
        message = await lists.get(timeout_s=patient(SOON_S))
        uris = json.loads(message.body)
        assert [uri for uri in uris if uri.startswith("stomp:")] == [f"stomp://127.0.0.1:{a1.stomp_port}"]
    b7.start()
    await becomes(lambda: linked(b7), 2)
    async with b7.stomp() as client, client.subscribe(LISTS, ack="auto") as lists:
        a1.kill()
        await becomes(lambda: linked(b7), 1)
        assert set(await offered(b7)) == set(before)
        with pytest.raises(mom_client.Timeout):
            await lists.get(timeout_s=0)
    await asyncio.to_thread(a1.start)
