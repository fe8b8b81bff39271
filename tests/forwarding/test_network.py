"""Forwarding over a network that cuts, swallows, holds and delays: each message arrives once, in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.support.account import PAUSE_S, Account, check_counters, grown, working
from tests.support.chance import rounds
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient
from tests.support.proxy import Proxy, proxy

FLOWS = 2


class Line:
    """Two nodes, and the network between them."""

    def __init__(self, home: NodeProcess, away: NodeProcess, network: Proxy) -> None:
        self.home, self.away, self.network = home, away, network


@pytest.fixture
async def line(nodes: Nodes) -> AsyncIterator[Line]:
    away = nodes.node("away", heartbeat_ms=500)
    away.start()
    async with proxy(away.stomp_port) as network:
        home = nodes.node("home", heartbeat_ms=500)
        home.bridge_to(away, "away", port=network.port, stalled_s=1.0)
        home.start()
        yield Line(home, away, network)


BridgeError = Callable[[Proxy], Awaitable[None]]


async def cuts(network: Proxy) -> None:
    network.cut()
    await asyncio.sleep(random.uniform(0.0, 0.3))


async def refuses(network: Proxy) -> None:
    network.accepts = False
    network.cut()
    await asyncio.sleep(random.uniform(0.1, 0.5))
    network.accepts = True


async def swallows_what_is_sent(network: Proxy) -> None:
    network.out.drops = True
    await asyncio.sleep(random.uniform(0.01, 0.3))
    network.cut()
    network.out.drops = False


async def swallows_what_is_answered(network: Proxy) -> None:
    network.back.drops = True
    await asyncio.sleep(random.uniform(0.01, 0.3))
    network.cut()
    network.back.drops = False


async def falls_silent(network: Proxy) -> None:
    """Neither end is notified, and both have to notice."""
    network.out.drops = network.back.drops = True
    await asyncio.sleep(random.uniform(1.5, 2.5))
    network.cut()  # what had vanished can no longer be missed inside a connection
    network.heal()


async def holds(network: Proxy) -> None:
    network.out.hold()
    await asyncio.sleep(random.uniform(0.1, 1.0))
    network.out.release()


async def half_closes(network: Proxy) -> None:
    network.half_close()
    await asyncio.sleep(random.uniform(0.1, 0.5))


async def delays(network: Proxy) -> None:
    network.out.delay_s, network.back.delay_s = random.uniform(0.0, 0.2), random.uniform(0.0, 0.2)
    await asyncio.sleep(random.uniform(0.1, 0.6))
    network.heal()


async def throttles(network: Proxy) -> None:
    network.out.rate = 50_000
    await asyncio.sleep(random.uniform(0.1, 0.6))
    network.heal()


#: messages of each flow before the next trouble
_MORE = 60

TROUBLES: tuple[BridgeError, ...] = (
    cuts,
    refuses,
    swallows_what_is_sent,
    swallows_what_is_answered,
    holds,
    half_closes,
    delays,
    throttles,
)


async def survive(line: Line, *troubles: BridgeError) -> None:
    """Load on all flows while the network has these troubles; then the account."""
    accounts = [Account(f"/bridge/away/orders-{one}", padding=100) for one in range(FLOWS)]
    async with working(*(one.send_for_ever(line.home, pause_s=PAUSE_S) for one in accounts)):
        for trouble in troubles:
            await grown(accounts, _MORE)
            await asyncio.sleep(random.uniform(0.05, 0.3))
            await trouble(line.network)
    for number, account in enumerate(accounts):
        await account.drain(line.away, f"orders-{number}")
        assert account.faults() == []
    await check_counters(line.home, "away")
    assert line.network.out.passed > 0, "nothing went through the network"


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
async def test_each_message_arrives_once_and_in_order_over_a_network_that(
    line: Line, trouble: BridgeError
) -> None:
    await survive(line, *[trouble] * len(rounds(2, 4)))


async def test_each_message_arrives_once_and_in_order_over_a_network_that_falls_silent(line: Line) -> None:
    await survive(line, falls_silent, falls_silent)


@pytest.mark.slow
async def test_each_message_arrives_once_and_in_order_over_a_network_with_all_faults(
    line: Line,
) -> None:
    troubles = [random.choice(TROUBLES) for _ in rounds(8, 20)]
    await survive(line, *troubles)


async def test_a_remote_that_answers_no_more_is_found_out_by_both_ends(line: Line) -> None:
    account = Account("/bridge/away/orders")
    async with working(account.send_for_ever(line.home, pause_s=0.05)):
        await asyncio.sleep(0.5)
        connections = line.network.accepted
        line.network.out.drops = line.network.back.drops = True
        async with asyncio.timeout(patient(10)):
            while line.network.accepted == connections:
                await asyncio.sleep(0.05)
        line.network.cut()
        line.network.heal()
    await account.drain(line.away, "orders")
    assert account.faults() == []
