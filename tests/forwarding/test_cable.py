"""Two machines, and a cable that is pulled out now and then: each message arrives once, in order."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.account import PAUSE_S, Account, check_counters, grown, working
from tests.support.cable import Cable, cable
from tests.support.node_process import NodeProcess, Nodes, nodes_in

PULLS = 5 if "SOAK" in os.environ else 3
FLOWS = 2
#: how soon after the cable a bridge is back
BACK_S = 3.0


@pytest.fixture
def line(processes: None) -> Iterator[Cable]:
    with cable() as made:
        yield made


@pytest.fixture
def nodes(processes: None, line: Cable, tmp_path: Path) -> Iterator[Nodes]:
    """Nodes at the near end."""
    with nodes_in(tmp_path) as made:
        yield made


@pytest.fixture
def far_nodes(processes: None, line: Cable, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path, line.far) as made:
        yield made


@pytest.fixture
def away(line: Cable, far_nodes: Nodes) -> NodeProcess:
    node = far_nodes.node("away", host=line.host, heartbeat_ms=500)
    node.start()
    return node


@pytest.fixture
def home(nodes: Nodes, away: NodeProcess) -> NodeProcess:
    node = nodes.node("home", heartbeat_ms=500)
    node.bridge_to(away, "away", stalled_s=1.0)
    node.start()
    return node


def test_nothing_leaves_the_cable_for_another_network(line: Cable) -> None:
    with pytest.raises(OSError, match="Network is unreachable"):
        socket.create_connection(("192.0.2.1", 9), timeout=5)
    routes = Path("/proc/thread-self/net/route").read_text().splitlines()[1:]
    assert [route.split()[0] for route in routes] == ["cable"]


@pytest.mark.slow
async def test_each_message_arrives_once_and_in_order_whenever_the_cable_is_out(
    line: Cable, home: NodeProcess, away: NodeProcess
) -> None:
    accounts = [Account(f"/bridge/away/orders-{one}", padding=100) for one in range(FLOWS)]
    async with working(*(one.send_for_ever(home, pause_s=PAUSE_S) for one in accounts)):
        for _ in range(PULLS):
            await grown(accounts, 60)
            await asyncio.sleep(random.uniform(0.2, 1.0))
            line.pull_out()
            await asyncio.sleep(random.choice((0.05, 0.5, 2.5)))  # with a break, and with none
            line.plug_in()
    for number, account in enumerate(accounts):
        await account.drain(away, f"orders-{number}")
        assert account.faults() == []
    await check_counters(home, "away")


@pytest.mark.parametrize("out_s", [1.0, 6.0])
async def test_a_bridge_is_back_soon_after_the_cable_is_plugged_in(
    line: Cable, home: NodeProcess, away: NodeProcess, out_s: float
) -> None:
    account = Account("/bridge/away/orders")
    line.pull_out()
    async with home.stomp() as sender:
        await account.send(10, sender)
    await asyncio.sleep(out_s)  # it is tried in vain
    assert await accepted(home) == 0
    line.plug_in()
    plugged_in = time.monotonic()
    while await accepted(home) < 10:
        assert time.monotonic() < plugged_in + BACK_S
        await asyncio.sleep(0.02)
    await account.drain(away, "orders", quiet_s=0.1)
    assert account.faults() == []


async def accepted(home: NodeProcess) -> int:
    """The number of messages that the remote broker has accepted from the bridge."""
    async with home.rest() as rest:
        return int((await rest.get("/bridges/away/status")).raise_for_status().json()["accepted"])
