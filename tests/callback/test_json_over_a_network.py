"""Callback subscriptions over real WebSockets, also of a broker that is killed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from tests.support.broker_process import BrokerProcess, StartBroker


@asynccontextmanager
async def connected(broker: BrokerProcess, *subprotocols: str) -> AsyncIterator[ClientConnection]:
    login = base64.b64encode(f"{broker.user}:{broker.password}".encode()).decode()
    address = f"ws://{broker.host}:{broker.port}/ws"
    headers = {"Authorization": f"Basic {login}"}
    offered = [websockets.Subprotocol(name) for name in subprotocols]
    async with websockets.connect(
        address, subprotocols=offered or None, additional_headers=headers, proxy=None
    ) as connection:
        yield connection


def publish(broker: BrokerProcess, queue: str, body: bytes) -> None:
    assert broker.request("POST", f"/api/v1/queues/{queue}/messages", body).status == 201


def depth(broker: BrokerProcess, queue: str) -> int:
    return int(broker.request("GET", f"/api/v1/queues/{queue}").json()["depth"])


async def event(connection: ClientConnection, op: str) -> dict[str, Any]:
    while True:
        received: dict[str, Any] = json.loads(await connection.recv())
        if received["op"] == op:
            return received


async def send(connection: ClientConnection, op: str, **members: Any) -> None:
    await connection.send(json.dumps({"op": op, **members}))


async def test_messages_and_notifications_come_over_a_websocket(start_broker: StartBroker) -> None:
    broker = start_broker()
    async with connected(broker, "mom.v1.json") as connection:
        assert connection.subprotocol == "mom.v1.json"
        assert (await event(connection, "ready"))["user"] == broker.user
        await send(connection, "subscribe", id="m", queue="orders", credit=2)
        await send(connection, "subscribe", id="n", queue="bills", mode="notify")
        await send(connection, "ping", ref="subscribed")
        await event(connection, "done")
        for number in range(3):
            publish(broker, "orders", f"order {number}".encode())
        publish(broker, "bills", b"a bill")
        found = await event(connection, "arrived")
        assert (found["queue"], found["pending"]) == ("bills", 1)
        await send(connection, "receive", queue="bills", seqs=found["seqs"], ref="bill")
        (bill,) = (await event(connection, "received"))["items"]
        assert bill["body"] == "a bill"
        await send(connection, "ack", receipt=bill["receipt"], ref="acked")
        assert (await event(connection, "done"))["ref"] == "acked"
    assert depth(broker, "bills") == 0
    assert depth(broker, "orders") == 3


async def test_notifications_continue_after_the_broker_was_killed(start_broker: StartBroker) -> None:
    broker = start_broker()
    publish(broker, "orders", b"1")
    async with connected(broker) as connection:
        await send(connection, "subscribe", id="n", queue="orders", mode="notify")
        last = await event(connection, "arrived")
        broker.kill()
        with pytest.raises(websockets.ConnectionClosed):
            await event(connection, "never")
    broker.start()
    publish(broker, "orders", b"2")
    async with connected(broker) as connection:
        await send(connection, "subscribe", id="n", queue="orders", mode="notify", after=last["seq"])
        found = await event(connection, "arrived")
        assert (found["pending"], len(found["ids"])) == (2, 1)
        assert found["ids"] != last["ids"]


async def test_a_stopped_broker_reports_its_end(start_broker: StartBroker) -> None:
    broker = start_broker()
    async with connected(broker, "mom.v1.json") as connection:
        await event(connection, "ready")
        stopping = asyncio.create_task(asyncio.to_thread(broker.terminate))
        assert (await event(connection, "closed"))["type"].endswith("/not-active")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await connection.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        await stopping
