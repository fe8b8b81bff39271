"""Links with TLS: between brokers with certificates of one authority, and not with others."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.conftest import Brokers
from tests.support.authority import Authority
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

NOT_ACCEPTED = "its certificate is not accepted"


def tls(authority: Authority, file: str = "server") -> dict[str, Any]:
    """The settings of a broker with a certificate of an authority, which it trusts."""
    trusted = {"tls_ca": authority.ca_file, "stomp_tls_port": -1}
    return {"cluster_transport": "tls", **trusted, **authority.server(file)}


async def links(broker: NodeProcess, trusts: Authority) -> dict[str, tuple[str, bool, str]]:
    """(state, whether with TLS, start of the reason) of each link."""
    login = httpx.BasicAuth(broker.user, broker.password)
    async with httpx.AsyncClient(verify=trusts.trusted(), auth=login) as http:
        found = (await http.get(f"https://127.0.0.1:{broker.port}/api/v1/cluster")).json()["links"]
    return {one["address"]: (one["state"], one["tls"], one["reason"][:31]) for one in found}


async def test_brokers_with_certificates_of_one_authority_are_linked_and_others_are_told_why_not(
    nodes: Nodes, tmp_path: Path
) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    brokers = Brokers(nodes, 3, **tls(ours))
    b1, b2, b3 = brokers
    b3.settings |= tls(other, "b3")
    brokers.start()
    to_b1, to_b2, to_b3 = brokers.addresses
    linked, refused = ("up", True, ""), ("refused", False, NOT_ACCEPTED)
    await becomes(lambda: links(b1, ours), {to_b2: linked, to_b3: refused})
    await becomes(lambda: links(b3, other), {to_b1: refused, to_b2: refused})
    async with b1.stomp() as producer, b2.stomp() as consumer, consumer.subscribe("/queue/a") as messages:
        await producer.send("/queue/a", b"over TLS")
        assert (await messages.get(20)).body == b"over TLS"

    ours.server("b3")  # its certificate is renewed, by our authority
    (tmp_path / "other.pem").write_bytes((tmp_path / "ours.pem").read_bytes())
    os.kill(b3.pid, signal.SIGHUP)
    await becomes(lambda: links(b3, ours), {to_b1: linked, to_b2: linked})


async def test_a_broker_with_tls_and_one_without_are_told_that_all_need_it(
    nodes: Nodes, tmp_path: Path
) -> None:
    ours = Authority(tmp_path)
    brokers = Brokers(nodes, 2, **tls(ours))
    b1, b2 = brokers
    b2.settings["cluster_transport"] = "tcp"
    brokers.start()
    to_b1, to_b2 = brokers.addresses
    await becomes(lambda: links(b1, ours), {to_b2: ("refused", False, "it does not speak TLS (wrong ve")})
    await becomes(lambda: links(b2, ours), {to_b1: ("refused", False, "this port speaks TLS: set clust")})
