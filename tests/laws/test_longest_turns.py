"""An ordinary user who sends 1 MiB of anything, or a server of a stranger that does, holds up the broker, and
with it all others, for a moment.

Each test prints a row of the table in docs/security.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker_app.net.policy.policy import UserFacts
from tests.laws.attacks.clients import CLIENTS, MAKE_QUEUES, OF_ALL
from tests.laws.attacks.pages import PAGES, prepare
from tests.laws.attacks.senders import PASSWORD, USER, Broker, client
from tests.laws.attacks.strangers import (
    SENT,
    callback_to,
    forwards,
    hostile_broker,
    hostile_receiver,
    pushes,
)
from tests.laws.attacks.unknown import UNKNOWN
from tests.support.broker_process import StartBroker
from tests.support.hostile_answers import ANSWERS
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.patience import patient

pytestmark = [pytest.mark.soak, pytest.mark.process]

#: processor time at a stretch. What the broker looks at in all queues, every few seconds, is not divided yet:
#: alerts, the sweep, the sum of backlogs, the state of all for a new subscription
MOST_S, MOST_OF_ALL_S = 0.02, 0.2
OF_CLIENTS = CLIENTS | UNKNOWN


@pytest.fixture(scope="module")
def nodes(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with nodes_in(tmp_path_factory.mktemp("turns")) as made:
        yield made


@pytest.mark.parametrize(("plane", "kind"), OF_CLIENTS, ids=list(map(" ".join, OF_CLIENTS)))
async def test_nothing_that_a_user_sends_is_worked_on_for_long(nodes: Nodes, plane: str, kind: str) -> None:
    node = node_of(nodes, plane, kind)
    node.start()
    try:
        async with asyncio.timeout(patient(60)):
            came = await OF_CLIENTS[plane, kind](node)
        assert node.running
        most_s = MOST_OF_ALL_S if plane == OF_ALL or kind in MAKE_QUEUES else MOST_S
        await check(node, plane, kind, came, most_s)
    finally:
        node.kill()


@pytest.mark.parametrize(("plane", "kind"), PAGES, ids=list(map(" ".join, PAGES)))
async def test_no_form_and_no_resource_is_worked_on_for_long(
    start_broker: StartBroker, plane: str, kind: str
) -> None:
    broker = start_broker()
    prepare(broker)
    async with asyncio.timeout(patient(120)):
        came = await PAGES[plane, kind](broker)
    assert broker.running
    await check(broker, plane, kind, came)


@pytest.mark.parametrize("when_asked", [False, True], ids=["pushed", "asked"])
@pytest.mark.parametrize("kind", ANSWERS)
async def test_no_answer_of_a_receiver_is_worked_on_for_long(
    nodes: Nodes, kind: str, when_asked: bool
) -> None:
    async with hostile_receiver(kind, when_asked=when_asked) as (url, sizes):
        node = node_of(nodes, f"webhooks {when_asked}", kind, webhook_allow=("127.0.0.1",))
        node.callbacks = {"hook": callback_to(url)}
        node.start()
        try:
            came = await pushes(node, sizes, 1 if when_asked else 3)
            await check(node, "webhooks", f"{kind}{', when asked' if when_asked else ''}", came)
        finally:
            node.kill()


@pytest.mark.parametrize("kind", SENT)
async def test_nothing_that_a_remote_broker_sends_is_worked_on_for_long(nodes: Nodes, kind: str) -> None:
    async with hostile_broker(kind) as (remote, connections):
        node = node_of(nodes, "bridges", kind)
        node.bridges = {remote.name: remote}
        node.start()
        try:
            came = await forwards(node, connections)
            await check(node, "bridges", kind, came)
        finally:
            node.kill()


def node_of(nodes: Nodes, plane: str, kind: str, **settings: Any) -> NodeProcess:
    """A node with the ordinary user, named by what is tried."""
    name = "".join(sign if sign.isalnum() else "-" for sign in f"{plane}-{kind}")
    node = nodes.node(name, **settings)
    node.users[USER] = UserFacts(USER, PASSWORD)
    return node


async def check(broker: Broker, plane: str, kind: str, came: str, most_s: float = MOST_S) -> None:
    """Print what the longest turn was, and assert that it was short."""
    await asyncio.sleep(0.2)  # the beat behind it
    async with client(broker, broker.user) as http:
        found = (await http.get("/stats")).json()["node"]["loop_busy_1m_s"]
    print(f"\n| {plane} | {kind} | {found * 1000:.0f} ms | {came!r} |")
    assert found <= most_s
