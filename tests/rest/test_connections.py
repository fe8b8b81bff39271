"""Connections and consumers over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from broker_app.net import local
from broker_app.net.login import Identity
from broker_app.net.policy import UserFacts
from tests.rest.conftest import Rest, policy


class Client:
    """A STOMP client within the process."""

    def __init__(self, rest: Rest, user: str) -> None:
        self.pipe = local.LocalPipe(rest.lobby, Identity(user))
        self.id = ""

    async def connect(self, **headers: str) -> Client:
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        connected = await self.ask(f"CONNECT\naccept-version:1.2\nhost:/\n{lines}\n\0")
        assert connected.startswith("CONNECTED\n")
        self.id = connected.partition("session:")[2].partition("\n")[0]
        return self

    async def ask(self, frame: str) -> str:
        await self.pipe.send(frame.encode())
        async with asyncio.timeout(5):
            return (await self.pipe.receive()).decode()


async def shown(rest: Rest, path: str, **query: Any) -> dict[str, Any]:
    reply = await rest.alice.get(path, params=query)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def test_a_connection_in_numbers(rest: Rest) -> None:
    client = await Client(rest, "bob").connect(**{"heart-beat": "20000,30000"})
    subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\nreceipt:r\n\n\0"
    assert "RECEIPT" in await client.ask(subscribe)
    await client.ask("SUBSCRIBE\nid:2\ndestination:/topic/t\nreceipt:s\n\n\0")
    await rest.publish("a", "1", "2", "3")
    await client.pipe.receive()
    await rest.alice.post("/topics/t/messages", content=b"x")
    await client.pipe.receive()
    await client.pipe.send(b"ACK\nid:1\n\n\0ACK\nid:2\n\n\0\n")
    await rest.engine.wait_idle()
    (row,) = (await shown(rest, "/connections"))["items"]
    assert (row["id"], row["user"], row["transport"]) == (client.id, "bob", "local")
    assert row["protocol"] == "STOMP 1.2"
    assert row["frames_in"] == 5, "CONNECT, two SUBSCRIBE, two ACK"
    assert row["frames_out"] == 7, "CONNECTED, two RECEIPT, four MESSAGE"
    assert row["bytes_in"] == 200
    assert row["bytes_out"] > 500
    assert (row["subscriptions"], row["unsettled"], row["slow"]) == (2, 1, False)
    assert (row["heart_beat_in_s"], row["heart_beat_out_s"]) == (20.0, 30.0)
    one = await shown(rest, f"/connections/{client.id}")
    assert [consumer["destination"] for consumer in one["consumers"]] == ["/queue/a", "/topic/t"]
    (consumer,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert consumer == one["consumers"][0]
    assert (consumer["connection"], consumer["user"]) == (client.id, "bob")
    assert (consumer["delivered"], consumer["acknowledged"], consumer["unsettled"]) == (3, 2, 1)
    assert one["consumers"][1]["delivered"] == 1
    await client.pipe.send(b"UNSUBSCRIBE\nid:2\n\n\0")
    await rest.engine.wait_idle()
    assert (await shown(rest, f"/connections/{client.id}"))["frames_out"] == 7, "what went out stays counted"


async def test_connections_come_in_pages_and_by_user(rest: Rest) -> None:
    clients = [await Client(rest, user).connect() for user in ("alice", "bob") * 4]
    local.LocalPipe(rest.lobby)  # has not logged in
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = await shown(rest, "/connections", **query)
        assert page["approx_total"] == 8
        seen += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == [client.id for client in clients]
    bobs = await shown(rest, "/connections", user="bob")
    assert [row["id"] for row in bobs["items"]] == [client.id for client in clients[1::2]]


def make_admin(rest: Rest, user: str) -> None:
    users = {name: UserFacts(name, name, admin=name == user) for name in ("alice", "bob")}
    rest.logins.reload(replace(policy(), users=users))


async def test_connections_of_others_are_ended_by_administrators_alone(rest: Rest) -> None:
    client = await Client(rest, "bob").connect()
    refused = await rest.alice.delete(f"/connections/{client.id}")
    assert (refused.status_code, refused.json()["right"]) == (403, "close")
    assert (await rest.bob.delete(f"/connections/{client.id}")).status_code == 204
    other = await Client(rest, "bob").connect()
    make_admin(rest, "alice")
    assert (await rest.alice.delete(f"/connections/{other.id}")).status_code == 204


async def test_an_operator_ends_a_connection_and_its_client_is_told_why(rest: Rest) -> None:
    make_admin(rest, "alice")
    client = await Client(rest, "bob").connect(**{"mom-soft-errors": "true"})
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\nreceipt:r\n\n\0")
    await rest.publish("a", "1")
    await client.pipe.receive()
    reply = await rest.alice.request(
        "DELETE", f"/connections/{client.id}", json={"reason": "it takes all and settles none"}
    )
    assert reply.status_code == 204
    error = (await client.pipe.receive()).decode()
    assert error.startswith("ERROR\n")
    problem = json.loads(error.partition("\n\n")[2].rstrip("\0\n"))
    assert problem["type"].endswith("/disconnected")
    assert problem["detail"] == "it takes all and settles none"
    assert await client.pipe.receive() == b""
    await rest.engine.wait_idle()
    assert rest.depth("a") == 1, "what it held goes back"
    assert (await rest.alice.get(f"/connections/{client.id}")).status_code == 404


async def test_what_is_wrong_is_said(rest: Rest) -> None:
    make_admin(rest, "alice")
    client = await Client(rest, "bob").connect()
    address = f"/connections/{client.id}"
    assert (await rest.alice.delete("/connections/none")).status_code == 404
    for reason in ("", "two\nlines", "x" * 501, 7):
        assert (await rest.alice.request("DELETE", address, json={"reason": reason})).status_code == 400
    assert (await rest.alice.get("/connections?limit=0")).status_code == 400
    assert (await rest.alice.get("/connections?after=x")).status_code == 400
    assert (await rest.nobody.get("/connections")).status_code == 401
    assert (await rest.alice.get("/queues/none/consumers")).status_code == 404
    assert (await rest.alice.delete(address)).status_code == 204, "a reason need not be given"


async def test_consumers_of_the_rest_interface_have_no_connection(rest: Rest) -> None:
    waiting = asyncio.create_task(rest.receive("a", wait_s=5))
    await rest.until(lambda: bool(rest.engine.broker.queues.get("/queue/a")))
    (consumer,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert (consumer["connection"], consumer["user"]) == (None, "alice")
    await rest.publish("a", "1")
    await waiting
