"""Events name the clients that sent, received and forwarded messages, whatever way they came."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyspark_mom.options import parse
from tests.pipeline.stage import read_rows
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.polling import poll

Client = tuple[str, str | None, str | None]


@pytest.fixture
def nodes(processes: None, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


def clients_of(node: NodeProcess, queue: str = "*") -> list[Client]:
    """(event, user, client id) of each event but deliveries in order, in the order of the journal."""
    options = parse({"url": f"file://{node.data / 'journal'}", "destinations": f"/queue/{queue}"})
    rows = read_rows(options, "event", "user", "client_id")
    found = [(row["event"], row["user"], row["client_id"]) for row in rows]
    return [one for one in found if one not in (("DELIVER", None, None), ("FORWARD", None, None))]


def talk(node: NodeProcess, frames: str, answers: int) -> None:
    """Send frames as the STOMP client `till-1`, and read until that many frames came behind CONNECTED."""
    login = f"login:{node.user}\npasscode:{node.password}\nclient-id:till-1"
    with socket.create_connection((node.host, node.stomp_port), 30) as connection:
        connection.sendall(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0{frames}".encode())
        got = b""
        while got.count(b"\0") < 1 + answers:
            more = connection.recv(10_000)
            assert more, got
            got += more
    assert b"ERROR" not in got, got


def test_stomp_clients_are_named_by_login_and_client_id(nodes: Nodes) -> None:
    node = nodes.node("n")
    node.start()
    send = "SEND\ndestination:/queue/a\n{}\nx\0"
    frames = send.format("") + "BEGIN\ntransaction:t\n\n\0" + send.format("transaction:t\n")
    frames += "COMMIT\ntransaction:t\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/a\nack:auto\n\n\0"
    talk(node, frames, answers=2)
    node.terminate()
    assert clients_of(node) == [("ENQUEUE", "admin", "till-1")] * 2 + [("ACK", "admin", "till-1")] * 2


@asynccontextmanager
async def rest_of(node: NodeProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with node.rest() as rest:
        rest.event_hooks["response"].append(check)
        yield rest


async def check(response: httpx.Response) -> None:
    response.raise_for_status()


async def every_way_of_rest(node: NodeProcess) -> None:
    item: dict[str, Any] = {"body": "x"}
    async with rest_of(node) as rest:
        await rest.post("/queues/a/messages", content=b"x")  # the full path, which makes the login known
        await rest.post("/queues/a/messages", content=b"x")  # the fast path
        await rest.post("/queues/a/messages/batch", json=[item])
        await rest.post("/queues/a/messages/batch?atomic=true", json=[item])
        lines = {"content-type": "application/x-ndjson"}
        await rest.post("/queues/a/messages/batch", content=b'{"body": "x"}\n', headers=lines)
        taken = (await rest.post("/queues/a/receive", json={"max": 2})).json()["items"]
        await rest.delete(f"/leases/{taken[0]['receipt']}")
        await rest.post(f"/leases/{taken[1]['receipt']}/nack", json={"dead": True})
        await rest.post("/queues/a/receive", json={"ack": "auto"})
        async with rest.stream("GET", "/queues/a/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    break


def test_users_of_rest_are_named(nodes: Nodes) -> None:
    node = nodes.node("n")
    node.start()
    asyncio.run(every_way_of_rest(node))
    node.terminate()
    found = clients_of(node, "a")
    assert found[:5] == [("ENQUEUE", "admin", None)] * 5
    assert [event for event, *_ in found[5:]] == ["ACK", "NACK", "DEADLETTER", "ACK", "NACK"]
    assert {tuple(client) for event, *client in found if event != "DEADLETTER"} == {("admin", None)}


def test_a_bridge_is_named_where_it_takes_messages_and_where_it_brings_them(nodes: Nodes) -> None:
    west = nodes.node("west")
    west.start()
    home = nodes.node("home")
    home.bridge_to(west, "west")
    home.start()
    talk(home, "SEND\ndestination:/queue/storeAndForward:west/queue/a\nreceipt:1\n\nx\0", answers=1)

    def arrived() -> bool:
        return len(clients_of(west)) > 0 and len(clients_of(home)) > 1

    poll(arrived)
    home.terminate()
    west.terminate()
    assert clients_of(home) == [("ENQUEUE", "admin", "till-1"), ("FORWARD_ACK", None, "bridge:west")]
    assert clients_of(west) == [("RECEIVE", "admin", None)]
