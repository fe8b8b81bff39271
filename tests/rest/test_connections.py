"""Connections and consumers over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

from broker_app.net.auth.login import Identity
from broker_app.net.policy.policy import UserFacts
from broker_app.net.stomp.login.service_registrar import ServiceRegistrar
from broker_app.net.stomp.transports import local
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from tests.rest.conftest import Rest, policy
from tests.support.patience import patient


class Client:
    """A STOMP client within the process."""

    def __init__(self, rest: Rest, user: str) -> None:
        self.pipe = local.LocalPipe(rest.registry, Identity(user))
        self.id = ""

    async def connect(self, **headers: str) -> Client:
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        connected = await self.ask(f"CONNECT\naccept-version:1.2\nhost:/\n{lines}\n\0")
        assert connected.startswith("CONNECTED\n")
        self.id = connected.partition("session:")[2].partition("\n")[0]
        return self

    async def ask(self, frame: str) -> str:
        await self.pipe.send(frame.encode())
        async with asyncio.timeout(patient(5)):
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
    first, second = re.findall(r"\nack:(\d+)\n", (await client.pipe.receive()).decode())[:2]
    await rest.alice.post("/topics/t/messages", content=b"x")
    await client.pipe.receive()
    await client.pipe.send(f"ACK\nid:{first}\n\n\0ACK\nid:{second}\n\n\0\n".encode())
    await rest.engine.wait_idle()
    (row,) = (await shown(rest, "/connections"))["items"]
    assert (row["id"], row["user"], row["transport"]) == (client.id, "bob", "local")
    assert row["protocol"] == "STOMP 1.2"
    assert row["frames_in"] == 5, "CONNECT, two SUBSCRIBE, two ACK"
    assert row["frames_out"] == 7, "CONNECTED, two RECEIPT, four MESSAGE"
    assert row["bytes_in"] == 198 + len(first + second)
    assert row["bytes_out"] > 500
    assert (row["subscriptions"], row["unsettled"], row["slow"]) == (2, 1, False)
    assert (row["heart_beat_in_s"], row["heart_beat_out_s"]) == (20.0, 30.0)
    one = await shown(rest, f"/connections/{client.id}")
    assert [consumer["destination"] for consumer in one["consumers"]] == ["/queue/a", "/topic/t"]
    (consumer,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert consumer == consumer | one["consumers"][0]
    assert (consumer["connection"], consumer["user"]) == (client.id, "bob")
    assert (consumer["delivered"], consumer["acknowledged"], consumer["unsettled"]) == (3, 2, 1)
    assert one["consumers"][1]["delivered"] == 1
    await client.pipe.send(b"UNSUBSCRIBE\nid:2\n\n\0")
    await rest.engine.wait_idle()
    assert (await shown(rest, f"/connections/{client.id}"))["frames_out"] == 7, "what went out stays counted"


async def test_a_client_of_no_cluster_has_no_list_of_brokers(rest: Rest) -> None:
    client = await Client(rest, "bob").connect()
    path = f"/connections/{client.id}"
    none = {"list_version": 0, "list_since": None, "behind": False}
    found = await shown(rest, path)
    assert {name: found[name] for name in none} == none
    await rest.bob.delete(path)
    await client.pipe.receive()
    await client.pipe.close()
    await rest.engine.wait_idle()
    gone = await shown(rest, path)
    assert gone["closed_at"] is not None
    assert {name: gone[name] for name in none} == none


async def test_what_client_libraries_subscribe_to_by_themselves_is_no_subscription_of_a_program(
    rest: Rest,
) -> None:
    client = await Client(rest, "bob").connect()
    for number, topic in enumerate(("$mom.failover", "news"), 1):
        await client.ask(f"SUBSCRIBE\nid:{number}\ndestination:/topic/{topic}\nreceipt:{number}\n\n\0")
    found = await shown(rest, f"/connections/{client.id}")
    assert found["subscriptions"] == 1
    assert [row["destination"] for row in found["consumers"]] == ["/topic/news"]


async def test_connections_come_in_pages_and_by_user(rest: Rest) -> None:
    clients = [await Client(rest, user).connect() for user in ("alice", "bob") * 4]
    local.LocalPipe(rest.registry)  # has not logged in
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


async def test_a_connection_shows_the_service_that_it_is_registered_as(rest: Rest) -> None:
    rest.registry.registrar = ServiceRegistrar(rest.reflexes, rest.services, rest.registry)
    stock = await Client(rest, "bob").connect(**{"mom-service": "stock"})
    await Client(rest, "bob").connect()
    assert [row["service"] for row in (await shown(rest, "/connections"))["items"]] == ["stock", None]
    (found,) = (await shown(rest, "/connections", filter="stock"))["items"]
    assert found["id"] == stock.id
    (service,) = rest.services.named("stock")
    rest.services.deregister(service)
    assert (await shown(rest, f"/connections/{stock.id}"))["service"] is None

    other = await Client(rest, "bob").connect(**{"mom-service": "bank"})
    await rest.bob.delete(f"/connections/{other.id}")
    while await other.pipe.receive():
        pass
    (ended,) = (await shown(rest, "/connections", state="closed", filter="bank"))["items"]
    assert (ended["id"], ended["service"]) == (other.id, "bank")


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


async def test_an_operator_closes_a_connection_and_its_client_receives_the_reason(rest: Rest) -> None:
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
    assert (await shown(rest, f"/connections/{client.id}"))["closed_at"] is not None


async def test_errors_are_reported(rest: Rest) -> None:
    make_admin(rest, "alice")
    client = await Client(rest, "bob").connect()
    address = f"/connections/{client.id}"
    assert (await rest.alice.delete("/connections/none")).status_code == 404
    for reason in ("", "two\nlines", "x" * 501, 7):
        assert (await rest.alice.request("DELETE", address, json={"reason": reason})).status_code == 400
    assert (await rest.alice.get("/connections?limit=0")).status_code == 400
    assert (await rest.alice.get("/connections?after=x")).status_code == 400
    assert (await rest.anonymous.get("/connections")).status_code == 401
    assert (await rest.alice.get("/queues/none/consumers")).status_code == 404
    assert (await rest.alice.delete(address)).status_code == 204, "a reason need not be given"


async def test_consumers_of_the_rest_interface_have_no_connection(rest: Rest) -> None:
    waiting = asyncio.create_task(rest.receive("a", wait_s=5))
    await rest.until(lambda: bool(rest.engine.broker.destinations.queues.get("/queue/a")))
    (consumer,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert (consumer["connection"], consumer["user"]) == (None, "alice")
    await rest.publish("a", "1")
    await waiting


async def happened(rest: Rest, id: str) -> list[tuple[str, str]]:
    items = (await shown(rest, f"/connections/{id}/events"))["items"]
    return [(event["event"], event["detail"]) for event in reversed(items)]


async def test_events_of_a_client_are_shown_after_it_disconnected(rest: Rest) -> None:
    make_admin(rest, "alice")
    client = await Client(rest, "bob").connect(**{"client-id": "till-7", "mom-soft-errors": "true"})
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")
    await client.ask("SEND\ndestination:/topic/$mom.stats\n\nno\0")
    reply = await rest.alice.request("DELETE", f"/connections/{client.id}", json={"reason": "it is too old"})
    assert reply.status_code == 204
    await client.pipe.receive()
    await client.pipe.close()
    await rest.engine.wait_idle()
    assert (await shown(rest, "/connections"))["items"] == []
    gone = await shown(rest, f"/connections/{client.id}")
    assert (gone["client"], gone["reason"]) == ("till-7", "disconnected: it is too old")
    assert gone["closed_at"] is not None
    (row,) = (await shown(rest, "/connections", state="closed"))["items"]
    assert row["id"] == client.id
    assert [event for event, _ in await happened(rest, client.id)] == [
        "connected", "subscribed", "refused", "disconnecting", "closed",
    ]  # fmt: skip
    newest_first = (await shown(rest, f"/connections/{client.id}/events"))["items"]
    assert (newest_first[1]["by"], newest_first[1]["detail"]) == ("alice", "it is too old")
    assert (newest_first[2]["code"], newest_first[2]["by"]) == ("not-allowed", "the broker")
    make_admin(rest, "bob")
    again = await rest.alice.delete(f"/connections/{client.id}")
    assert (again.status_code, "ended at" in again.json()["detail"]) == (404, True)


async def test_a_drained_client_gets_nothing_new_and_ends_when_it_has_settled_what_it_holds(
    rest: Rest,
) -> None:
    make_admin(rest, "alice")
    client = await Client(rest, "bob").connect()
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\nreceipt:r\n\n\0")
    await rest.publish("a", "1")
    first = await client.pipe.receive()
    reply = await rest.alice.post(f"/connections/{client.id}/drain", json={"reason": "for repairs"})
    assert (reply.status_code, reply.json()["draining"], reply.json()["congested"]) == (202, True, False)
    await rest.publish("a", "2")
    for session in list(rest.registry.sessions):
        session.tick(0.0, 0.1)
    assert rest.depth("a") == 1, "it does not get it"
    assert (await shown(rest, f"/connections/{client.id}"))["unsettled"] == 1, (
        "and has time for what it holds"
    )
    ack = first.decode().partition("ack:")[2].partition("\n")[0]
    await client.pipe.send(f"ACK\nid:{ack}\n\n\0".encode())
    await rest.engine.wait_idle()
    for session in list(rest.registry.sessions):
        session.tick(0.0, 0.1)
    assert "for repairs" in (await client.pipe.receive()).decode()
    assert rest.depth("a") == 1


async def test_a_client_that_does_not_settle_is_drained_for_so_long_and_no_longer(rest: Rest) -> None:
    client = await Client(rest, "alice").connect()
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\nreceipt:r\n\n\0")
    await rest.publish("a", "1")
    await client.pipe.receive()
    refused = await rest.alice.post(f"/connections/{client.id}/drain", json={"within_s": 601})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/within_s")
    assert (await rest.alice.post(f"/connections/{client.id}/drain", json={"within_s": 0})).status_code == 202
    for session in list(rest.registry.sessions):
        session.tick(float("inf"), 0.1)
    assert "disconnected" in (await client.pipe.receive()).decode()


async def test_connections_are_found_sorted_and_cut_by_the_broker(rest: Rest) -> None:
    for user, name in (("alice", "till-2"), ("bob", "till-1"), ("bob", "press"), ("alice", "till-3")):
        await Client(rest, user).connect(**{"client-id": name})

    async def found(**query: Any) -> list[str]:
        return [row["client"] for row in (await shown(rest, "/connections", **query))["items"]]

    assert await found(filter="TILL bob") == ["till-1"]
    assert await found(client="press") == ["press"]
    assert await found(sort="-client") == ["till-3", "till-2", "till-1", "press"]
    page = await shown(rest, "/connections", sort="user,client", limit=3, fields="client")
    assert page["items"] == [{"client": "till-2"}, {"client": "till-3"}, {"client": "press"}]
    rest_of_it = await shown(rest, "/connections", sort="user,client", limit=3, after=page["next"])
    assert [row["client"] for row in rest_of_it["items"]] == ["till-1"]
    filtered = await shown(rest, "/connections", filter="nobody")
    assert (filtered["approx_total"], filtered["all"]) == (0, 4)
    wrong = await rest.alice.get("/connections", params={"sort": "usr"})
    assert (wrong.status_code, "user" in wrong.json()["detail"]) == (400, True)


async def test_clients_that_come_again_and_again_are_named(rest: Rest) -> None:
    for _ in range(5):
        client = await Client(rest, "bob").connect(**{"client-id": "till-7"})
        await client.pipe.close()
    (row,) = (await shown(rest, "/connections"))["flapping"]
    assert (row["user"], row["client"], row["connects"]) == ("bob", "till-7", 5)


async def test_consumers_are_shown_with_transport_and_holding_time(rest: Rest) -> None:
    client = await Client(rest, "bob").connect(**{"client-id": "worker-1"})
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\nreceipt:r\n\n\0")
    (row,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert (row["client"], row["protocol"], row["transport"]) == ("worker-1", "STOMP 1.2", "local")
    assert row["hold_s"] == {"p50": None, "p95": None, "samples": 0}
    await rest.publish("a", "1")
    delivered = (await client.pipe.receive()).decode()
    tag = delivered.partition("ack:")[2].partition("\n")[0]
    await client.pipe.send(f"ACK\nid:{tag}\n\n\0".encode())
    await rest.engine.wait_idle()
    (row,) = (await shown(rest, "/queues/a/consumers"))["items"]
    assert row["hold_s"]["samples"] == 1
    assert row["hold_s"]["p50"] == row["hold_s"]["p95"] >= 0


async def test_consumers_of_a_topic_are_those_of_every_filter_that_fits(rest: Rest) -> None:
    client = await Client(rest, "bob").connect()
    for number, name in enumerate(("prices.eu", "prices.*", "prices.us"), 1):
        await client.ask(f"SUBSCRIBE\nid:{number}\ndestination:/topic/{name}\nreceipt:{number}\n\n\0")
    found = await shown(rest, "/topics/prices.eu/consumers")
    assert sorted(row["destination"] for row in found["items"]) == ["/topic/prices.*", "/topic/prices.eu"]
    assert found["approx_total"] == 2


async def test_where_there_are_rules_the_connections_of_others_stay_hidden(rest: Rest) -> None:
    rules = Rules([Rule("all")])
    rest.logins.reload(replace(policy(), rules=rules))
    for user in ("alice", "bob"):
        client = await Client(rest, user).connect(**{"client-id": f"of-{user}"})
        await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")
    seen = (await rest.bob.get("/queues/a/consumers")).json()["items"]
    assert {row["user"]: row["client"] for row in seen} == {"alice": None, "bob": "of-bob"}
