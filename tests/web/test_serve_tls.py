"""TLS on the web port, on real sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.support.authority import Authority
from tests.support.patience import patient
from tests.web.test_serve import Served, exchange, serving

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One server for all tests; the last one stops it."""
    files = {**authority.server(), "tls_ca": authority.ca_file}
    settings = {f"MOM_{name.upper()}": str(path) for name, path in files.items()}
    settings |= {"MOM_TLS_CLIENT_CERTIFICATES": "optional", "MOM_CONNECT_TIMEOUT": "3"}
    async with serving(tmp_path_factory.mktemp("data"), settings) as served:
        yield served


def client(served: Served, tls: ssl.SSLContext) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=served.url, verify=tls, trust_env=False)


async def serial(served: Served, tls: ssl.SSLContext) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=tls)
    writer.close()
    return str(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"])


async def test_pages_messages_and_websockets_pass_over_tls(served: Served, authority: Authority) -> None:
    tls = authority.trusted()
    async with client(served, tls) as program:
        data = await program.post("/api/v1/queues/a/messages", content=b"x" * 100_000)
        assert (data.status_code, len(data.content)) == (200, 100_000)
        page = await program.get("/login/")
        assert "; Secure" in page.headers["set-cookie"]
        assert page.headers["strict-transport-security"] == "max-age=31536000"
    async with served.websocket(ssl=tls) as websocket:
        assert await websocket.recv() == "nobody"
        await websocket.send(bytes(1_000_000))
        assert await websocket.recv() == bytes(1_000_000)
    async with served.websocket(ssl=tls, origin=served.url) as page_of_ours:
        assert await page_of_ours.recv() == "nobody"


async def test_a_client_certificate_authenticates_a_websocket(served: Served, authority: Authority) -> None:
    john = authority.trusted(authority.user("john"))
    async with served.websocket(ssl=john) as websocket:
        assert await websocket.recv() == "john"
    cookie = {"Cookie": "mom_session=good"}
    jane = authority.trusted(authority.user("jane"))
    async with served.websocket(ssl=jane, additional_headers=cookie) as websocket:
        assert await websocket.recv() == "john"


async def test_plain_http_on_the_tls_port_is_reported(served: Served) -> None:
    answer = await exchange(served, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'"detail":"this port accepts only https and wss"' in answer


async def test_a_client_without_a_handshake_is_disconnected_after_the_timeout(served: Served) -> None:
    for begun in (b"", b"\x16\x03\x01\x02\x00\x01"):
        with contextlib.suppress(ConnectionResetError):
            assert await exchange(served, begun) == b""


async def test_a_new_certificate_is_shown_to_new_connections(served: Served, authority: Authority) -> None:
    tls = authority.trusted()
    async with served.websocket(ssl=tls) as websocket:
        await websocket.recv()
        before = await serial(served, tls)
        authority.server()
        async with asyncio.timeout(patient(10)):
            while await serial(served, tls) == before:
                await asyncio.sleep(0.05)
        await websocket.send("still here")
        assert await websocket.recv(decode=False) == b"still here"


async def test_it_stops_with_a_websocket_open(served: Served, authority: Authority) -> None:
    async with served.websocket(ssl=authority.trusted()) as websocket:
        await websocket.recv()
        code, rest = await served.stop()
        assert (code, rest.splitlines()[-1]) == (0, "stopped")
