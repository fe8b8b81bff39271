"""The fast path for WebSocket data frames: whatever the cuts, the same bytes; whatever is wrong, refused."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from broker_app.base import deadline
from broker_app.config import Config
from broker_app.net.server import serve_websocket
from broker_app.net.server.listeners import listen
from broker_app.net.server.serve import serve
from broker_app.net.server.serve_websocket import UNAUTHENTICATED_LIMIT
from tests.support.patience import patient

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Site:
    """Keeps what arrives; `ended` is set when a conversation is over."""

    trusts = True

    def __init__(self) -> None:
        self.received = bytearray()
        #: bytes of each event
        self.sizes: list[int] = []
        #: cleared while handshakes are not answered
        self.accepting = asyncio.Event()
        self.accepting.set()
        #: set when a handshake came
        self.asked = asyncio.Event()
        #: cleared while nothing is taken
        self.taking = asyncio.Event()
        self.taking.set()
        self.hung_up: Any = None
        self.send: Any = None
        self.in_text: list[bool] = []
        self.arrived = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        self.asked.set()
        await self.accepting.wait()
        await send({"type": "websocket.accept"})
        if self.trusts:
            scope["mom.authenticated"]()
        self.hung_up, self.send = scope["mom.hung_up"], send
        while (event := await receive())["type"] == "websocket.receive":
            self.in_text.append(event.get("mom.text", "text" in event))
            data = event["bytes"] if event.get("bytes") is not None else event["text"].encode()
            self.sizes.append(len(data))
            self.received += data
            self.arrived.set()
            await self.taking.wait()
        self.ended.set()

    async def wait_for(self, size: int) -> bytes:
        async with asyncio.timeout(patient(10)):
            while len(self.received) < size:
                self.arrived.clear()
                await self.arrived.wait()
        return bytes(self.received)


class Client:
    """A client that has done the handshake and writes frames as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes, pieces: int = 1) -> None:
        """Write `data` in pieces that arrive one by one."""
        cuts = sorted(random.sample(range(1, len(data)), min(pieces, len(data)) - 1)) if pieces > 1 else []
        for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
            self.writer.write(data[start:stop])
            await self.writer.drain()
            await asyncio.sleep(0)

    async def close_code(self) -> int:
        """The code with which the server ends the conversation."""
        async with asyncio.timeout(patient(10)):
            data = await self.reader.read()
        assert data[0] == 0x88, data
        return int.from_bytes(data[2:4], "big")


@pytest.fixture
async def site(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Site, Client]]:
    site, stop = Site(), asyncio.Event()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    config = Config(
        data=tmp_path, max_body_bytes=1_000_000, drain=1, heartbeat_ms=getattr(request, "param", 10_000)
    )
    serving = asyncio.create_task(serve(site, config, listener, stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    yield site, Client(reader, writer)
    writer.close()
    stop.set()
    await serving


def frame(data: bytes, opcode: Opcode = Opcode.BINARY, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=mask)


async def turns() -> None:
    """Let the server read what was written."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(8))
async def test_any_cut_of_any_frames_gives_the_same_bytes(
    site: tuple[Site, Client], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random.seed(seed)
    if seed % 2:  # whatever is taken in one turn
        monkeypatch.setattr(deadline, "TURN_S", -1.0)
        monkeypatch.setattr(serve_websocket, "_STEP", 50)
    sent, wire = b"", b""
    for _ in range(60):
        size = random.choice((0, 1, 100, 125, 126, 127, 65535, 65536, 70_000))
        kind = random.choice((Opcode.BINARY, Opcode.TEXT))
        data = (
            os.urandom(size) if kind is Opcode.BINARY else ("\u00e4\u20ac" * size).encode()[: size // 5 * 5]
        )
        sent += data
        if random.random() < 0.2:
            middle = len(data) // 2
            wire += (
                frame(data[:middle], kind, fin=False)
                + frame(b"", Opcode.PING)
                + frame(data[middle:], Opcode.CONT)
            )
        else:
            wire += frame(data, kind)
    await site[1].send(wire, pieces=random.choice((1, 3, 200)))
    assert await site[0].wait_for(len(sent)) == sent


async def test_a_ping_among_data_is_answered(site: tuple[Site, Client]) -> None:
    await site[1].send(frame(b"one") + frame(b"beat", Opcode.PING) + frame(b"two"))
    assert await site[0].wait_for(6) == b"onetwo"
    assert await site[1].reader.readexactly(6) == b"\x8a\x04beat"


async def test_data_before_a_close_is_handed_over(site: tuple[Site, Client]) -> None:
    await site[1].send(frame(b"last words") + frame(b"\x03\xe8", Opcode.CLOSE))
    await site[0].ended.wait()
    assert site[0].received == b"last words"
    assert await site[1].close_code() == 1000


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (frame(b"x", mask=False), 1002),
        (b"\xc2" + frame(b"x")[1:], 1002),
        (b"\x83" + frame(b"x")[1:], 1002),
        (b"\x82\xff" + (10_000_000).to_bytes(8, "big") + b"mask", 1009),
        (frame(b"x", Opcode.CONT), 1002),
        (frame(b"x", Opcode.CONT, fin=False), 1002),
        (frame(b"", fin=False) + frame(b"x"), 1002),
        (frame(b"", Opcode.TEXT, fin=False) + frame(b"x", Opcode.TEXT), 1002),
        (frame(b"\xff", Opcode.TEXT), 1007),
        (frame("\u20ac".encode()[:2], Opcode.TEXT), 1007),
        (frame("\ud800".encode("utf-8", "surrogatepass"), Opcode.TEXT), 1007),
        (frame(b"", Opcode.TEXT, fin=False) + frame(b"\xff", Opcode.CONT), 1007),
    ],
    ids=[
        "not masked",
        "a reserved bit",
        "a reserved opcode",
        "longer than allowed",
        "going on with nothing",
        "a fragment of nothing",
        "a message within another",
        "text within text",
        "no UTF-8",
        "a character that is cut",
        "a lonely surrogate",
        "a fragment that is no UTF-8",
    ],
)
async def test_a_frame_is_refused_that_is(site: tuple[Site, Client], wrong: bytes, code: int) -> None:
    await site[1].send(frame(b"good") + wrong)
    assert await site[1].close_code() == code
    await site[0].ended.wait()
    assert site[0].received == b"good"


async def test_a_client_that_is_not_known_may_send_short_messages_only(
    site: tuple[Site, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await asyncio.open_connection(*site[1].writer.get_extra_info("peername"))
    monkeypatch.setattr(site[0], "trusts", False)
    writer.write(HANDSHAKE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    stranger = Client(reader, writer)
    await stranger.send(
        frame(b"hello") + b"\x82\xff" + (UNAUTHENTICATED_LIMIT + 1).to_bytes(8, "big") + b"mask"
    )
    assert await stranger.close_code() == 1009
    assert await site[0].wait_for(5) == b"hello"
    writer.close()


async def test_a_character_may_be_cut_between_two_fragments(site: tuple[Site, Client]) -> None:
    euro = "\u20ac".encode()
    await site[1].send(
        frame(euro[:1], Opcode.TEXT, fin=False) + frame(euro[1:], Opcode.CONT) + frame(b"\xff")
    )
    assert await site[0].wait_for(4) == euro + b"\xff"


async def test_the_application_receives_whether_a_message_was_text(site: tuple[Site, Client]) -> None:
    await site[1].send(frame(b"a", Opcode.TEXT))
    await site[0].wait_for(1)
    await site[1].send(frame(b"b"))
    await site[0].wait_for(2)
    assert site[0].in_text == [True, False]


@pytest.mark.parametrize(("kind", "opcode"), [("bytes", Opcode.BINARY), ("text", Opcode.TEXT)])
async def test_a_large_message_is_sent_in_fragments(
    site: tuple[Site, Client], kind: str, opcode: Opcode
) -> None:
    await site[1].send(frame(b"a"))
    await site[0].wait_for(1)
    large = b"x" * (5 * 512 * 1024)
    content = large if kind == "bytes" else large.decode()
    sending = asyncio.ensure_future(site[0].send({"type": "websocket.send", kind: content}))
    heads, received = list[int](), b""
    async with asyncio.timeout(patient(10)):
        while not heads or not heads[-1] & 0x80:
            head, size = await site[1].reader.readexactly(2)
            if size > 125:
                size = int.from_bytes(await site[1].reader.readexactly(2 if size == 126 else 8))
            heads.append(head)
            assert size <= 1024 * 1024
            received += await site[1].reader.readexactly(size)
        await sending
    assert received == large
    assert heads == [opcode, Opcode.CONT, Opcode.CONT, 0x80 | Opcode.CONT]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (HANDSHAKE.replace(b"Version: 13", b"Version: 8"), b"HTTP/1.1 426 "),
        (HANDSHAKE.replace(b"Sec-WebSocket-Version: 13\r\n", b""), b"HTTP/1.1 426 "),
        (HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0"), b"HTTP/1.1 400 "),
    ],
    ids=["version 8", "no version", "HTTP/1.0"],
)
async def test_an_old_handshake_is_refused_with_the_supported_version(
    site: tuple[Site, Client], asked: bytes, status: bytes
) -> None:
    reader, writer = await asyncio.open_connection(*site[1].writer.get_extra_info("peername"))
    writer.write(asked)
    async with asyncio.timeout(patient(10)):
        answer = await reader.read()
    assert answer.startswith(status)
    assert b"\r\nsec-websocket-version: 13\r\n" in answer.lower()
    writer.close()


# ---------------------------------------------------------------------- pings


@pytest.mark.parametrize("site", [50], indirect=True)
async def test_a_client_is_not_given_up_while_nothing_is_read_of_it(site: tuple[Site, Client]) -> None:
    """Its pongs lie in the socket, behind what is not read."""
    here, client = site
    here.taking.clear()
    await client.send(frame(b"one"))
    await here.wait_for(3)
    await client.send(frame(b"two"))
    async with asyncio.timeout(patient(10)):
        assert (await client.reader.readexactly(6))[:1] == b"\x89"
    await asyncio.sleep(2.0)  # twenty times as long as it may take to answer, and longer than the last look
    here.taking.set()
    await client.send(frame(b"three"))
    assert await here.wait_for(11) == b"onetwothree"


@pytest.mark.parametrize("site", [50], indirect=True)
async def test_a_client_that_answers_nothing_is_given_up(site: tuple[Site, Client]) -> None:
    await site[1].send(frame(b"one"))
    await site[0].ended.wait()
    async with asyncio.timeout(patient(20)):
        said = await site[1].reader.read()
    assert b"\x88" in said and (1011).to_bytes(2, "big") in said


async def test_it_is_known_that_a_client_hung_up_although_nothing_is_read_of_it(
    site: tuple[Site, Client],
) -> None:
    here, client = site
    here.taking.clear()
    await client.send(frame(b"one"))
    await here.wait_for(3)
    await client.send(frame(b"two"))
    assert not here.hung_up()
    client.writer.close()
    async with asyncio.timeout(patient(10)):
        while not here.hung_up():
            await asyncio.sleep(0.01)
    assert here.received == b"one"
    here.taking.set()
    await here.wait_for(6)
    await here.ended.wait()


@pytest.mark.parametrize("kind", [Opcode.PING, Opcode.PONG])
async def test_many_control_frames_at_once_end_the_connection(
    site: tuple[Site, Client], kind: Opcode
) -> None:
    began = time.process_time()
    await site[1].send(frame(b"hello") + frame(b"", kind) * 20_000)
    async with asyncio.timeout(patient(30)):
        await site[0].ended.wait()
    assert bytes(site[0].received) == b"hello"
    assert time.process_time() - began < 0.5


async def test_messages_of_one_read_are_one_event_whatever_their_type(site: tuple[Site, Client]) -> None:
    messages = [frame(b"1", Opcode.TEXT), frame(b"2"), frame(b"3", fin=False), frame(b"4", Opcode.CONT)]
    await site[1].send(b"".join(messages) * 1_000)
    assert await site[0].wait_for(4_000) == b"1234" * 1_000
    assert len(site[0].in_text) < 100


async def test_the_frames_of_one_read_are_passed_on_in_turns(
    site: tuple[Site, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", -1.0)
    short = frame(b"x")
    await site[1].send(short * 30_000)
    assert await site[0].wait_for(30_000) == b"x" * 30_000
    assert max(site[0].sizes) <= serve_websocket._STEP // len(short) + 1


async def test_what_comes_before_the_handshake_is_answered_waits_for_the_answer_and_is_bounded_then(
    site: tuple[Site, Client],
) -> None:
    here, client = site
    here.accepting.clear()
    here.asked.clear()
    reader, writer = await asyncio.open_connection(*client.writer.get_extra_info("peername"))
    writer.write(HANDSHAKE)
    await here.asked.wait()
    writer.write(frame(b"hello") + frame(b"", Opcode.PING) * 1_000)
    await turns()
    here.accepting.set()
    assert await here.wait_for(5) == b"hello"
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    async with asyncio.timeout(patient(10)):
        assert (1008).to_bytes(2, "big") in await reader.read()
    writer.close()


async def test_behind_a_message_as_long_as_it_may_be_others_are_bounded_as_ever(
    site: tuple[Site, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site[0], "trusts", False)
    reader, writer = await asyncio.open_connection(*site[1].writer.get_extra_info("peername"))
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    longest = frame(b"x" * UNAUTHENTICATED_LIMIT)
    writer.write(longest[:-1])
    await turns()  # the rest is read by itself
    writer.write(longest[-1:] + frame(b"", Opcode.PING) * 1_000)
    assert await site[0].wait_for(UNAUTHENTICATED_LIMIT) == b"x" * UNAUTHENTICATED_LIMIT
    async with asyncio.timeout(patient(10)):
        assert (1008).to_bytes(2, "big") in await reader.read()
    writer.close()
