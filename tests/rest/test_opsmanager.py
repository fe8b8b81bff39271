"""Statistics in the format of WebSphere sMash, and the event log."""

from __future__ import annotations

from typing import Any

import httpx

from broker_app.base.events import BRIDGE_CONNECTED, BRIDGE_RETRYING, FILES_REFUSED
from broker_app.net.policy.policy import UserFacts
from broker_app.telemetry.event_log import MOST
from tests.rest.bridging import ORDERS
from tests.rest.conftest import Rest
from tests.rest.test_connections import Client


async def asked(client: httpx.AsyncClient, query: str = "?q=stats") -> httpx.Response:
    return await client.get(f"http://localhost/opsmanager/application/_self{query}")


async def stats(client: httpx.AsyncClient) -> dict[str, Any]:
    reply = await asked(client)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()["monitoredStats"]["brokerStats"]
    return found


async def test_the_response_has_all_members_of_smash(bridged: Rest) -> None:
    await bridged.publish("a", "12345", "x")
    await bridged.publish(ORDERS, "y")
    client = await Client(bridged, "alice").connect()
    await client.ask("SUBSCRIBE\nid:1\ndestination:/queue/b\nack:client\nreceipt:r\n\n\0")
    found = await stats(bridged.alice)
    assert found["name"] == "mom"
    assert found["queues"]["a"] == {
        "consumerCount": 0, "expiryTimeRemaining": -1, "lifecycle": "permanent", "currentDepth": 2,
        "maxMessageSize": 64 * 1024 * 1024, "maxQueueDepth": 0,
    }  # fmt: skip
    assert found["queues"][ORDERS]["currentDepth"] == 1, "under its full name"
    assert found["queues"]["b"]["consumerCount"] == 1
    told = found["listeners"]["local"]["clients"][client.id]
    assert (told["protocol"], told["protocolVersion"], told["numberOfSubscriptions"]) == ("STOMP", "1.2", 1)
    assert told["lastActivityTime"] >= told["connectionTime"] - 1000
    assert (told["numberOfInFlightMessages"], told["numberOfQueuedMessages"]) == (0, 0)
    assert found["stats"].keys() == {
        "bytesSent", "bytesReceived", "messagesSent", "messagesReceived", "uptime", "version",
    }  # fmt: skip
    assert found["stats"]["messagesReceived"] == 3
    assert found["stats"]["bytesReceived"] > 0 and found["stats"]["bytesSent"] > 0
    assert found["persistence"].keys() == {
        "currentObjectStoreSize", "persistenceType", "logSize", "maxLogSize", "minObjectStoreSize",
        "maxObjectStoreSize",
    }  # fmt: skip


async def test_pipes_and_flows_have_state_last_error_and_last_progress(bridged: Rest) -> None:
    pipe = (await stats(bridged.alice))["pipes"]["west"]
    assert (pipe["state"], pipe["lastError"]["code"]) == ("retrying", "REFUSED")
    assert pipe["lastProgressTime"] == 1_750_000_000_500
    assert pipe["flows"]["orders"]["queue"] == ORDERS
    assert pipe["flows"]["orders"]["state"] == "running"
    assert pipe["flows"]["orders"]["lastProgressTime"] == 1_750_000_000_500
    (east, west) = (await bridged.alice.get("/stats")).json()["bridges"]
    assert (east["name"], west["state"], west["flows"][1]["state"]) == ("east", "retrying", "running")


async def test_it_asks_for_a_login_and_shows_what_may_be_seen(bridged: Rest) -> None:
    await bridged.publish("a", "1")
    assert (await asked(bridged.anonymous)).status_code == 401
    seen = await stats(bridged.bob)
    assert "a" not in seen["queues"]
    assert list(seen["pipes"]["west"]["flows"]) == ["bills", "orders"]
    assert "east" not in seen["pipes"]


async def test_unknown_queries_are_answered_with_the_known_ones(rest: Rest) -> None:
    for query in ("", "?q=state"):
        refused = await asked(rest.alice, query)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "query/q")
    assert (await rest.alice.post("http://localhost/opsmanager/application/_self")).status_code == 405
    assert not rest.rest_api.owns({"method": "GET", "path": "/opsmanager/other"})


async def test_bytes_of_disconnected_clients_stay_counted(rest: Rest) -> None:
    client = await Client(rest, "bob").connect()
    before = (await stats(rest.alice))["stats"]
    await client.pipe.send(b"DISCONNECT\n\n\0")
    await client.pipe.close()
    await rest.until(lambda: not rest.registry.sessions)
    after = (await stats(rest.alice))["stats"]
    assert after["bytesReceived"] > before["bytesReceived"]
    assert after["bytesSent"] >= before["bytesSent"] > 0


# ---------------------------------------------------------------------- the event log


async def test_events_come_newest_first_by_kind_and_name_in_pages(bridged: Rest) -> None:
    for number in range(3):
        bridged.events.report(BRIDGE_RETRYING, "west", code="REFUSED", detail=f"try {number}", queue="")
    bridged.events.report(FILES_REFUSED, "brokers.config", detail="brokers.config:4: what is this?")
    page = (await bridged.alice.get("/events?limit=2")).json()
    assert [(one["kind"], one["detail"]) for one in page["items"]] == [
        ("files", "brokers.config:4: what is this?"), ("bridges", "try 2"),
    ]  # fmt: skip
    rest_of_it = (await bridged.alice.get(f"/events?limit=2&after={page['next']}")).json()
    assert [one["detail"] for one in rest_of_it["items"]] == ["try 1", "try 0"]
    assert rest_of_it["next"] is None
    of_west = (await bridged.alice.get("/events?kind=bridges&name=west")).json()["items"]
    assert [one["facts"] for one in of_west] == [{"queue": ""}] * 3
    assert (await bridged.alice.get("/events?kind=files&name=west")).json()["items"] == []
    assert (await bridged.alice.get("/events?kind=file")).status_code == 400


async def test_the_event_log_is_for_administrators_and_bounded(bridged: Rest) -> None:
    assert isinstance(bridged.logins.policy.users["bob"], UserFacts)
    refused = await bridged.bob.get("/events")
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")
    for number in range(MOST + 10):
        bridged.events.report(BRIDGE_CONNECTED, "west", detail=str(number))
    page = (await bridged.alice.get("/events?limit=1")).json()
    assert (page["approx_total"], page["items"][0]["detail"]) == (MOST, str(MOST + 9))
