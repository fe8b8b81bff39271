"""A broker that is quiesced refuses new clients and goes on with the others; a paused one serves none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.net.auth.login import Identity
from tests.net.test_json_session import JSON, JsonClient
from tests.net.test_websocket import Conversation
from tests.support.awaiting import until
from tests.support.listener import Listener
from tests.support.small_broker import RawClient
from tests.support.small_node import SmallNode, policy_of, small_node

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:anna\n\n\0"


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[SmallNode]:
    policy = policy_of(users={"anna": (), "ops": ()}, admins=("ops",))
    async with small_node(tmp_path, policy) as running:
        yield running


@pytest.fixture
async def ops(small: SmallNode) -> AsyncIterator[httpx.AsyncClient]:
    async with small.rest("ops") as client:
        yield client


Connect = Callable[[], Awaitable[tuple[RawClient, bytes]]]


@pytest.fixture
async def connect(small: SmallNode) -> AsyncIterator[Connect]:
    """Opens a STOMP connection, and returns it with the answer to its CONNECT."""
    clients = []

    async def opened() -> tuple[RawClient, bytes]:
        clients.append(RawClient(*await asyncio.open_connection("127.0.0.1", small.node.stomp_port)))
        return clients[-1], await clients[-1].ask(CONNECT)

    yield opened
    for client in clients:
        await client.close()


async def test_while_a_member_takes_over_new_clients_are_sent_to_the_others(
    small: SmallNode, connect: Connect, ops: httpx.AsyncClient
) -> None:
    old, _ = await connect()
    small.node.state.taking_over = lambda: "takes over the messages of b2 now, for 10 s at most"
    small.node.state.other_addresses = lambda: ["stomp://192.0.2.3:61613"]
    _, refused = await connect()
    assert refused.startswith(b"ERROR\n"), refused
    assert b"taking-over" in refused and b"connect to stomp://192.0.2.3:61613" in refused
    assert await refused_json(small) == ("taking-over", 1013)
    assert await code_of(await ops.get("/health/ready")) == (503, "taking-over")
    assert b"RECEIPT" in await old.ask(b"SEND\ndestination:/queue/a\nreceipt:1\n\ngoes on\0")
    small.node.state.taking_over = str
    _, accepted = await connect()
    assert accepted.startswith(b"CONNECTED\n"), accepted


async def json_client(small: SmallNode) -> JsonClient:
    return await JsonClient(small.node, identity=Identity("anna")).open()  # type: ignore[arg-type]


async def refused_json(small: SmallNode) -> tuple[str, int]:
    """The problem and the close code of a JSON client that is refused."""
    client = Conversation(small.node, offered=JSON, identity=Identity("anna"))  # type: ignore[arg-type]
    assert (await client.event())["type"] == "websocket.accept"
    closed = json.loads(await client.data())
    return closed["type"].rpartition("/")[2], (await client.event())["code"]


async def order(ops: httpx.AsyncClient, verb: str, reason: str = "") -> dict[str, Any]:
    reply = await ops.post(f"/broker/{verb}", json={"name": "mom", "reason": reason})
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


async def code_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json().get("type", "").rpartition("/")[2]


async def publish(small: SmallNode, address: str, *bodies: bytes) -> None:
    """Publish as a part of the broker does."""
    engine = small.node.engine
    engine.submit(c.Publish(Listener().peer, [(Envelope(address), body, None) for body in bodies]))
    await engine.wait_idle()


async def test_a_quiesced_broker_refuses_new_clients_and_goes_on_with_those_it_has(
    small: SmallNode, ops: httpx.AsyncClient, connect: Connect
) -> None:
    old, _ = await connect()
    of_json = await json_client(small)
    small.node.state.other_addresses = lambda: ["stomp://b2:61613", "stomp://b3:61613"]
    found = await order(ops, "quiesce", "new disks")
    assert (found["state"], found["clients"]) == ("QUIESCE_STARTED", {"stomp": 1, "json": 1, "rest": 0})
    assert (found["quiesced"]["by"], found["quiesced"]["reason"]) == ("ops", "new disks")

    _, error = await connect()
    head, _, body = error.partition(b"\n\n")
    assert head.startswith(b"ERROR\n")
    assert b"\nactive:stomp\\c//b2\\c61613,stomp\\c//b3\\c61613" in head
    problem = json.loads(body)
    assert problem["type"].endswith("/quiesced")
    assert problem["detail"] == (
        "broker mom is quiesced (new disks) and takes no new clients: "
        "connect to stomp://b2:61613 or stomp://b3:61613"
    )
    assert await refused_json(small) == ("quiesced", 1013)
    async with small.rest("anna") as anna:
        sent = await anna.post("/queues/a/messages", content=b"x")
        assert await code_of(sent) == (503, "quiesced")
        assert (sent.headers["retry-after"], sent.json()["active"][:16]) == ("5", "stomp://b2:61613")
        assert await code_of(await anna.post("/queues/a/receive", json={})) == (503, "quiesced")
    assert small.node.rest.direct.take(Unusable(), b"/api/v1/queues/a/messages", TOKEN, b"x") is False  # type: ignore[arg-type]
    ready = await ops.get("/health/ready")
    assert await code_of(ready) == (503, "quiesced")
    assert ready.json()["detail"] == "the broker is quiesced by an administrator"
    for path in ("/health/live", "/metrics", "/queues", "/connections"):
        assert (await ops.get(path)).status_code == 200, path

    receipt = await old.ask(b"SEND\ndestination:/queue/a\nreceipt:1\n\nhi\0")
    assert receipt == b"RECEIPT\nreceipt-id:1\n\n"
    await of_json.ask("subscribe", id="1", queue="a", credit=2)
    assert (await of_json.event("message"))["body"] == "hi"

    await old.close()
    await of_json.conversation.leave()
    await until(lambda: any(event.event == "quiesce complete" for event in small.node.events.all()))
    assert (await ops.get("/broker")).json()["state"] == "QUIESCE_COMPLETE"
    assert (await order(ops, "unquiesce"))["state"] == "OPERATING"
    assert (await connect())[1].startswith(b"CONNECTED\n")
    assert (await ops.get("/health/ready")).status_code == 200
    events = [(event.kind, event.event) for event in small.node.events.all()][::-1]
    assert events == [("broker", "quiesced"), ("broker", "quiesce complete"), ("broker", "unquiesced")]
    assert [action.action for action in small.node.actions.take()] == ["quiesced", "unquiesced"]


TOKEN = [(b"authorization", b"Bearer mom_anna")]


async def test_pages_of_the_console_go_on(small: SmallNode, ops: httpx.AsyncClient) -> None:
    await order(ops, "quiesce")
    await order(ops, "pause")
    page = Conversation(
        small.node,  # type: ignore[arg-type]
        offered=("v12.stomp",),
        identity=Identity("ops", session="of a browser"),
    )
    assert (await page.event())["type"] == "websocket.accept"
    page.send("CONNECT\naccept-version:1.2\nhost:/\n\n\0")
    assert (await page.data()).startswith(b"CONNECTED\n")
    found = await order(ops, "pause")
    assert (found["state"], found["clients"]["stomp"]) == ("QUIESCE_COMPLETE", 0)
    await order(ops, "resume")
    await order(ops, "pause")
    page.send("SEND\ndestination:/queue/a\nreceipt:1\n\nhi\0")
    assert await page.data() == b"RECEIPT\nreceipt-id:1\n\n\0\n"
    await page.leave()


class Unusable:
    """A connection that must not be used."""


async def test_a_paused_broker_serves_no_client_until_it_resumes(
    small: SmallNode, ops: httpx.AsyncClient, connect: Connect
) -> None:
    client, _ = await connect()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/s\n\n\0")
    of_json = await json_client(small)
    await of_json.ask("subscribe", id="1", queue="j")
    async with small.rest("anna") as anna:
        waiting = asyncio.create_task(anna.post("/queues/r/receive", json={"wait_s": 60}))
        await until(lambda: len(small.node.engine.broker.destinations.queues) == 3)
        assert (await order(ops, "pause", "a new network"))["paused"]["reason"] == "a new network"
        assert await code_of(await waiting) == (503, "paused")
        assert await code_of(await anna.post("/queues/a/messages", content=b"x")) == (503, "paused")
        assert await code_of(await anna.post("/leases/settle", json={})) == (503, "paused")
    assert await code_of(await ops.get("/health/ready")) == (503, "paused")

    client.send(b"SEND\ndestination:/queue/a\nreceipt:2\n\nhi\0")
    of_json.send("publish", ref="p", queue="b", body="hi")
    for queue in ("s", "j"):
        await publish(small, f"/queue/{queue}", b"late")
    # Answered by the same loop after what was sent before.
    _, error = await connect()
    assert b"broker mom is paused (a new network) and serves no clients: connect again later" in error
    assert await refused_json(small) == ("paused", 1013)
    assert {name: small.depth(name) for name in ("a", "b", "s", "j")} == {"a": 0, "b": 0, "s": 1, "j": 1}

    found = await order(ops, "resume")
    assert (found["state"], found["paused"]) == ("OPERATING", None)
    frames = sorted(frame.partition(b"\n")[0] for frame in await client.frames(2))
    assert frames == [b"MESSAGE", b"RECEIPT"]
    assert (await of_json.event("message"))["body"] == "late"
    await of_json.conversation.leave()
