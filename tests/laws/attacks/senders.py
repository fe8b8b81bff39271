"""Clients that send 1 MiB as an ordinary user, and return what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial

import httpx
import websockets
from websockets.typing import Subprotocol

from tests.support.broker_process import BrokerProcess
from tests.support.node_process import NodeProcess
from tests.support.patience import patient

MIB = 1024 * 1024
#: the ordinary user
USER, PASSWORD = "ann", "pw-of-ann-9"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:pw-of-ann-9\n\n\0"
#: of a client whose connection outlives what is refused
LENIENT = CONNECT[:-2] + b"mom-soft-errors:true\n\n\0"
STOMP, JSON = Subprotocol("v12.stomp"), Subprotocol("mom.v1.json")
LAST = b"SEND\ndestination:/queue/last\nreceipt:last\n\n\0"

Broker = NodeProcess | BrokerProcess
#: returns what came of it
Attack = Callable[[Broker], Awaitable[str]]
Attacks = dict[tuple[str, str], Attack]


def filled(each: Callable[[int], bytes]) -> bytes:
    """1 MiB of frames, each with its number."""
    data = bytearray()
    number = 0
    while len(data) < MIB:
        data += each(number)
        number += 1
    return bytes(data)


async def over_tcp(node: Broker, data: bytes, connect: bytes = CONNECT) -> str:
    """Send STOMP frames, and wait for the receipt of the last one or a refusal; returns which it was."""
    reader, writer = await asyncio.open_connection(node.host, node.stomp_port)
    try:
        writer.write(connect)
        assert b"CONNECTED" in await reader.readuntil(b"\0")
        writer.write(data + LAST)
        return await answer_from(partial(reader.read, 1 << 18))
    except ConnectionError:
        return "closed"
    finally:
        writer.close()


async def answer_from(read: Callable[[], Awaitable[bytes]]) -> str:
    """The receipt of the last frame, or the refusal that came instead."""
    received = b""
    while piece := await read():
        received = received[-1_000:] + piece
        if b"receipt-id:last" in received:
            return "done"
        if b"ERROR\n" in received:
            return received[received.index(b"ERROR\n") :].split(b"message:")[-1][:70].split(b"\n")[0].decode()
    return "closed"


def stomp(
    each: Callable[[int], bytes], before: bytes = b"", after: bytes = b"", connect: bytes = CONNECT
) -> Attack:
    """1 MiB of STOMP frames over TCP."""

    async def attack(node: Broker) -> str:
        return await over_tcp(node, before + filled(each) + after, connect)

    return attack


def over_web_socket(each: Callable[[int], bytes]) -> Attack:
    """STOMP in one message of a WebSocket."""

    async def attack(node: Broker) -> str:
        url = f"ws://{node.host}:{node.port}/ws"
        async with websockets.connect(url, subprotocols=[STOMP], max_size=None) as link:
            await link.send(CONNECT)
            await link.recv()
            await link.send(filled(each) + LAST)

            async def read() -> bytes:
                piece = await link.recv()
                return piece.encode() if isinstance(piece, str) else piece

            return await answer_from(read)

    return attack


def in_json(each: Callable[[int], dict[str, object]]) -> Attack:
    """Operations in one message of a WebSocket."""

    async def attack(node: Broker) -> str:
        url = f"ws://{node.host}:{node.port}/ws"
        data = filled(lambda number: json.dumps(each(number)).encode())
        async with websockets.connect(url, subprotocols=[JSON], max_size=None) as link:
            await link.send(json.dumps({"op": "login", "login": USER, "passcode": PASSWORD}))
            await link.recv()
            try:
                await link.send(data)
                await link.send(json.dumps({"op": "ping", "ref": "last"}))
                async for answer in link:
                    if b'"last"' in (answer.encode() if isinstance(answer, str) else answer):
                        return "done"
            except websockets.ConnectionClosed as closed:
                return str(closed)[:70]
            return "closed"

    return attack


def client(broker: Broker, user: str = USER) -> httpx.AsyncClient:
    """A client of REST as the ordinary user, or as the administrator."""
    login = httpx.BasicAuth(user, broker.password if user == broker.user else PASSWORD)
    return httpx.AsyncClient(base_url=f"{broker.url}/api/v1", auth=login, timeout=patient(60))


def rest(
    method: str, path: str, content: Callable[[], bytes] = lambda: b"", user: str = USER, **headers: str
) -> Attack:
    """One request."""

    async def attack(node: Broker) -> str:
        async with client(node, user) as http:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            reply = await http.request(method, path, content=content(), headers=named)
            assert reply.status_code < 500, reply.text
            return f"{reply.status_code} {reply.text[:60]}"

    return attack
