"""The settings of the lists of clients in the central file, which is read again while brokers run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mom_client
from tests.cluster.conftest import SECRET
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_lists_sent_to_clients import names_of, offered, warnings
from tests.cluster.test_messages_across_brokers import take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient
from tests.support.ports import reserve_ports

LISTS = "/topic/$mom.failover"


class Plant:
    """The brokers A1, NANCY and C3, linked, with one central file."""

    def __init__(self, file: Path, all_: dict[str, NodeProcess], ports: list[int]) -> None:
        self.all = all_
        self._file = file
        self._ports = ports
        self.write()

    def write(self, *lines: str) -> None:
        """Have the central file name the brokers, and have these lines."""
        listed = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._file.write_text(
            "\n".join((f"imq.cluster.brokerlist={listed}", "updateClusterClients=true", *lines))
        )

    async def save(self, *lines: str) -> Any:
        """Write the central file, and give the order to read it again."""
        self.write(*lines)
        async with self.all["A1"].rest() as http:
            return (await http.post("/cluster/reload", timeout=patient(60))).json()

    def named(self, uris: list[str]) -> list[str]:
        """The brokers of a list."""
        return names_of(self.all, uris)


@pytest.fixture(scope="module")
def plant(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("reloaded")
    file = folder / "cluster.properties"
    ports = reserve_ports(3)
    with nodes_in(folder) as nodes:
        made = {
            name: nodes.node(name, cluster_port=port, cluster_secret=SECRET, cluster_url=f"file:{file}")
            for name, port in zip(("A1", "NANCY", "C3"), ports, strict=True)
        }
        found = Plant(file, made, ports)
        for node in made.values():
            node.start()
        yield found


def connect(broker: NodeProcess, address: str) -> mom_client.Client:
    return mom_client.connect(address, login=broker.user, passcode=broker.password)


async def test_a_filter_is_saved_while_brokers_run_and_one_that_is_none_leaves_the_old_one_in_force(
    plant: Plant,
) -> None:
    """AF-T05; AF-A10 and AF-A11 of the specification."""
    a1 = plant.all["A1"]
    for node in plant.all.values():
        await becomes(partial(linked, node), 2)
    assert set(await offered(plant.all, "A1")) == {"A1", "NANCY", "C3"}
    async with a1.stomp() as client, client.subscribe(LISTS, ack="auto") as lists:
        done = await plant.save("updateClusterFilter=*A*,*B*")
        change = {"property": "update_cluster_filter", "running": "", "file": "*A*,*B*"}
        assert [(one["applied"], one["refused"]) for one in done["brokers"]] == [([change], [])] * 3
        (message,) = await take(lists, 1, ack=False)
        assert plant.named(json.loads(message.body)) == ["NANCY", "A1"]
        for glob in ("*A*", "*B*"):
            warning = f"update_cluster_filter: {glob} is no regular expression, and was taken for a wildcard"
            assert warning in await warnings(a1)
            assert warning in a1.log
        # The broker that it is at is not offered by the other one any more, and it stays there.
        c3 = plant.all["C3"]
        assert await offered(plant.all, "NANCY") == ["A1", "NANCY"]
        async with c3.stomp() as there:
            refused = await plant.save("updateClusterFilter=A.*, [A")
            assert refused["status"] == 409
            reason = "'[A' is no regular expression: unterminated character set at position 6"
            assert f"cluster.properties:3: {reason}" in refused["detail"]
            assert await offered(plant.all, "A1") == ["NANCY", "A1"]
            async with a1.stomp() as late:
                assert plant.named(late.server["mom-failover"].split(",")) == ["NANCY", "A1"]
            with pytest.raises(mom_client.Timeout):
                await lists.get(timeout_s=0)
            assert there.connected and there.address == f"stomp://{c3.host}:{c3.stomp_port}"
        await plant.save("updateClusterFilter=")
        (message,) = await take(lists, 1, ack=False)
        assert set(plant.named(json.loads(message.body))) == {"A1", "NANCY", "C3"}
        assert await warnings(a1) == ""
        assert client.connected


async def test_the_filter_of_one_listener_is_saved_while_brokers_run(plant: Plant) -> None:
    a1 = plant.all["A1"]
    web = f"ws://{a1.host}:{a1.port}/ws"
    for node in plant.all.values():
        await becomes(partial(linked, node), 2)
    await plant.save()
    async with (
        connect(a1, web) as browser,
        a1.stomp() as plain,
        browser.subscribe(LISTS, ack="auto") as to_browser,
        plain.subscribe(LISTS, ack="auto") as to_plain,
    ):
        await plant.save("transportConnector=ws?updateClusterFilter=*3*")
        (message,) = await take(to_browser, 1, ack=False)
        assert plant.named(json.loads(message.body)) == ["C3", "A1"]
        (message,) = await take(to_plain, 1, ack=False)
        assert set(plant.named(json.loads(message.body))) == {"A1", "NANCY", "C3"}
        assert "ws: update_cluster_filter: *3* is no regular expression" in await warnings(a1)
        refused = await plant.save("transportConnector=ws?updateClusterFilter=[A")
        assert (refused["status"], "position 1" in refused["detail"]) == (409, True)
        async with connect(a1, web) as late:
            assert plant.named(late.server["mom-failover"].split(",")) == ["C3", "A1"]
        alone = "updateClusterClients=false&updateClusterClientsOnRemove=true"
        await plant.save(f"transportConnector=ws?{alone}")
        assert "ws: update_cluster_clients_on_remove alone has no effect" in await warnings(a1)
        async with connect(a1, web) as late:
            assert "mom-failover" not in late.server
        await plant.save()
        (message,) = await take(to_browser, 1, ack=False)
        assert set(plant.named(json.loads(message.body))) == {"A1", "NANCY", "C3"}
