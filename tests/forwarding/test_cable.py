"""Two machines, and a cable that is pulled out now and then: each message arrives once, in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.account import Account, check_counters, working
from tests.support.cable import Cable, cable
from tests.support.node_process import Nodes, nodes_in

PULLS = 5
FLOWS = 2


@pytest.fixture
def line() -> Iterator[Cable]:
    with cable() as made:
        yield made


@pytest.fixture
def far_nodes(line: Cable, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path, line.prefix) as made:
        yield made


async def test_each_message_arrives_once_and_in_order_whenever_the_cable_is_out(
    line: Cable, nodes: Nodes, far_nodes: Nodes
) -> None:
    random.seed(3)
    away = far_nodes.node("away", host=line.host, heartbeat_ms=500)
    away.start()
    home = nodes.node("home", heartbeat_ms=500)
    home.bridge_to(away, "away", stalled_s=1.0)
    home.start()
    accounts = [Account(f"/bridge/away/orders-{one}", padding=100) for one in range(FLOWS)]
    async with working(*(one.send_for_ever(home, pause_s=0.01) for one in accounts)):
        for _ in range(PULLS):
            await asyncio.sleep(random.uniform(0.2, 1.0))
            line.pull_out()
            await asyncio.sleep(random.choice((0.05, 0.5, 2.5)))  # with a break, and with none
            line.plug_in()
    for number, account in enumerate(accounts):
        await account.drain(away, f"orders-{number}")
        assert account.faults() == []
        assert len(account.promised) > 100
    await check_counters(home, "away")


async def test_a_message_arrives_soon_after_the_cable_is_plugged_in(
    line: Cable, nodes: Nodes, far_nodes: Nodes
) -> None:
    away = far_nodes.node("away", host=line.host, heartbeat_ms=500)
    away.start()
    home = nodes.node("home", heartbeat_ms=500)
    home.bridge_to(away, "away", stalled_s=1.0)
    home.start()
    account = Account("/bridge/away/orders")
    line.pull_out()
    async with home.stomp() as sender:
        await account.send(10, sender)
    await asyncio.sleep(1.0)  # it is tried in vain
    line.plug_in()
    await account.drain(away, "orders", quiet_s=0.1, timeout_s=5.0)
    assert account.faults() == []
