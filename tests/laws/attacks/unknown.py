"""Inputs from clients that have not logged in, or whose conversation has ended."""

from __future__ import annotations

import asyncio
from functools import partial

from broker_app.net.server.serve_websocket import UNAUTHENTICATED_LIMIT
from tests.laws.attacks.clients import UPGRADE, small_messages
from tests.laws.attacks.senders import CONNECT, MIB, Attack, Attacks, Broker, answer_from
from tests.support.patience import patient

IN_JSON = UPGRADE.replace(b"v12.stomp", b"mom.v1.json")
LEAVE = b"DISCONNECT\nreceipt:last\n\n\0"


def over_stomp(*parts: bytes) -> Attack:
    """Bytes over TCP, until the broker ends the connection."""

    async def attack(node: Broker) -> str:
        return await _sent(node, node.stomp_port, *parts)

    return attack


def over_web_port(*parts: bytes, upgrade: bytes = UPGRADE) -> Attack:
    """The handshake of a WebSocket, and bytes behind its answer."""

    async def attack(node: Broker) -> str:
        return await _sent(node, node.port, upgrade, *parts)

    return attack


async def _sent(node: Broker, port: int, *parts: bytes) -> str:
    """Send parts, each when the former one was taken; returns how the last answer begins."""
    reader, writer = await asyncio.open_connection(node.host, port)
    received = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.05)  # it is read by itself
        async with asyncio.timeout(patient(5)):
            while piece := await reader.read(1 << 18):
                received = piece
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    return received[:60].decode(errors="replace")


def early(frames: bytes) -> Attack:
    """Frames that follow the handshake without a pause."""

    async def attack(node: Broker) -> str:
        return await _sent(node, node.port, UPGRADE + frames)

    return attack


async def behind_the_end(node: Broker) -> str:
    """Leave, and go on to send."""
    reader, writer = await asyncio.open_connection(node.host, node.port)
    try:
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        for frame in (CONNECT, LEAVE):
            writer.write(masked(frame))
        came = await answer_from(partial(reader.read, 1 << 18))
        writer.write(small_messages(b"\n", 0x82))
        await writer.drain()
        return came
    except ConnectionError:
        return "closed"
    finally:
        writer.close()


def masked(payload: bytes) -> bytes:
    """A message in one frame."""
    return b"\x82\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


LONGEST = masked(b"\n" * UNAUTHENTICATED_LIMIT)

UNKNOWN: Attacks = {
    ("STOMP, before the login", "line feeds"): over_stomp(b"\n" * MIB),
    ("STOMP, before the login", "NUL bytes"): over_stomp(b"\0" * MIB),
    ("STOMP, before the login", "SEND"): over_stomp(b"SEND\ndestination:/queue/a\n\n\0" * (MIB // 30)),
    ("STOMP, before the login", "header lines"): over_stomp(b"CONNECT\n" + b"a:\n" * (MIB // 3)),
    ("STOMP, before the login", "escapes"): over_stomp(b"CONNECT\na:" + rb"\c" * (MIB // 2)),
    ("STOMP, before the login", "a login, and CONNECT"): over_stomp(CONNECT * (MIB // len(CONNECT))),
    ("WebSocket, before the login", "frames of one byte"): over_web_port(small_messages(b"\n", 0x82)),
    ("WebSocket, before the login", "fragments"): over_web_port(b"\x02" + small_messages(b"\n", 0)[1:]),
    ("WebSocket, before the login", "pings"): over_web_port(small_messages(b"", 0x89)),
    ("WebSocket, before the login", "frames before the answer"): early(small_messages(b"\n", 0x82)),
    ("WebSocket, before the login", "frames behind the longest"): over_web_port(
        LONGEST[:-1], b"\n" + small_messages(b"\n", 0x82)
    ),
    ("WebSocket", "frames behind the end"): behind_the_end,
    ("JSON, before the login", "spaces"): over_web_port(small_messages(b" ", 0x82), upgrade=IN_JSON),
    ("JSON, before the login", "braces"): over_web_port(small_messages(b"{", 0x82), upgrade=IN_JSON),
}
