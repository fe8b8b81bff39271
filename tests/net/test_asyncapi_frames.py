"""Real frames of a live broker are as the AsyncAPI document describes them, each kind of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from broker_app.config import Config
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.net.server.subprotocols import JSON
from broker_app.rules.rule import DENY, Rule
from mom_client.stomp.encode import encode, unescape
from tests.callback.webhooks.hooks import callback, hooks
from tests.callback.webhooks.receiver import Received, answer, receiver
from tests.support.asyncapi import Described
from tests.support.small_node import SmallNode, policy_of, small_node
from tests.support.web import serving

POLICY = policy_of(users={"anna": [], "otto": []}, admins=["anna"])
DEADLINE_S = 20.0
NO_RIGHT = Rule("no", DENY, "/event/queue == orders", ("otto",))


class Broker:
    """A node that is served by HTTP, and what its document describes."""

    def __init__(self, small: SmallNode, port: int, described: Described) -> None:
        self.small = small
        self.url = f"127.0.0.1:{port}"
        self.described = described

    def websocket(self, subprotocol: str) -> websockets.connect:
        offered = [websockets.Subprotocol(subprotocol)]
        return websockets.connect(f"ws://{self.url}/ws", subprotocols=offered, proxy=None)

    @contextlib.asynccontextmanager
    async def rest(self, user: str = "anna") -> AsyncIterator[httpx.AsyncClient]:
        login = {"authorization": f"Bearer mom_{user}"}
        async with httpx.AsyncClient(
            base_url=f"http://{self.url}/api/v1", headers=login, timeout=20
        ) as client:
            yield client

    async def publish(self, destination: str, body: bytes, **headers: str) -> None:
        async with self.rest() as rest:
            reply = await rest.post(f"/{destination}/messages", content=body, headers=headers)
            assert reply.status_code == 201, reply.text


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with (
        small_node(tmp_path / "node", POLICY) as small,
        serving(small.node, Config(data=tmp_path)) as port,
        httpx.AsyncClient() as anonymous,
    ):
        document = (await anonymous.get(f"http://127.0.0.1:{port}/api/v1/asyncapi.json")).json()
        yield Broker(small, port, Described(document))


# ---------------------------------------------------------------------- JSON over WebSocket


class JsonClient:
    """A client that validates what it sends and what it receives."""

    def __init__(self, connection: ClientConnection, described: Described) -> None:
        self._connection = connection
        self._described = described
        self._refs = 0
        #: events that were not asked for yet
        self._others: list[dict[str, Any]] = []

    async def send(self, op: str, **members: Any) -> None:
        operation = {"op": op, **members}
        self._described.check(f"json.op.{op}", operation)
        await self._connection.send(json.dumps(operation))

    async def event(self, op: str, **members: Any) -> dict[str, Any]:
        """The first event of this kind and with these members that was not returned yet."""
        wanted = {"op": op, **members}.items()
        for event in self._others:
            if wanted <= event.items():
                self._others.remove(event)
                return event
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found: dict[str, Any] = json.loads(await self._connection.recv())
                self._described.check(f"json.event.{found['op']}", found)
                if wanted <= found.items():
                    return found
                self._others.append(found)

    async def ask(self, op: str, expected: str = "done", **members: Any) -> dict[str, Any]:
        self._refs += 1
        await self.send(op, ref=f"r{self._refs}", **members)
        return await self.event(expected, ref=f"r{self._refs}")


@contextlib.asynccontextmanager
async def json_client(broker: Broker, user: str = "anna") -> AsyncIterator[JsonClient]:
    async with broker.websocket(JSON) as connection:
        client = JsonClient(connection, broker.described)
        await client.ask("login", login=user, passcode=user)
        yield client


async def test_json_over_websocket(broker: Broker) -> None:
    bodies = (b'{"id": 7}', "application/json"), (b"a text", "text/plain"), (b"\0\1", "image/png")
    for body, content_type in bodies:
        await broker.publish("queues/orders", body, **{"content-type": content_type})
    await broker.publish("queues/bills", b"a bill")
    async with json_client(broker, "otto") as client:
        await client.ask("subscribe", id="m", queue="orders", credit=2)
        first, second = await client.event("message"), await client.event("message")
        await client.ask("extend", receipt=first["receipt"], extend_s=60)
        await client.ask("ack", receipt=first["receipt"])
        await client.ask("nack", receipt=second["receipt"], delay_s=0.0, reason="not now")
        await client.ask("ack", "problem", receipt="r1.wrong")
        await client.ask("credit", id="m", credit=5)
        await client.ask("subscribe", id="n", queue="bills", mode="notify", after=0)
        seqs = (await client.event("arrived"))["seqs"]
        await client.ask("pending", "pending", id="n", after=0)
        received = await client.ask("receive", "received", queue="bills", seqs=[*seqs, 1], lease_s=0)
        assert (len(received["items"]), len(received["missing"])) == (1, 1)
        await client.ask("nack", receipt=received["items"][0]["receipt"])
        await client.ask("receive", "received", queue="bills", seqs=seqs, exact=True)
        await client.ask("unsubscribe", id="n")
        registered = await client.ask("register", "registered", service="stock", events=["sold"])
        await client.ask("deregister", id=registered["id"])
        await client.ask("answer", "problem", call="0.1", parts=[{"body": "unasked"}])
        await client.ask("ping")
        await broker.small.rule(NO_RIGHT)
        await client.event("unsubscribed", sub="m")
    async with broker.websocket(JSON) as connection:
        stranger = JsonClient(connection, broker.described)
        await stranger.send("login", token="mom_wrong")
        await stranger.event("closed")
    assert broker.described.seen == broker.described.names("json")


async def test_what_is_wrong_does_not_fit(broker: Broker) -> None:
    fits = broker.described.fits
    good = {"op": "subscribe", "id": "1", "queue": "orders"}
    assert fits("json.op.subscribe", good)
    for wrong in (
        {**good, "op": "ack"},
        {**good, "colour": 1},
        {"op": "subscribe"},
        {**good, "mode": "poll"},
    ):
        assert not fits("json.op.subscribe", wrong)
    assert fits("json.event.done", {"op": "done", "ref": None})
    assert not fits("json.event.done", {"op": "done"})


# ---------------------------------------------------------------------- STOMP


class StompClient:
    """Sends and receives frames, and validates them; 1.2, bodies without NUL."""

    def __init__(
        self,
        described: Described,
        write: Callable[[bytes], Awaitable[None]],
        read: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._described = described
        self._write = write
        self._read = read
        #: frames that were not asked for yet
        self._others: list[tuple[str, dict[str, str]]] = []

    async def send(self, command: str, body: str = "", **given: str) -> None:
        headers = {name.replace("_", "-"): value for name, value in given.items()}
        self._described.check(f"stomp.{command}", body, headers)
        await self._write(encode(command.encode(), headers.items(), body.encode()))

    async def frame(self, name: str, **headers: str) -> dict[str, str]:
        """The headers of the first frame of this kind and with these headers that was not returned yet."""
        for command, found in self._others:
            if command == name and headers.items() <= found.items():
                self._others.remove((command, found))
                return found
        async with asyncio.timeout(DEADLINE_S):
            while True:
                command, found = await self._next()
                if command == name and headers.items() <= found.items():
                    return found
                self._others.append((command, found))

    async def _next(self) -> tuple[str, dict[str, str]]:
        head, _, body = (await self._read()).decode().lstrip("\n").partition("\n\n")
        command, *lines = head.split("\n")
        pairs = (line.split(":", 1) for line in reversed(lines))  # of repeated headers the first counts
        headers = {unescape(name): unescape(value) for name, value in pairs}
        payload: Any = body
        if headers.get("content-type") == "application/problem+json":
            payload = json.loads(body)
            command = {"MESSAGE": "REFUSAL"}.get(command, command)
        if headers.get("browser") == "end":
            command = "BROWSER_END"
        self._described.check(f"stomp.{command}", payload, headers)
        if command in MESSAGES:  # it is of one kind only
            others = [kind for kind in MESSAGES if kind != command]
            assert not any(self._described.fits(f"stomp.{other}", payload, headers) for other in others)
        return command, headers


@contextlib.asynccontextmanager
async def over_tcp(broker: Broker) -> AsyncIterator[StompClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.small.node.stomp_port)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    async def read() -> bytes:
        return (await reader.readuntil(b"\0"))[:-1]

    yield StompClient(broker.described, write, read)
    writer.close()


@contextlib.asynccontextmanager
async def over_websocket(broker: Broker) -> AsyncIterator[StompClient]:
    async with broker.websocket("v12.stomp") as connection:
        frames: list[bytes] = []

        async def read() -> bytes:
            while not frames:
                data = await connection.recv()
                data = data.encode() if isinstance(data, str) else data
                frames.extend(data.split(b"\0")[:-1])
            return frames.pop(0)

        yield StompClient(broker.described, connection.send, read)


#: the kinds of a MESSAGE
MESSAGES = ("MESSAGE", "REFUSAL", "BROWSER_END")
CLIENTS = {"tcp": over_tcp, "websocket": over_websocket}
LOGIN = {"accept_version": "1.2", "host": "/", "login": "anna", "passcode": "anna"}


@pytest.mark.parametrize("transport", CLIENTS)
async def test_stomp(broker: Broker, transport: str) -> None:
    connected = CLIENTS[transport]
    async with connected(broker) as client:
        soft = {"mom_soft_errors": "true", "client_id": "c"}
        await client.send("STOMP", **LOGIN, **soft, mom_service="orders", heart_beat="0,0")
        await client.frame("CONNECTED")
        await client.send("SUBSCRIBE", id="1", destination="/queue/orders", ack="client-individual")
        await client.send("SUBSCRIBE", id="2", destination="/queue/orders.dead", receipt="both")
        await client.frame("RECEIPT")
        for body in ("one", "two", "three"):
            await client.send("SEND", body, destination="/queue/orders", type="order", priority="5")
        found = [await client.frame("MESSAGE", subscription="1") for _ in range(3)]
        await client.send("ACK", id=found[0]["ack"])
        await client.send("NACK", id=found[1]["ack"], requeue="false", reason="bad")
        await client.frame("MESSAGE", subscription="2")
        await client.send("NACK", id=found[2]["ack"])
        await client.frame("MESSAGE", subscription="1", redelivered="true")
        await client.send("BEGIN", transaction="t")
        await client.send("SEND", "four", destination="/topic/news", transaction="t", delay_s="0.5")
        await client.send("COMMIT", transaction="t", receipt="committed")
        await client.frame("RECEIPT", **{"receipt-id": "committed"})
        await client.send("BEGIN", transaction="u")
        await client.send("ABORT", transaction="u")
        await client.send("ACK", id="999", receipt="refused")
        await client.frame("REFUSAL", **{"receipt-id": "refused"})
        await client.send("UNSUBSCRIBE", id="2")
        await client.send("SUBSCRIBE", id="3", destination="/queue/orders", browser="true")
        await client.frame("BROWSER_END", subscription="3")
        await client.send("DISCONNECT", receipt="end")
        await client.frame("RECEIPT", **{"receipt-id": "end"})
    async with connected(broker) as stranger:
        await stranger.send("CONNECT", **{**LOGIN, "passcode": "wrong"})
        await stranger.frame("ERROR")
    assert broker.described.seen == broker.described.names("stomp")


async def test_a_message_of_a_history_has_the_position_to_continue_from(broker: Broker) -> None:
    await broker.small.change(destinations=Destinations({"/topic/news": Own({"retention_s": 60}, 1)}))
    await broker.publish("topics/news", b"old")
    async with over_tcp(broker) as client:
        await client.send("CONNECT", **LOGIN)
        await client.frame("CONNECTED")
        await client.send("SUBSCRIBE", id="1", destination="/topic/news", **{"from": "first"})
        assert int((await client.frame("MESSAGE"))["seq"]) > 0


# ---------------------------------------------------------------------- event streams


@contextlib.asynccontextmanager
async def stream(
    broker: Broker, path: str, user: str = "anna"
) -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    """An event stream; gives a function that returns the data of the next event of a description."""
    async with broker.rest(user) as rest, rest.stream("GET", path) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        lines = reply.aiter_lines()
        assert await anext(lines) == ": connected"

        async def event(name: str) -> Any:
            fields: dict[str, str] = {}
            async for line in lines:
                if line and not line.startswith(":"):
                    field, _, value = line.partition(": ")
                    fields[field] = value
                elif not line and fields:
                    break
            data = json.loads(fields.pop("data"))
            broker.described.check(f"sse.{name}", data, fields)
            return data

        yield event


async def test_event_streams(broker: Broker) -> None:
    await broker.publish("queues/orders", b'{"id": 7}', **{"content-type": "application/json"})
    async with (
        stream(broker, "/queues/orders/events?mode=notify") as arrivals,
        stream(broker, "/queues/orders/tail?credit=1") as tail,
        stream(broker, "/topics/news/tail") as news,
        stream(broker, "/queues/orders/events?credit=2", "otto") as messages,
        stream(broker, "/stats/stream") as figures,
    ):
        await arrivals("arrived")
        await messages("message")
        async with broker.rest() as rest:
            batch = [{"body": number} for number in range(20)]
            assert (await rest.post("/queues/orders/messages/batch", json=batch)).status_code == 200
        await tail("seen")
        await tail("skipped")
        await broker.publish("topics/news", b"\0\xff")
        await news("seen")
        await figures("stats")
        await broker.small.rule(NO_RIGHT)
        await messages("message")
        await messages("problem")
    assert broker.described.seen == broker.described.names("sse")


# ---------------------------------------------------------------------- webhooks


async def test_webhooks(broker: Broker, tmp_path: Path) -> None:
    described = broker.described

    def check(push: Received, name: str) -> None:
        payload = push.json() if "json" in push.headers["content-type"] else push.body.decode()
        described.check(f"webhook.{name}", payload, push.headers)
        others = {"message", "structured", "arrived", "test", "challenge"} - {name}
        assert not [one for one in others if described.fits(f"webhook.{one}", payload, push.headers)]

    async with (
        hooks(tmp_path / "hooks", console_url="http://localhost:8000/console/") as own,
        receiver() as there,
    ):
        there.on_options = answer(405)
        await own.have(callback(there.url, authorization="Bearer x"))
        await own.state("running")
        asked, challenge = there.all
        described.check("webhook.handshake", asked.body.decode(), asked.headers)
        check(challenge, "challenge")
        described.check("webhook.echo", challenge.json())
        there.on_options = answer(200, webhook_allowed_origin="*")
        described.check("webhook.agreement", "", {"webhook-allowed-origin": "*"})
        await own.publish(
            b"a text", content_type="text/plain", headers={"type": "order.paid", "reply-to": "/queue/r"}
        )
        check((await there.count(1))[0], "message")
        tried = await own.node.features.callbacks.supervisor.test("hook")
        assert tried is not None and tried["ok"]
        check((await there.count(2))[1], "test")
        await own.have(callback(there.url, content="structured"))
        await own.publish(b'{"id": 7}', content_type="application/json")
        check((await there.count(3))[2], "structured")
        await own.have(callback(there.url, mode="notify"))
        await own.publish(b"x")
        check((await there.count(4))[3], "arrived")
        described.check("webhook.answer", "", {"retry-after": "3"})
    assert described.seen == described.names("webhook")
