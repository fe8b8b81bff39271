"""Sender and receiver under load, killed again and again: each message arrives once, in order."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.support.account import PAUSE_S, Account, check_counters, client, grown, working
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient

KILLS = int(os.environ.get("KILLS", "6"))
FLOWS = 3


async def kill_and_restart(victims: list[NodeProcess], down_s: float) -> None:
    for victim in victims:
        victim.kill()
    await asyncio.sleep(down_s)
    for victim in victims:
        victim.start()


@pytest.mark.slow
@pytest.mark.timeout(patient(60 + 6 * KILLS))
async def test_each_message_arrives_once_and_in_order_when_either_broker_is_killed(nodes: Nodes) -> None:
    away = nodes.node("away")
    away.start()
    home = nodes.node("home")
    home.bridge_to(away, "away")
    home.start()
    accounts = [
        Account(f"/bridge/away/orders-{one}", padding=random.choice((10, 500))) for one in range(FLOWS)
    ]
    kills = 0
    async with working(*(one.send_for_ever(home, pause_s=PAUSE_S) for one in accounts)):
        while kills < KILLS:
            await grown(accounts, 20)
            await asyncio.sleep(random.uniform(0.05, 0.8))
            victims = random.choice(([home], [away], [home], [away], [home, away]))
            await kill_and_restart(victims, random.uniform(0.0, 0.2))
            kills += len(victims)
    for number, account in enumerate(accounts):
        async with client(
            home
        ) as sender:  # a flow that had nothing to forward since the start has no counters
            await account.send(1, sender)
        await account.drain(away, f"orders-{number}")
        assert account.faults() == []
    await check_counters(home, "away")
    assert home.starts > KILLS // 4
    assert away.starts > KILLS // 4
