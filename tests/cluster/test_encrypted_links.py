"""Connections between brokers over TLS: encrypted, and only to brokers whose certificate is trusted."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.conftest import Brokers
from tests.support.authority import Authority
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient

TLS: dict[str, Any] = {"cluster_transport": "tls", "stomp_tls_port": -1}


async def link(node: NodeProcess, trusted: ssl.SSLContext, address: str) -> tuple[str, bool, bool]:
    """(state, whether it is encrypted, whether a certificate is refused) of the link to an address."""
    login = httpx.BasicAuth(node.user, node.password)
    web = f"https://127.0.0.1:{node.port}/api/v1"
    async with httpx.AsyncClient(base_url=web, auth=login, verify=trusted) as http:
        rows = (await http.get("/cluster/links")).json()["items"]
    row = next(row for row in rows if row["address"] == address)
    return row["state"], row["tls"], "certificate" in row["reason"]


async def test_brokers_are_linked_over_tls_if_they_have_certificates_of_an_authority_that_is_trusted(
    nodes: Nodes, tmp_path: Path
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    brokers = Brokers(nodes, 3, **TLS)
    for node, issuer in zip(brokers, (authority, authority, other), strict=True):
        node.settings |= {"tls_ca": issuer.ca_file, **issuer.server(node.name)}
    brokers.start()
    b1, b2, _ = brokers
    trusted, (_, second, third) = authority.trusted(), brokers.addresses
    await becomes(lambda: link(b1, trusted, second), ("up", True, False))
    await becomes(lambda: link(b1, trusted, third), ("refused", False, True))
    async with b1.stomp() as producer, b2.stomp() as consumer, consumer.subscribe("/queue/q") as messages:
        await producer.send("/queue/q", b"hello")
        async with asyncio.timeout(patient(20)):
            assert (await anext(messages)).body == b"hello"
