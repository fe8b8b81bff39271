"""Connections over HTTP that end, or go on, where a client does what clients seldom do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from broker_app.base import deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.net.server.listeners import listen
from broker_app.net.server.serve import Server
from broker_app.net.server.serve_http import HttpConnection, connection_type
from broker_app.net.server.serve_websocket import websocket_type
from tests.support.patience import patient

POST = b"POST /short HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Created:
    status, headers, content_type, body = 201, (), b"text/plain", b""


class FastPublish:
    """Takes everything."""

    max_body = 65_536

    def take(self, connection: Any, url: bytes, headers: Any, body: bytes) -> bool:
        if url == b"/short":
            asyncio.get_running_loop().call_soon(connection.answer, Created, [])
        return url == b"/short"


class Unflushed:
    """A transport whose client takes nothing: it is closed, and does not end."""

    def __init__(self) -> None:
        self.closing = False

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing


class Served:
    def __init__(self, port: int, server: Server) -> None:
        self.port, self.server = port, server
        #: paths of requests that the application was given
        self.asked: list[str] = []
        #: lets an answer to /bye go
        self.bye = asyncio.Event()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        self.asked.append(scope["path"])
        headers = [(b"content-length", b"0")]
        if scope["path"] == "/bye":
            await self.bye.wait()
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    listener = listen("127.0.0.1", 0)
    served: Served

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served.app(scope, receive, send)

    config = uvicorn.Config(
        app,
        loop="none",
        http=connection_type(65_536, 1.0, FastPublish(), None),  # type: ignore[arg-type]
        ws=websocket_type(None),
        lifespan="off",
        log_config=None,
        timeout_keep_alive=1,
        timeout_graceful_shutdown=1,
    )
    served = Served(listener.getsockname()[1], Server(config, 1.0))
    serving = asyncio.create_task(served.server.serve(sockets=[listener]))
    yield served
    served.server.should_exit = True
    await serving


async def open_to(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", served.port)


async def test_a_websocket_may_follow_a_message_on_a_connection_that_a_proxy_keeps(served: Served) -> None:
    reader, writer = await open_to(served)
    async with asyncio.timeout(patient(10)):
        writer.write(POST)
        assert b" 201 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(UPGRADE)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def test_a_body_behind_its_answer_does_not_keep_a_connection(served: Served) -> None:
    reader, writer = await open_to(served)
    async with asyncio.timeout(patient(10)):
        writer.write(b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n")
        assert b" 413 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" * 70_000)
        assert await reader.read() == b"", "it ends as one does over which nothing comes"
    writer.close()


async def test_nothing_is_done_behind_an_answer_that_closes(served: Served) -> None:
    reader, writer = await open_to(served)
    async with asyncio.timeout(patient(10)):
        begun = b"POST /second HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"
        writer.write(b"GET /bye HTTP/1.1\r\nhost: a\r\n\r\n" + begun)
        while not served.asked:
            await asyncio.sleep(0.01)
        served.bye.set()
        assert (await reader.read()).count(b"HTTP/1.1") == 1
    assert served.asked == ["/bye"]
    writer.close()


async def test_nothing_is_done_behind_a_body_whose_answer_closes(served: Served) -> None:
    reader, writer = await open_to(served)
    served.bye.set()
    async with asyncio.timeout(patient(10)):
        writer.write(b"POST /bye HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n")
        assert b" 413 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" * 70_000 + b"GET /second HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await reader.read() == b""
    assert served.asked == ["/bye"]
    writer.close()


@pytest.mark.parametrize(
    "wrong",
    [b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n", b"no HTTP\r\n\r\n" * 10_000],
    ids=["not ASCII", "not HTTP"],
)
async def test_bytes_that_are_not_http_end_only_their_connection(served: Served, wrong: bytes) -> None:
    """Also behind a message, and where the client takes no answer, so that the connection stays."""
    config = served.server.config
    while not served.server.started:
        await asyncio.sleep(0.01)
    connection: HttpConnection = config.http_protocol_class(  # type: ignore[assignment]
        config=config, server_state=served.server.server_state, app_state={}
    )  # type: ignore[call-arg]
    connection.certificates = None
    transport = Unflushed()
    uvicorn_made = super(HttpConnection, connection).connection_made
    uvicorn_made(transport)  # type: ignore[arg-type]
    connection.data_received(POST)
    await asyncio.sleep(0)
    connection.data_received(wrong)
    assert transport.closing
    connection.look(float("inf"))
    connection.connection_lost(None)


async def test_a_fault_at_one_connection_does_not_end_the_server(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "a connection over HTTP"
    before = internal_errors.of(place)
    reader, writer = await open_to(served)
    monkeypatch.setattr(HttpConnection, "look", lambda self, now: 1 / 0)
    async with asyncio.timeout(patient(10)):
        assert await reader.read() == b""
    assert internal_errors.of(place) == before + 1
    monkeypatch.undo()
    writer.close()
    reader, writer = await open_to(served)
    writer.write(POST)
    assert b" 201 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patient(10))
    writer.close()


class Reading(Unflushed):
    """A transport that knows whether it is read."""

    reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


async def test_a_long_read_is_parsed_in_several_turns_in_which_nothing_more_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    config = served.server.config
    while not served.server.started:
        await asyncio.sleep(0.01)
    connection: HttpConnection = config.http_protocol_class(  # type: ignore[assignment]
        config=config, server_state=served.server.server_state, app_state={}
    )  # type: ignore[call-arg]
    transport = Reading()
    super(HttpConnection, connection).connection_made(transport)  # type: ignore[arg-type]
    paths = [f"/{number:0400}" for number in range(90)]
    data = b"".join(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode() for path in paths)
    connection.data_received(data)
    assert not transport.reading
    turns = 0
    while not transport.reading:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2
    while len(served.asked) < len(paths):
        await asyncio.sleep(0)
    assert served.asked == paths
