"""STOMP over WebSocket as an ASGI conversation, without a server under it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.base.internal_errors import internal_errors
from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.core.commands import StoreSpace
from broker_app.core.limits import Limits
from broker_app.net.auth.login import Identity
from broker_app.net.server import subprotocols as web_socket
from tests.support.patience import patient
from tests.support.small_broker import SmallBroker, small_broker
from tests.support.small_node import policy_of, small_node

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:secret\n\n\0"


class Conversation:
    """The server's and the client's side of one WebSocket."""

    def __init__(
        self,
        broker: SmallBroker,
        *,
        offered: tuple[str, ...] = (),
        identity: Identity | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.taking = asyncio.Event()
        self.taking.set()
        self.incoming.put_nowait({"type": "websocket.connect"})
        scope: dict[str, Any] = {
            "type": "websocket",
            "subprotocols": list(offered),
            "client": ("127.0.0.1", 5),
        }
        scope["headers"] = list(headers)
        self.task = asyncio.create_task(
            web_socket.serve(broker.registry, broker.json, scope, self.incoming.get, self._send, identity)  # type: ignore[arg-type]
        )

    async def _send(self, event: Any) -> None:
        await self.taking.wait()
        self.outgoing.put_nowait(event)

    def send(self, data: bytes | str) -> None:
        kind = "bytes" if isinstance(data, bytes) else "text"
        self.incoming.put_nowait({"type": "websocket.receive", kind: data})

    async def event(self) -> dict[str, Any]:
        async with asyncio.timeout(patient(10)):
            return await self.outgoing.get()

    async def data(self) -> bytes:
        event = await self.event()
        assert event["type"] == "websocket.send", event
        return bytes(event["bytes"]) if "bytes" in event else event["text"].encode()  # type: ignore[no-any-return]

    async def leave(self) -> None:
        self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker(memory_bytes=4 * 1024 * 1024) as running:
        yield running


async def opened(broker: SmallBroker, **options: Any) -> Conversation:
    client = Conversation(broker, **options)
    assert (await client.event())["type"] == "websocket.accept"
    client.send(CONNECT)
    assert (await client.data()).startswith(b"CONNECTED\n")
    return client


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (("v10.stomp", "v11.stomp", "v12.stomp"), "v12.stomp"),
        (("soap", "v11.stomp"), "v11.stomp"),
        ((), None),
    ],
)
async def test_the_newest_offered_subprotocol_is_chosen(
    broker: SmallBroker, offered: tuple[str, ...], chosen: str | None
) -> None:
    client = Conversation(broker, offered=offered)
    assert await client.event() == {"type": "websocket.accept", "subprotocol": chosen}
    await client.leave()


async def test_unknown_subprotocols_get_the_list_of_supported_ones(broker: SmallBroker) -> None:
    client = Conversation(broker, offered=("mqtt", "soap"))
    assert (await client.event())["subprotocol"] is None
    error = await client.data()
    assert error.startswith(b"ERROR\n")
    assert b"mqtt, soap are not supported; offer v12.stomp" in error
    assert await client.event() == {"type": "websocket.close", "code": 1002}
    await client.task


async def test_messages_that_are_not_stomp_are_refused(broker: SmallBroker) -> None:
    client = Conversation(broker)
    await client.event()
    client.send("subscribe\n")
    error = await client.data()
    assert json.loads(error.split(b"\n\n", 1)[1].rstrip(b"\0\n"))["type"] == "/docs/problems/unknown-command"
    assert (await client.event())["type"] == "websocket.close"
    await client.leave()


async def test_a_frame_may_come_in_several_messages_and_several_frames_in_one(broker: SmallBroker) -> None:
    client = await opened(broker)
    client.send(b"SEND\ndestination:/queue/a\nrec")
    client.send("eipt:1\n\nbo")
    client.send(b"dy\0SEND\ndestination:/queue/a\nreceipt:2\n\nx\0")
    answers = b""
    while answers.count(b"\0") < 2:
        answers += await client.data()
    assert answers == b"RECEIPT\nreceipt-id:1\n\n\0\nRECEIPT\nreceipt-id:2\n\n\0\n"
    await client.leave()


async def test_a_browser_session_needs_no_login(broker: SmallBroker) -> None:
    client = Conversation(broker, identity=Identity("anna"))
    await client.event()
    client.send(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
    assert b"\nuser-name:anna\n" in await client.data()
    await client.leave()


async def test_a_client_that_reads_nothing_gets_no_more_than_fits(broker: SmallBroker) -> None:
    client = await opened(broker)
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/big\nreceipt:s\n\n\0")
    await client.data()
    client.taking.clear()
    for _ in range(50):
        client.send(b"SEND\ndestination:/queue/big\n\n" + b"x" * 16_000 + b"\0")
        await broker.engine.wait_idle()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await broker.engine.wait_idle()
    assert broker.engine.broker.destinations.queues["/queue/big"].depth > 30
    client.taking.set()
    bodies = 0
    while bodies < 50:
        bodies += (await client.data()).count(b"MESSAGE\n")
    await client.leave()


async def test_unsettled_messages_return_when_the_websocket_ends(broker: SmallBroker) -> None:
    client = await opened(broker)
    client.send(
        b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client-individual\n\n\0SEND\ndestination:/queue/q\n\nx\0"
    )
    assert b"MESSAGE\n" in await client.data()
    await client.leave()
    await broker.engine.wait_idle()
    assert (broker.engine.broker.destinations.queues["/queue/q"].depth, len(broker.registry.sessions)) == (
        1,
        0,
    )


async def test_a_producer_is_told_that_the_store_is_full_and_then_at_once() -> None:
    """A browser's producer waited, without a word."""
    async with small_broker(limits=Limits(blocked_timeout_ms=50)) as broker:
        broker.engine.submit(StoreSpace(0))
        for _ in range(2):
            client = await opened(broker)
            client.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
            error = await client.data()
            assert error.startswith(b"ERROR\n") and b"receipt-id:1\n" in error
            assert b"/docs/problems/store-full" in error
            await client.leave()


async def test_a_client_that_speaks_in_text_is_answered_in_text(broker: SmallBroker) -> None:
    client = Conversation(broker)
    await client.event()
    client.send(CONNECT.decode())
    assert (await client.event())["text"].startswith("CONNECTED\n")
    client.send("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SEND\ndestination:/queue/a\n\nsch\u00f6n\0")
    assert "sch\u00f6n\0\n" in (await client.event())["text"]
    client.send(b"SEND\ndestination:/queue/a\n\n\xff\0")
    assert b"\n\n\xff\0\n" in (await client.event())["bytes"], "what is no text cannot come as text"
    client.send("BAD\n\n\0")
    assert (await client.event())["text"].startswith("ERROR\n")
    await client.leave()


async def test_a_client_that_speaks_in_bytes_is_answered_in_bytes(broker: SmallBroker) -> None:
    client = Conversation(broker)
    await client.event()
    client.send(CONNECT)
    assert (await client.event())["bytes"].startswith(b"CONNECTED\n")
    client.send("SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
    assert (await client.event())["bytes"].startswith(b"RECEIPT\n"), "CONNECT applies to the whole session"
    await client.leave()


async def test_a_refused_text_client_gets_the_error_as_text(broker: SmallBroker) -> None:
    client = Conversation(broker)
    await client.event()
    client.send("CONNECT\naccept-version:9\n\n\0")
    assert (await client.event())["text"].startswith("ERROR\n")
    assert (await client.event())["type"] == "websocket.close"
    await client.leave()


@pytest.mark.parametrize(("error", "noted"), [(ConnectionResetError(), 0), (ValueError(), 1)])
async def test_a_client_that_leaves_before_it_is_accepted_is_no_error_of_the_node(
    tmp_path: Path, error: Exception, noted: int
) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(event: Any) -> None:
        raise error

    async with small_node(tmp_path, policy_of(users={})) as running:
        before = internal_errors.of("a WebSocket")
        with pytest.raises(type(error)):
            await running.node.serve_websocket({"subprotocols": []}, receive, send, None)
        assert internal_errors.of("a WebSocket") - before == noted


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "binary"])
async def test_a_large_message_is_one_of_the_web_socket_too(broker: SmallBroker, as_text: bool) -> None:
    client = Conversation(broker)
    await client.event()
    client.send(CONNECT.decode() if as_text else CONNECT)
    await client.data()
    large = b"x" * (LARGE_BYTES + 1)
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    for body in (large, b"small"):
        client.send(b"SEND\ndestination:/queue/a\n\n%b\0" % body)
        event = await client.event()
        data = event["text"].encode() if as_text else event["bytes"]
        assert data.startswith(b"MESSAGE\n") and data.endswith(b"\n\n%b\0\n" % body)
    await client.leave()
