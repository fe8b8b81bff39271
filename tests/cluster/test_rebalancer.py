"""The rebalancer in virtual time, with sessions of real clients: its pace, its end, and clients that have
something to finish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.base.settings.transport_connectors import ListSettings
from broker_app.core.model import Subscription
from broker_app.features.cluster.clients.client_lists import ClientLists
from broker_app.net.stomp.session import StompSession
from broker_app.node.features.rebalancer import Rebalancer
from tests.support.clock import Clock
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

B2, B3 = "stomp://b2:1", "stomp://b3:1"
#: seconds in which two clients may finish what they have begun
PATIENCE_S = 60.2


class Stage:
    """Clients of b1 that listen to the list; b2 and b3 have none."""

    def __init__(self, node: SmallNode, stack: AsyncExitStack) -> None:
        self._node = node
        self._stack = stack
        self.clock = Clock()
        self.begun = self.clock.now
        #: clients that have not gone
        self.sessions: dict[StompSession, None] = {}
        #: who was asked, and to go where, in this order
        self.asked: list[tuple[StompSession, str]] = []
        self.events: list[dict[str, Any]] = []
        lists = ClientLists(("stomp://b1:1",), ListSettings(True, False, True, ""), published=lambda _: None)
        lists.joined("b2", (B2,))
        lists.joined("b3", (B3,))
        self.rebalancer = Rebalancer(
            *("b1", self.sessions, lambda session: lists, lambda broker: True, lambda: {"b2": 0, "b3": 0}),
            ask=self._ask,
            report=lambda event, **facts: self.events.append(facts),
            clock=self.clock,
        )

    def _ask(self, session: StompSession, subscription: Subscription, address: str) -> None:
        self.asked.append((session, address))

    async def connect(self, *, plain: bool = False) -> mom_client.Client:
        """One client more; a `plain` one does not listen to the list, and stays."""
        client = await self._stack.enter_async_context(self._node.stomp("ann"))
        if not plain:
            listening = client.subscribe("/topic/$mom.failover", ack="auto")
            await self._stack.enter_async_context(listening)
        self.sessions |= self._node.node.registry.sessions
        return client

    def pass_second(self) -> list[str]:
        """The addresses to which clients were asked to go in a second."""
        before = len(self.asked)
        self.clock.now += 1.0
        self.rebalancer.each_second()
        return [address for _, address in self.asked[before:]]

    def those_asked_go(self) -> None:
        """End the connections of all that were asked."""
        for session, _ in self.asked:
            if session in self.sessions:
                del self.sessions[session]
                self.rebalancer.ended(session)

    @property
    def ended(self) -> list[tuple[str, dict[str, int]]]:
        """The ends of former rebalancings, the newest first, with the number of clients that have gone."""
        return [(one.state, one.moved) for one in self.rebalancer.report().history]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    policy = policy_of(users={"ann": ()}, admins=("ann",))
    async with small_node(tmp_path, policy) as node, AsyncExitStack() as stack:
        yield Stage(node, stack)


async def test_ten_clients_are_asked_in_a_second_each_once_until_all_have_gone(stage: Stage) -> None:
    for _ in range(36):
        await stage.connect()
    oldest = list(stage.sessions)[:24]
    begun = stage.rebalancer.begin("b3 joined")
    assert begun is not None
    assert begun.planned == {"b2": 12, "b3": 12}
    assert [len(stage.pass_second()) for _ in range(4)] == [10, 10, 4, 0]
    assert [session for session, _ in stage.asked] == oldest, "each is asked once, the oldest first"
    assert [address for _, address in stage.asked] == [B2] * 12 + [B3] * 12
    assert stage.ended == [], "none has gone"
    stage.those_asked_go()
    stage.pass_second()
    assert stage.ended == [("done", {"b2": 12, "b3": 12})]


async def test_a_client_with_unacknowledged_deliveries_goes_once_these_are_settled(stage: Stage) -> None:
    async with busy_client(stage) as deliveries:
        assert stage.pass_second() == []
        await deliveries[0].ack(confirm=True)
        assert stage.pass_second() == [], "one delivery is left"
        stage.clock.now = stage.begun + PATIENCE_S - 1.5
        await deliveries[1].ack(confirm=True)
        assert stage.pass_second() == [B2], "it is the last second"
        stage.those_asked_go()
    stage.pass_second()
    assert stage.ended == [("incomplete", {"b2": 1})], "nobody is left who could go to b3"
    assert stage.events[-1] == {"state": "incomplete", "moved": "1 to b2"}


async def test_a_client_that_does_not_settle_in_time_stays(stage: Stage) -> None:
    async with busy_client(stage) as deliveries:
        stage.clock.now = stage.begun + PATIENCE_S - 1.5
        assert (stage.pass_second(), stage.ended) == ([], [])
        assert (stage.pass_second(), stage.ended) == ([], [("incomplete", {})])
        assert stage.events[-1] == {"state": "incomplete", "moved": "none"}
        for delivery in deliveries:
            await delivery.ack(confirm=True)
        assert (stage.pass_second(), stage.asked) == ([], []), "that was too late"


@asynccontextmanager
async def busy_client(stage: Stage) -> AsyncIterator[list[mom_client.Message]]:
    """The unsettled deliveries of a client that is to go to b2, by a rebalancing that has begun. Another one
    is to go to b3, but the others take no lists."""
    busy = await stage.connect()
    for _ in range(2):
        await stage.connect(plain=True)
    async with busy.subscribe("/queue/work") as messages:
        for number in range(2):
            await busy.send("/queue/work", b"%d" % number)
        deliveries = [await messages.get(patient(20)) for _ in range(2)]
        begun = stage.rebalancer.begin("an order")
        assert begun is not None
        assert begun.planned == {"b2": 1, "b3": 1}
        yield deliveries
