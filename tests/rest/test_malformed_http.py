"""Requests without a login over a real connection, limited in bytes and in time."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_app.config import Config
from broker_app.net.rest import RestLimits
from broker_app.net.server.listeners import listen
from broker_app.net.server.serve import serve
from tests.rest.conftest import MakeRest, Rest
from tests.support.patience import patient

HEAD = b"POST /api/v1/queues/a/messages HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
#: what a connection may take before it ends, with what lies in the buffers of both sides
FAR_TOO_MUCH = 64 * 1024 * 1024


@asynccontextmanager
async def serving(rest: Rest) -> AsyncIterator[int]:
    """The port of a REST API whose clients have a second for a head."""
    stop = asyncio.Event()
    listener = listen("127.0.0.1", 0)
    config = Config(drain=1, connect_timeout=1)
    served = asyncio.create_task(serve(rest.rest_api, config, listener, stop, rest.rest_api.direct))
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await served


@pytest.fixture
async def port(rest: Rest) -> AsyncIterator[int]:
    async with serving(rest) as port:
        yield port


async def answer_of(port: int, *parts: bytes) -> bytes:
    """The bytes received until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), patient(30))
    finally:
        writer.close()


async def sent_before_the_end(port: int, begin: bytes, more: bytes) -> int:
    """The number of bytes that a connection takes of repeated `more` before it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(reader.read())
    sent = 0
    try:
        writer.write(begin)
        while sent < FAR_TOO_MUCH and not answer.done():
            writer.write(more)
            await writer.drain()
            sent += len(more)
    except ConnectionError:
        pass
    finally:
        answer.cancel()
        await asyncio.wait([answer])
        writer.close()
    return sent


@pytest.mark.parametrize(
    "begin",
    [CHUNKED + b"0\r\n", CHUNKED + b"0\r\nx: ", CHUNKED + b"1;", b""],
    ids=["trailers", "a trailer", "a chunk extension", "empty lines"],
)
async def test_trailing_bytes_are_bounded(port: int, begin: bytes) -> None:
    more = {CHUNKED + b"0\r\n": b"x:y\r\n", b"": b"\r\n"}.get(begin, b"y" * 5)
    assert await sent_before_the_end(port, begin, more * 10_000) < FAR_TOO_MUCH


async def test_trailers_are_ignored(port: int) -> None:
    request = CHUNKED.replace(
        b"\r\n\r\n", b"\r\nauthorization: Bearer mom_alice\r\nconnection: close\r\n\r\n"
    )
    answer = await answer_of(port, request + b"1\r\nx\r\n0\r\nmom-priority: 77\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 201 ")


async def test_a_body_that_does_not_go_on_ends_the_connection(port: int) -> None:
    answer = await answer_of(port, HEAD + b"content-length: 100000\r\n\r\nx")
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"HTTP/1.1 408 " not in answer, "it was answered already"


async def test_empty_lines_do_not_keep_a_connection(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/v1/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (await asyncio.wait_for(reader.readuntil(b"}"), patient(30))).startswith(b"HTTP/1.1 200 ")
    writer.write(b"\r\n")
    assert (await asyncio.wait_for(reader.read(), patient(30))).startswith(b"HTTP/1.1 408 ")
    writer.close()


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /" + b"/" * 4_096 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", b"414"),
        (b"GET /api/v1/limits?" + b"&" * 5_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", b"401"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 301 + b"\r\n", b"431"),
    ],
    ids=["a long path", "a long query", "many headers"],
)
async def test_a_head_has_bounds(port: int, request_head: bytes, status: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_head)
    assert (await asyncio.wait_for(reader.readline(), patient(30))).split()[1] == status
    writer.close()


async def test_so_many_requests_wait_behind_another_at_most(port: int) -> None:
    request = b"GET /api/v1/limits HTTP/1.1\r\nhost: localhost\r\n\r\n"
    answer = await answer_of(port, request * 1_000)
    assert answer.count(b"HTTP/1.1 401 ") < 1_000


async def test_a_client_that_sends_its_whole_body_first_sees_that_it_is_too_large(
    make_rest: MakeRest,
) -> None:
    async with serving(make_rest(limits=RestLimits(max_body_bytes=1_000))) as port:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/queues/a/messages",
            bytes(8 * 1024 * 1024),
            {"Authorization": "Bearer mom_alice"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError) as refusal:
            await asyncio.to_thread(opener.open, request, timeout=30)
        assert refusal.value.code == 413
        refusal.value.close()
