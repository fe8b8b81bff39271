"""The central file is read again at one broker, and all follow (imqcmd reload cls)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.config import Config
from broker_app.features.cluster.configuration.central_reload import compare
from tests.cluster.test_central_file import WebServer, web_server
from tests.cluster.test_failover_of_clients import linked
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient
from tests.support.ports import reserve_ports

SECRET = "a secret of the cluster in this test"


def test_values_that_can_be_replaced_are_and_others_are_named_with_both() -> None:
    running = replace(Config(), cluster=("b1:1",), max_attempts=5, port=8001, central={"max_attempts": 5})
    read = replace(
        running,
        cluster=("b1:1", "b2:2"),
        max_attempts=16,
        max_messages=9,
        port=8002,
        cluster_transport="tls",
        central={"cluster": ("b2:2",), "max_messages": 9, "cluster_transport": "tls"},
    )
    found = compare(running, read)
    shown = [(one.name, one.running, one.file) for one in found.applied]
    assert shown == [
        ("cluster", "b1:1", "b1:1,b2:2"),
        ("max_attempts", "5", "16"),
        ("max_messages", "0", "9"),
    ]
    (refused,) = found.refused
    assert (refused.name, refused.running, refused.file) == ("cluster_transport", "tcp", "tls")
    used = replace(running, **found.changes)
    assert (used.cluster, used.max_attempts, used.cluster_transport) == (("b1:1", "b2:2"), 16, "tcp")
    assert used.port == 8001, "what no central file has said stays"
    again = compare(used, read)
    assert (again.applied, [one.name for one in again.refused]) == ([], ["cluster_transport"])


@pytest.fixture
def central() -> Iterator[WebServer]:
    with web_server() as found:
        yield found


class Plant:
    """The brokers b1 and b2, which read one central file, and b3, which has one of its own."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self._file = folder / "cluster.properties"
        own = folder / "of_b3.properties"
        own.write_text("max_attempts=3\n")
        self._ports = reserve_ports(3)
        self.all = [
            nodes.node(f"b{at}", cluster_port=port, cluster_secret=SECRET, cluster_url=f"file:{file}")
            for at, port, file in zip((1, 2, 3), self._ports, (self._file, self._file, own), strict=True)
        ]

    def write(self, brokers: int, *lines: str) -> None:
        """Have the central file name so many brokers."""
        listed = ",".join(f"127.0.0.1:{port}" for port in self._ports[:brokers])
        self._file.write_text("\n".join((f"imq.cluster.brokerlist={listed}", *lines)) + "\n")


async def reloaded(node: NodeProcess) -> Any:
    async with node.rest() as http:
        reply = await http.post("/cluster/reload", timeout=patient(60))
    return reply.json()


async def accepts(node: NodeProcess) -> bool:
    """Return whether a broker takes one more message."""
    try:
        async with node.stomp() as client:
            await client.send("/queue/orders", b"one")
    except mom_client.Refused:
        return False
    return True


async def known(node: NodeProcess) -> list[str]:
    """The names of the other brokers, as a broker knows them."""
    async with node.rest() as http:
        return [link["broker"] for link in (await http.get("/cluster")).json()["links"]]


async def test_an_order_at_one_broker_reaches_all(nodes: Nodes, tmp_path: Path) -> None:
    plant = Plant(nodes, tmp_path)
    plant.write(2)
    b1, b2, b3 = plant.all
    for node in plant.all:
        node.start()
    await becomes(lambda: linked(b2), 1)
    assert await accepts(b2)

    plant.write(3, "max_messages=1", "full_wait=0.1")
    done = await reloaded(b1)
    assert [(one["broker"], len(one["applied"]), one["refused"]) for one in done["brokers"]] == [
        ("b1", 3, []), ("b2", 3, []),
    ]  # fmt: skip
    assert not await accepts(b2), "a limit is in force at the other broker, too"
    await becomes(lambda: linked(b1), 2)
    await becomes(lambda: linked(b3), 2)

    plant.write(2, "max_messages=9", "full_wait=0.1", "imq.message.max_size=1m")
    done = await reloaded(b2)
    difference = {"property": "max_body_bytes", "running": "67108864", "file": "1048576"}
    assert {one["broker"]: one["refused"] for one in done["brokers"]} == {
        "b1": [difference], "b2": [difference], "b3": [],
    }  # fmt: skip
    assert await accepts(b2)
    b3.terminate()
    await becomes(lambda: known(b1), ["b2"])

    plant.write(2, "max_mesages=9")
    told = await reloaded(b1)
    assert (told["status"], "did you mean max_messages?" in told["detail"]) == (409, True)
    assert await accepts(b1), "what a file that cannot be used has said is not used"


async def test_an_order_reads_a_file_over_http_again_and_an_error_of_the_server_changes_nothing(
    nodes: Nodes, central: WebServer
) -> None:
    central.body = "max_messages=1\nfull_wait=0.1\n"
    (port,) = reserve_ports(1)
    b1 = nodes.node("b1", cluster_port=port, cluster_secret=SECRET, cluster_url=central.url)
    b1.start()
    assert [await accepts(b1), await accepts(b1)] == [True, False]

    central.body = "max_messages=2\nfull_wait=0.1\n"
    (done,) = (await reloaded(b1))["brokers"]
    assert done["applied"] == [{"property": "max_messages", "running": "1", "file": "2"}]
    assert [await accepts(b1), await accepts(b1)] == [True, False]

    central.status = 503
    told = await reloaded(b1)
    assert (told["status"], "the server answers 503" in told["detail"]) == (409, True)
    central.status, central.body = 200, "max_messages=3\n" + "#" * 60_000
    told = await reloaded(b1)
    assert (told["status"], "is longer than 60,000 bytes" in told["detail"]) == (409, True)
    assert not await accepts(b1)
