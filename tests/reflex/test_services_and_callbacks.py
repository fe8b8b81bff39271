"""Reflexes and what is built on registrations: services, profiles, callback brokers, webhooks, JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets

from broker_app.base.settings.roles import CALLBACK
from broker_app.config import Config
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, DEREGISTRATION, REGISTRATION, Declaration
from mom_client import storeandforward
from tests.callback.webhooks.hooks import callback, hooks
from tests.callback.webhooks.receiver import receiver
from tests.support.awaiting import until
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node
from tests.support.web import serving

POLICY = policy_of(users={"anna": [], "otto": []}, admins=["anna"])
LIBRARY = """
from broker_app.reflex.api import refuse

def known(registration):
    return refuse("nobody knows it") if registration.name.startswith("un") else None

def left(registration, options):
    with open(options["notes"], "a") as file:
        file.write(registration.name + "\\n")

def even(message):
    return int(message.text) % 2 == 0
"""
ENABLES = Declaration("callbacks", REGISTRATION, "RE_LocalService", "REenableCallbacks")
ODD_ARE_KEPT_OUT = Declaration("even", ARRIVAL, "lib", "even", "stock")
ODD_ARE_NOT_DELIVERED = Declaration("even-out", DELIVERY, "lib", "even", "stock")
FORWARDED = storeandforward.forwarded("oslo", "stock").address
COPIED = Declaration("copy", ARRIVAL, "mom", "copy_to_broker", "stock", options={"broker": "oslo"})


@pytest.fixture
async def start(processes: None, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """A function that starts a node with the library `lib` and declarations."""
    (tmp_path / "lib.py").write_text(LIBRARY)
    async with contextlib.AsyncExitStack() as stack:

        async def start(*declarations: Declaration, name: str = "main", **settings: Any) -> SmallNode:
            node = await stack.enter_async_context(
                small_node(tmp_path / name, POLICY, reflex_path=tmp_path, **settings)
            )
            await node.change(reflexes=declarations)
            return node

        yield start


async def test_a_service_is_refused_and_the_end_of_another_is_reported(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    node = await start(
        Declaration("known", REGISTRATION, "lib", "known"),
        Declaration("left", DEREGISTRATION, "lib", "left", options={"notes": str(notes)}),
    )
    async with node.rest("anna") as rest:
        refused = await rest.post("/services", json={"name": "unknown"})
        assert (refused.status_code, refused.json()["type"]) == (403, "/docs/problems/registration-refused")
        assert (refused.json()["reflex"], refused.json()["reason"]) == ("known", "nobody knows it")
        service = (await rest.post("/services", json={"name": "stock"})).json()
        assert service["callbacks"] is False
        assert (await rest.delete(f"/services/{service['id']}")).status_code == 204
    await until(lambda: notes.exists() and notes.read_text() == "stock\n")


async def test_copies_of_a_message_to_a_profile_are_filtered_like_other_messages(
    start: Callable[..., Any],
) -> None:
    node = await start(ODD_ARE_KEPT_OUT, COPIED)
    async with node.rest("anna") as rest, node.stomp("anna") as client:
        for name in ("stock", "other"):
            assert (await rest.post("/services", json={"name": name})).status_code == 201
        for number in (1, 2):
            await client.send("/profile/name LIKE '%'", str(number))
        await until(lambda: (node.depth("stock"), node.depth("other")) == (1, 2))
        (item,) = (await rest.post("/queues/stock/receive", json={"ack": "auto"})).json()["items"]
        assert item["body"] == "2"
        copy_id = item["headers"]["mom-copy-id"]
        forwarded = node.node.broker.destinations.queues[FORWARDED]
        (copy,) = [message for lane in forwarded.lanes for message in lane.in_memory()]
        assert copy.body == b"2" and copy_id.encode() in copy.envelope.block


async def test_a_callback_broker_serves_services_that_a_reflex_of_their_origin_enables(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    remote = await start(ENABLES, ODD_ARE_NOT_DELIVERED)
    local = await start(name="REcallback", role=CALLBACK, max_attempts=10**9)
    async with serving(remote.node, Config(data=tmp_path)) as port, local.rest("anna") as rest:
        origin = {"urls": [f"ws://127.0.0.1:{port}/ws"], "token": "mom_anna"}
        assert (await rest.post("/services", json={"name": "stock", "origin": origin})).status_code == 201
        async with local.stomp("anna") as client, client.subscribe("/queue/stock", ack="auto") as messages:
            async with remote.stomp("anna") as there:
                for number in range(4):
                    await there.send("/queue/stock", str(number))
            assert [(await messages.get(5)).text for _ in range(2)] == ["0", "2"]
        await until(lambda: (remote.depth("stock"), remote.depth("stock.dead")) == (0, 2))


async def test_a_callback_broker_with_reflexes_of_its_own_hands_out_the_originals(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    """Messages are settled at the origin although a reflex of the callback broker holds their delivery, and
    after a reload."""
    audited = Declaration("audit", DELIVERY, "mom", "audit")
    remote = await start(ENABLES)
    local = await start(audited, name="REcallback", role=CALLBACK, max_attempts=10**9)
    async with serving(remote.node, Config(data=tmp_path)) as port, local.rest("anna") as rest:
        origin = {"urls": [f"ws://127.0.0.1:{port}/ws"], "token": "mom_anna"}
        assert (await rest.post("/services", json={"name": "stock", "origin": origin})).status_code == 201
        async with (
            local.stomp("anna") as client,
            remote.stomp("anna") as there,
            client.subscribe("/queue/stock", ack="auto") as messages,
        ):
            for declarations in ((audited,), (), (audited,)):
                await local.change(reflexes=declarations)
                await there.send("/queue/stock", str(len(declarations)))
                assert (await messages.get(5)).text == str(len(declarations))
                await until(lambda: remote.node.broker.destinations.queues["/queue/stock"].unsettled == 0)
                assert remote.depth("stock") == 0


async def test_at_a_callback_broker_only_deliveries_have_the_type_of_the_original(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    remote = await start(ENABLES)
    local = await start(
        *(
            Declaration(f"{kind}-{number}", kind, "mom", "audit", "stock", event)
            for kind in (ARRIVAL, DELIVERY)
            for number, event in enumerate(("*", "sold"))
        ),
        name="REcallback",
        role=CALLBACK,
        max_attempts=10**9,
    )
    async with serving(remote.node, Config(data=tmp_path)) as port, local.rest("anna") as rest:
        origin = {"urls": [f"ws://127.0.0.1:{port}/ws"], "token": "mom_anna"}
        assert (await rest.post("/services", json={"name": "stock", "origin": origin})).status_code == 201
        async with (
            local.stomp("anna") as client,
            remote.stomp("anna") as there,
            client.subscribe("/queue/stock", ack="auto") as messages,
        ):
            await there.send("/queue/stock", "1", headers={"type": "sold"})
            assert (await messages.get(5)).text == "1"
        rows = (await rest.get("/reflex-status")).json()["items"]
        calls = {row["name"]: row["calls"] for row in rows}
        assert calls == {"arrival-0": 1, "arrival-1": 0, "delivery-0": 1, "delivery-1": 1}


async def test_a_webhook_gets_only_what_reflexes_let_out(processes: None, tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text(LIBRARY)
    even = Declaration("even-out", DELIVERY, "lib", "even", "a")
    async with hooks(tmp_path / "data", reflex_path=tmp_path) as own, receiver() as there:
        await own.small.change(reflexes=(even,))
        await own.have(callback(there.url))
        await own.publish(b"1", b"2", b"3", b"4")
        pushes = await there.count(2)
        assert [push.body for push in pushes] == [b"2", b"4"]
        await until(lambda: own.small.depth("a.dead") == 2)


async def test_a_client_of_json_gets_only_what_reflexes_let_out(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    node = await start(ODD_ARE_NOT_DELIVERED)
    async with (
        serving(node.node, Config(data=tmp_path)) as port,
        websockets.connect(
            f"ws://127.0.0.1:{port}/ws",
            subprotocols=[websockets.Subprotocol("mom.v1.json")],
            additional_headers={"Authorization": "Bearer mom_anna"},
            proxy=None,
        ) as connection,
        node.stomp("anna") as client,
    ):

        async def answer(op: str, **members: Any) -> dict[str, Any]:
            await connection.send(json.dumps({"op": op, "ref": op, **members}))
            return await event(lambda one: one.get("ref") == op)

        async def event(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            async with asyncio.timeout(patient(10)):
                while True:
                    one: dict[str, Any] = json.loads(await connection.recv())
                    if wanted(one):
                        return one

        await answer("subscribe", id="s", queue="stock")
        for number in range(1, 4):
            await client.send("/queue/stock", str(number))
        received = await event(lambda one: one["op"] == "message")
        assert received["body"] == "2"
        await until(lambda: node.depth("stock.dead") == 2)
