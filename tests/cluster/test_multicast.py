"""Brokers that find each other by multicast, and strangers who pose as brokers on the same segment.

The segment is a network of its own, which has no other route.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_app.base.settings.discovery_uris import DEFAULT_GROUP
from broker_app.features.cluster.discovery.announcements import VALID_S, Announcement, Seal
from broker_app.features.cluster.discovery.multicast import MOST_PER_SECOND
from tests.cluster.conftest import SECRET
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.support.awaiting import becomes, until
from tests.support.cable import Cable, cable
from tests.support.node_process import NodeProcess, Nodes, nodes_in

BY_MULTICAST = {"discovery_uri": "multicast://default", "network_connector": "multicast://default"}
QUEUE = "/queue/orders"


@pytest.fixture(scope="module")
def segment() -> Iterator[Cable]:
    with cable() as made:
        yield made


@pytest.fixture(scope="module")
def far(processes: None, segment: Cable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Brokers on the machine at the far end."""
    with nodes_in(tmp_path_factory.mktemp("far"), segment.far) as made:
        yield made


@pytest.fixture(scope="module")
def two(
    processes: None, segment: Cable, far: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[NodeProcess]]:
    """Two brokers on two machines, which know nothing of each other but the secret."""
    common: dict[str, Any] = {
        "cluster_port": 7676, "cluster_secret": SECRET, "update_cluster_clients": True, **BY_MULTICAST,
    }  # fmt: skip
    with nodes_in(tmp_path_factory.mktemp("near")) as near:
        b1 = near.node("b1", host=segment.near_host, **common)
        b2 = far.node("b2", host=segment.host, **common)
        b1.start()
        b2.start()
        yield [b1, b2]


@contextmanager
def broker_posed() -> Iterator[socket.socket]:
    """A listener at the near end that counts who connects."""
    with socket.create_server((Cable.near_host, 0)) as listener:
        listener.setblocking(False)
        yield listener


def address_of(listener: socket.socket) -> str:
    return f"{Cable.near_host}:{listener.getsockname()[1]}"


def is_dialled(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def stranger(segment: Cable) -> Iterator[socket.socket]:
    """Somebody on the segment of the brokers, who sends to their group."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(Cable.near_host))
        sender.connect(DEFAULT_GROUP)
        yield sender


def announced(listener: str, incarnation: str, late_s: float = 0.0) -> Announcement:
    return Announcement("default", "b9", listener, incarnation, round((time.time() - late_s) * 1000))


async def test_brokers_that_know_only_the_group_are_linked_and_pass_messages_on(
    two: list[NodeProcess],
) -> None:
    b1, b2 = two
    await becomes(lambda: linked(b1), 1)
    async with b1.stomp() as producer, b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        await producer.send(QUEUE, b"crosses")
        assert bodies(await take(messages, 1)) == [b"crosses"]


async def test_who_has_not_the_secret_makes_no_broker_connect_anywhere(
    two: list[NodeProcess], stranger: socket.socket
) -> None:
    seal, other = Seal(SECRET), Seal("a secret that somebody has guessed")
    with broker_posed() as altered, broker_posed() as guessed, broker_posed() as old, broker_posed() as real:
        datagram = seal.signed(announced(address_of(real), "altered"))
        stranger.send(datagram.replace(address_of(real).encode(), address_of(altered).encode()))
        stranger.send(other.signed(announced(address_of(guessed), "guessed")))
        stranger.send(seal.signed(announced(address_of(old), "old", late_s=VALID_S + 10)))
        stranger.send(b"x" * 60_000)
        stranger.send(seal.signed(announced(address_of(real), "real")))
        await until(lambda: is_dialled(real))  # datagrams are taken in order: the others have been, too
        assert [is_dialled(one) for one in (altered, guessed, old)] == [False] * 3
    for code in ("unauthorized", "expired", "protocol-error"):
        assert f"is ignored ({code})" in two[0].log


async def test_an_announcement_that_is_sent_again_is_ignored(
    two: list[NodeProcess], stranger: socket.socket
) -> None:
    datagram = Seal(SECRET).signed(announced("10.200.0.1:9", "repeated"))
    stranger.send(datagram)
    stranger.send(datagram)
    await until(lambda: "is ignored (repeated)" in two[0].log)


async def test_an_address_of_loopback_is_refused_with_a_sentence(
    two: list[NodeProcess], stranger: socket.socket
) -> None:
    for number in range(3):
        stranger.send(Seal(SECRET).signed(announced("127.0.0.1:9", f"loopback {number}")))
    sentence = "127.0.0.1:9 is another machine for each broker: set cluster_host of that broker"
    await until(lambda: sentence in two[0].log)
    async with two[0].rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    assert "127.0.0.1:9" not in {link["address"] for link in links}
    assert two[0].log.count(sentence) == 1


async def test_a_flood_of_datagrams_costs_a_broker_little(
    two: list[NodeProcess], stranger: socket.socket
) -> None:
    forged = Seal("a secret that somebody has guessed").signed(announced("10.200.0.1:9", "flood"))
    before, sent = processor_s(two[0]), 0
    ends = time.monotonic() + 2.0
    while time.monotonic() < ends:
        for _ in range(500):
            stranger.send(forged)
        sent += 500
        await asyncio.sleep(0)
    used = processor_s(two[0]) - before
    assert sent > 10 * MOST_PER_SECOND
    assert used < 0.2, f"{used:.2f} s of processor time for {sent:,} datagrams"
    async with two[0].rest() as http:
        assert (await http.get("/cluster")).status_code == 200


async def test_a_broker_that_clients_of_the_others_cannot_reach_warns_of_that_and_is_on_no_list(
    two: list[NodeProcess], far: Nodes
) -> None:
    b1, _ = two
    listed: dict[str, Any] = {"cluster_host": Cable.host, "cluster": (f"{Cable.near_host}:7676",)}
    b3 = far.node("b3", cluster_port=7677, cluster_secret=SECRET, **listed)
    b3.start()

    async def places() -> dict[str, str]:
        async with b1.rest() as http:
            found = (await http.get("/cluster/lists")).json()["brokers"]
        return {one["broker"]: one["state"] for one in found}

    await becomes(places, {"b2": "listed", "b3": "no-address"})
    warning = "clients of the other brokers are not sent to this one: stomp://127.0.0.1:"
    assert warning in b3.log
    assert "are not sent to this one" not in b1.log
    b3.kill()


def processor_s(node: NodeProcess) -> float:
    """The processor time that a broker has used."""
    user, system = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
