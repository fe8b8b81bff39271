"""Lists that three brokers send to their clients, each by its own settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import mom_client
from tests.cluster.conftest import SECRET
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.ports import reserve_ports

#: by broker: what it sends to its clients
SETTINGS: dict[str, dict[str, Any]] = {
    "A1": {
        "update_cluster_clients": True,
        "update_cluster_clients_on_remove": True,
        "update_cluster_filter": "A.*,B.*",
    },
    "B7": {
        "update_cluster_clients": True,
        "update_cluster_filter": "*A*",
        "transport_connector": "ws?updateClusterFilter=C.*&updateClusterClientsOnRemove=true",
    },
    "C3": {"rebalance_cluster_clients": True},
}


@pytest.fixture(scope="module")
def brokers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NodeProcess]]:
    with nodes_in(tmp_path_factory.mktemp("lists")) as nodes:
        ports = reserve_ports(len(SETTINGS))
        cluster = tuple(f"127.0.0.1:{port}" for port in ports)
        made = {
            name: nodes.node(name, cluster_port=port, cluster=cluster, cluster_secret=SECRET, **settings)
            for port, (name, settings) in zip(ports, SETTINGS.items(), strict=True)
        }
        for node in made.values():
            node.start()
        yield made


def names_of(brokers: dict[str, NodeProcess], uris: list[str]) -> list[str]:
    """The brokers of a list, by their addresses for STOMP."""
    names = {f"stomp://127.0.0.1:{node.stomp_port}": name for name, node in brokers.items()}
    return [names[uri] for uri in uris if uri in names]


async def offered(brokers: dict[str, NodeProcess], name: str) -> list[str]:
    """The brokers that the clients of one are offered."""
    async with brokers[name].rest() as http:
        return names_of(brokers, (await http.get("/cluster/lists")).json()["versions"][0]["uris"])


async def warnings(node: NodeProcess) -> str:
    async with node.rest() as http:
        return " ".join((await http.get("/cluster/lists")).json()["warnings"])


async def test_clients_are_offered_brokers_whose_names_match_and_warned_of_what_is_odd(
    brokers: dict[str, NodeProcess],
) -> None:
    for node in brokers.values():
        await becomes(partial(linked, node), 2)
    await becomes(lambda: offered(brokers, "A1"), ["B7", "A1"])
    await becomes(lambda: offered(brokers, "B7"), ["A1", "B7"])
    async with brokers["A1"].rest() as http:
        report = (await http.get("/cluster/lists")).json()
    listed, own = report["versions"][0]["uris"], report["own"]
    assert (names_of(brokers, own), listed[-len(own) :]) == (["A1"], own), "it is marked"
    assert await warnings(brokers["A1"]) == ""
    assert "*A* is no regular expression, and was taken for a wildcard" in await warnings(brokers["B7"])
    assert "rebalance_cluster_clients alone has no effect" in await warnings(brokers["C3"])
    async with brokers["C3"].stomp(), brokers["C3"].rest() as http:
        (client,) = (await http.get("/cluster/clients")).json()["items"]
        assert client["list_version"] == 0, "its clients are sent no list"
        refused = await http.post("/cluster/rebalance", json={})
        assert (refused.status_code, "set update_cluster_clients" in refused.json()["detail"]) == (409, True)


async def test_a_broker_that_leaves_is_removed_only_where_that_is_wanted(
    brokers: dict[str, NodeProcess],
) -> None:
    a1, b7 = brokers["A1"], brokers["B7"]
    await becomes(lambda: offered(brokers, "A1"), ["B7", "A1"])
    await becomes(lambda: offered(brokers, "B7"), ["A1", "B7"])
    a1.kill()
    await becomes(lambda: linked(b7), 1)
    assert await offered(brokers, "B7") == ["A1", "B7"], "it is not wanted there"
    a1.start()
    await becomes(lambda: offered(brokers, "A1"), ["B7", "A1"])
    async with a1.stomp() as client, client.subscribe("/topic/$mom.failover", ack="auto") as messages:
        b7.kill()
        (message,) = await take(messages, 1, ack=False)
        assert names_of(brokers, json.loads(message.body)) == ["A1"]
    async with a1.stomp() as late:
        b7.start()
        await becomes(lambda: offered(brokers, "A1"), ["B7", "A1"])
        # It has logged in before the list has changed, and listens only now.
        async with late.subscribe("/topic/$mom.failover", ack="auto") as messages:
            (message,) = await take(messages, 1, ack=False)
            assert names_of(brokers, json.loads(message.body)) == ["B7", "A1"]


async def test_clients_of_two_listeners_are_sent_the_lists_of_theirs(brokers: dict[str, NodeProcess]) -> None:
    b7, c3 = brokers["B7"], brokers["C3"]
    await becomes(lambda: linked(b7), 2)

    def connect(address: str) -> mom_client.Client:
        return mom_client.connect(address, login=b7.user, passcode=b7.password)

    async with b7.stomp() as plain, connect(f"ws://{b7.host}:{b7.port}/ws") as websocket:
        assert names_of(brokers, plain.server["mom-failover"].split(",")) == ["A1", "B7"]
        assert names_of(brokers, websocket.server["mom-failover"].split(",")) == ["C3", "B7"]
        topic = "/topic/$mom.failover"
        async with (
            plain.subscribe(topic, ack="auto") as to_plain,
            websocket.subscribe(topic, ack="auto") as to_ws,
        ):
            c3.kill()
            (message,) = await take(to_ws, 1, ack=False)
            assert names_of(brokers, json.loads(message.body)) == ["B7"]
            with pytest.raises(mom_client.Timeout):
                await to_plain.get(timeout_s=0)
        async with b7.rest() as http:
            report = (await http.get("/cluster/lists")).json()
            clients = (await http.get("/cluster/clients")).json()["items"]
        assert [(one["listener"], one["filter"]) for one in report["listeners"]] == [("ws", "C.*")]
        assert names_of(brokers, report["listeners"][0]["uris"]) == ["B7"]
        assert report["behind"] == 0 and len(clients) == 2
    c3.start()
