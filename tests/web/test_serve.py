"""The web server, on real sockets: routes, origins, sessions, sizes, and how they stop."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


class Served:
    """A process that serves a fake node."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, tls: bool = False) -> None:
        self.process = process
        self.port = port
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    def websocket(self, path: str = "/ws", **options: Any) -> connect:
        return connect("ws" + self.url.removeprefix("http") + path, proxy=None, **options)

    async def stop(self) -> tuple[int, str]:
        """Asks it to stop; returns its exit code and what else it printed."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = await asyncio.wait_for(self.process.communicate(), patient(15))
        assert self.process.returncode is not None
        return self.process.returncode, out.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One server for all tests that leave it running."""
    async with serving(tmp_path_factory.mktemp("data")) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def to_stop(tmp_path: Path) -> AsyncIterator[Served]:
    """A server of one's own, to be stopped."""
    async with serving(tmp_path) as served:
        yield served


@asynccontextmanager
async def serving(data: Path, further: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Served]:
    settings = {"MOM_DATA": str(data), "MOM_DRAIN": "1", "MOM_CONNECT_TIMEOUT": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.web.fake_node",
        cwd=ROOT,
        env={**os.environ, **settings, "MOM_ALLOWED_HOSTS": "https://ops.example", **further},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(await asyncio.wait_for(process.stdout.readline(), patient(30)))
    yield Served(process, port, "MOM_TLS_CERT" in further)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def test_the_data_plane_goes_past_django_and_the_rest_does_not(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as client:
        data = await client.post("/api/v1/queues/a/messages", content=b"x" * 100_000)
        assert (data.status_code, data.headers["x-plane"], len(data.content)) == (200, "data", 100_000)
        control = await client.get("/api/v1/tokens")
        assert control.status_code == 401
        assert control.headers["content-type"] == "application/problem+json"
        assert json.loads(control.content)["type"] == "/docs/problems/not-authenticated"


async def test_static_files_and_pages_come_from_django(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as client:
        style = await client.get("/static/admin/css/base.css")
        assert (style.status_code, style.headers["content-type"]) == (200, 'text/css; charset="utf-8"')
        assert "access-control-allow-origin" not in style.headers
        page = await client.get("/login/")
        assert page.status_code == 200
        assert "default-src 'self'" in page.headers["content-security-policy"]
        strange = await client.get("/login/", headers={"Host": "evil.example"})
        assert strange.status_code == 400


async def test_websockets_reach_the_node_with_the_user_of_their_session(served: Served) -> None:
    async with served.websocket() as program:
        assert await program.recv() == "nobody"
        await program.send("text")
        assert await program.recv(decode=False) == b"text"
        await program.send(b"\x00bytes")
        assert await program.recv(decode=False) == b"\x00bytes"
    headers = {"Cookie": "other=1; mom_session=good"}
    async with served.websocket(
        additional_headers=headers, origin=served.url, subprotocols=["v12.stomp"]
    ) as page:
        assert await page.recv() == "john"
        assert page.subprotocol == "v12.stomp"
    async with served.websocket(origin="https://ops.example") as listed:
        assert await listed.recv() == "nobody"


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null"])
async def test_a_websocket_from_another_page_is_refused(served: Served, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        async with served.websocket(origin=origin):
            pass
    assert refusal.value.response.status_code == 403


async def test_a_websocket_elsewhere_is_refused(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        async with served.websocket("/elsewhere"):
            pass
    assert refusal.value.response.status_code == 403


async def test_a_large_frame_passes(served: Served) -> None:
    async with served.websocket(max_size=None) as program:
        await program.recv()
        await program.send(bytes(16 * MIB))
        assert await program.recv() == bytes(16 * MIB)


async def test_a_long_body_is_refused_before_django_sees_it(served: Served) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(100_000)

    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as client:
        for content in (bytes(2 * MIB), endless()):
            reply = await client.post("/api/v1/tokens", content=content)
            assert reply.status_code == 413
            assert reply.headers["content-type"] == "application/problem+json"
            assert json.loads(reply.content)["limit"] == MIB


async def test_a_head_without_end_ends_the_connection(served: Served) -> None:
    # One byte more than is taken, so that all of it has been read when the answer comes.
    head = b"GET / HTTP/1.1\r\nx: ".ljust(64 * 1024 + 1, b"x")
    reply = await exchange(served, head)
    assert reply.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("request_so_far", [b"", b"GET / HTTP/1.1\r\nhost: "])
async def test_a_client_that_sends_its_request_too_slowly_is_disconnected(
    served: Served, request_so_far: bytes
) -> None:
    assert (await exchange(served, request_so_far)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("length", [1_000, 99_999_999_999])
async def test_a_body_for_a_page_has_to_come_in_time(served: Served, length: int) -> None:
    head = b"GET /login/ HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\nx" % length
    assert (await exchange(served, head)).startswith(b"HTTP/1.1 408")


async def test_it_stops_with_an_open_websocket_and_a_waiting_request(to_stop: Served) -> None:
    async with (
        httpx.AsyncClient(base_url=to_stop.url, trust_env=False) as client,
        to_stop.websocket() as program,
    ):
        await program.recv()
        waiting = asyncio.create_task(client.post("/api/v1/queues/a/wait"))
        idle = await client.get("/api/v1/tokens")
        assert idle.status_code == 401
        code, rest = await to_stop.stop()
        assert (code, rest.splitlines()[-1]) == (0, "stopped")
        assert await closing_code(program) == 1012
        await asyncio.wait([waiting])
        assert waiting.exception() is not None or waiting.result().status_code >= 500


async def exchange(served: Served, request: bytes) -> bytes:
    """The bytes received until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), patient(20))
    finally:
        writer.close()


async def test_it_stops_without_clients(to_stop: Served) -> None:
    assert await to_stop.stop() == (0, "stopped\n")


async def closing_code(program: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        await program.recv()
    return closed.value.rcvd.code if closed.value.rcvd is not None else None
