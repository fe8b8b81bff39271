"""Rights are checked at the home broker of a client, also to what other brokers have."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import websockets

import mom_client
from broker_app.net.policy.policy import UserFacts
from broker_app.rules.rule import Rule
from tests.cluster.conftest import Brokers
from tests.cluster.test_messages_across_brokers import QUEUE, depth, shown, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

BOB = UserFacts("bob", "bob")
#: of b2: what bob may do, and nothing else
BILLS = Rule("bills", conditions="/event/queue == bills", users=("bob",))
SENT = [b"1", b"2"]


@pytest.fixture
async def two(nodes: Nodes) -> AsyncIterator[tuple[NodeProcess, NodeProcess, str]]:
    """b1, where all may do everything, with two messages; b2, where bob has no right to them; and the id of
    the first."""
    b1, b2 = brokers = Brokers(nodes, 2)
    for node in brokers:
        node.users["bob"] = BOB
    b2.rules = (BILLS,)
    brokers.start()
    await becomes(lambda: shown(b2, "links", "state"), [("up",)])
    async with as_bob(b1) as client:
        for body in SENT:
            await client.send(QUEUE, body)
    async with b1.rest(BOB) as http:
        id = (await http.get("/queues/orders/messages")).json()["items"][0]["id"]
    yield b1, b2, id
    assert await depth(b1) == (len(SENT), 0)
    assert await depth(b2) == (0, 0)
    async with as_bob(b1) as client, client.subscribe(QUEUE) as messages:
        taken = await take(messages, len(SENT))
    assert [(one.body, one.redelivered) for one in taken] == [(body, False) for body in SENT]


def as_bob(node: NodeProcess) -> mom_client.Client:
    return mom_client.connect(f"stomp://{node.host}:{node.stomp_port}", login="bob", passcode="bob")


async def test_over_stomp_a_queue_of_another_broker_is_neither_read_nor_browsed_nor_sent_to(
    two: tuple[NodeProcess, NodeProcess, str],
) -> None:
    _, b2, _ = two
    async with as_bob(b2) as client:
        await client.send("/queue/bills", b"a bill")
        for headers in ({}, {"browser": "true"}, {"browser": "true", "selector": "JMSPriority = 4"}):
            with pytest.raises(mom_client.Refused) as refused:
                async with client.subscribe(QUEUE, headers=headers):
                    pass
            assert refused.value.problem["type"].endswith("not-allowed"), headers
        with pytest.raises(mom_client.Refused, match="bob may not send to queue orders"):
            await client.send(QUEUE, b"3")


async def test_over_rest_a_queue_of_another_broker_is_neither_read_nor_browsed_nor_sent_to(
    two: tuple[NodeProcess, NodeProcess, str],
) -> None:
    _, b2, id = two
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/queues/orders/messages", None),
        ("GET", "/queues/orders/messages?scope=cluster&q=1", None),
        ("GET", f"/queues/orders/messages/{id}", None),
        ("GET", f"/messages/{id}/why?queue=orders", None),
        ("POST", "/queues/orders/receive", {"wait_s": 0}),
        ("POST", "/queues/orders/messages", "3"),
        ("DELETE", "/queues/orders/messages?all=true", None),
    ]
    async with b2.rest(BOB) as http:
        for method, path, body in asked:
            reply: httpx.Response = await http.request(method, path, json=body)
            assert reply.status_code == 403, (path, reply.text)
        assert (await http.post("/queues/bills/messages", content=b"a bill")).status_code == 201


async def test_over_json_a_queue_of_another_broker_is_neither_read_nor_notified_of(
    two: tuple[NodeProcess, NodeProcess, str],
) -> None:
    _, b2, _ = two
    asked: list[dict[str, Any]] = [
        {"op": "subscribe", "id": "1", "queue": "orders"},
        {"op": "subscribe", "id": "2", "queue": "orders", "mode": "notify"},
        {"op": "receive", "queue": "orders", "seqs": [1, 2]},
    ]
    url = f"ws://{b2.host}:{b2.port}/ws"
    async with websockets.connect(
        url, subprotocols=[websockets.Subprotocol("mom.v1.json")], proxy=None
    ) as connection:
        await connection.send(json.dumps({"op": "login", "login": "bob", "passcode": "bob"}))
        assert json.loads(await connection.recv())["op"] == "ready"
        for number, operation in enumerate(asked):
            await connection.send(json.dumps(operation | {"ref": str(number)}))
            answer = json.loads(await connection.recv())
            assert (answer["op"], answer["ref"]) == ("problem", str(number))
            assert answer["type"].endswith("not-allowed")
