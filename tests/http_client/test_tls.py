"""Exchanges over TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpRequest
from tests.callback.webhooks.receiver import Received, receiver
from tests.support.authority import Authority

NUMBERS = b"".join(b"%06d\n" % number for number in range(9_000))


async def in_small_records(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer with the numbers, a TLS record for each ten of them."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(NUMBERS))
    for start in range(0, len(NUMBERS), 70):
        writer.write(NUMBERS[start : start + 70])
    await writer.drain()


async def test_an_answer_of_many_records_comes_whole_and_the_connection_is_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files["tls_cert"], files["tls_key"])
    trust = ssl.create_default_context(cafile=str(authority.ca_file))
    client = HttpClient(AddressFilter(["127.0.0.1"]), tls=trust)
    async with receiver(tls=context) as there:
        there.behavior = in_small_records
        for _ in range(2):
            answer = await client.send(HttpRequest("POST", there.url, (), b"x" * 1_000_000, 20.0))
            assert answer.body == NUMBERS
        assert there.connections == 1
        await client.close()
