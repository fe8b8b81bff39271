"""The documents' rules of john and broker1 at a real broker: what is allowed and denied, by every way in."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

import mom_client
from mom_client import Refused
from tests.support.broker_process import BrokerProcess, Reply
from tests.support.patience import patient

FORWARDED = "storeAndForward:broker2/queue/queue1"
PASSWORD = "correct horse battery"
RULES: dict[str, dict[str, Any]] = {
    "john-forwards": {
        "conditions": f"(/event/queue == {FORWARDED}) && (/event/method == POST)",
        "users": ["john"],
    },
    "broker1-sends": {
        "conditions": "(/event/queue == queue1) && (/event/method == POST)",
        "users": ["broker1"],
    },
    "broker1-syncs": {"conditions": "(/event/queue == storeAndForwardSyncQueue)", "users": ["broker1"]},
    "pages-alone": {"conditions": "/event/topic == page && /event/protocol == websocket", "users": ["john"]},
}


@pytest.fixture(scope="module", autouse=True)
def rules(broker: BrokerProcess) -> None:
    for user in ("john", "mary", "broker1"):
        made = broker.request(
            "PUT", f"/api/v1/users/{user}", json_body={"password": PASSWORD}, if_none_match="*"
        )
        assert made.status == 201, made.body
    for position, (name, said) in enumerate(RULES.items(), 1):
        said = {**said, "position": position}
        made = broker.request("PUT", f"/api/v1/rules/{name}", json_body=said, if_none_match="*")
        assert made.status == 201, made.body


def client(broker: BrokerProcess, way: str, user: str) -> mom_client.Client:
    urls = {
        "stomp": f"stomp://127.0.0.1:{broker.stomp_port}",
        "websocket": f"ws://127.0.0.1:{broker.port}/ws",
    }
    return mom_client.connect(urls[way], login=user, passcode=PASSWORD, reconnect=False)


def rest(broker: BrokerProcess, user: str, method: str, path: str, body: bytes | None = b"1") -> Reply:
    credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    return broker.request(method, f"/api/v1{path}", body, authorization=f"Basic {credentials}")


@pytest.mark.parametrize("way", ["stomp", "websocket"])
async def test_stomp_clients_do_what_the_rules_allow_and_nothing_else(
    broker: BrokerProcess, way: str
) -> None:
    async with (
        client(broker, way, "john") as john,
        client(broker, way, "mary") as mary,
        client(broker, way, "broker1") as broker1,
    ):
        await john.send(f"/queue/{FORWARDED}", "1")
        await broker1.send("/queue/queue1", "1")
        with pytest.raises(Refused, match="replication offsets of brokers"):  # allowed, and no use
            await broker1.send("/queue/storeAndForwardSyncQueue", "1")
        for mom, queue in ((mary, FORWARDED), (john, "queue1"), (mary, "queue1"), (broker1, FORWARDED)):
            with pytest.raises(Refused) as refused:
                await mom.send(f"/queue/{queue}", "1")
            assert refused.value.problem["destination"] == f"queue:{queue}"
            assert refused.value.problem["decided_by"] == "no rule allows it"
        for mom, queue in ((john, FORWARDED), (broker1, "queue1")):
            with pytest.raises(Refused, match="may not receive from"):
                async with mom.subscribe(f"/queue/{queue}"):
                    pass


async def test_a_rule_may_check_the_transport_of_a_client(broker: BrokerProcess) -> None:
    async with client(broker, "websocket", "john") as page, client(broker, "stomp", "john") as program:
        await page.send("/topic/page", "1")
        with pytest.raises(Refused):
            await program.send("/topic/page", "1")


async def test_a_denied_send_disconnects_a_plain_client_with_the_reason(broker: BrokerProcess) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.stomp_port)
    hello = f"CONNECT\naccept-version:1.2\nhost:/\nlogin:mary\npasscode:{PASSWORD}\n\n\0"
    writer.write(hello.encode() + f"SEND\ndestination:/queue/{FORWARDED}\n\n1\0".encode())
    async with asyncio.timeout(patient(10)):
        said = (await reader.read()).split(b"\0\n")
    writer.close()
    assert said[0].startswith(b"CONNECTED\n")
    assert said[1].startswith(b"ERROR\n") and b"message:mary may not send to queue" in said[1]
    problem = json.loads(said[1].partition(b"\n\n")[2])
    assert (problem["right"], problem["decided_by"]) == ("send", "no rule allows it")


def test_rest_callers_do_what_the_rules_allow_and_nothing_else(broker: BrokerProcess) -> None:
    path = f"/queues/messages?queue={FORWARDED}"
    assert rest(broker, "john", "POST", path).status == 201
    assert rest(broker, "broker1", "POST", "/queues/queue1/messages").status == 201
    for user, method, at in (
        ("mary", "POST", path),
        ("john", "GET", path),
        ("john", "POST", f"/queues/receive?queue={FORWARDED}"),
        ("broker1", "GET", "/queues/queue1/messages"),
    ):
        body = b"{}" if "receive" in at else b"1" if method == "POST" else None
        denied = rest(broker, user, method, at, body)
        assert denied.status == 403, (user, method, at, denied.body)
        assert denied.json()["decided_by"].startswith("no rule allows it")
    explain = rest(broker, "mary", "POST", path).json()["explain"]
    explained = broker.request("GET", explain)
    assert explained.status == 200, explained.body
    assert explained.json()["allowed"] is False


def test_a_rule_that_denies_is_named(broker: BrokerProcess) -> None:
    said = {"effect": "deny", "conditions": "/event/queue == queue1", "users": ["broker1"], "position": 0}
    made = broker.request("PUT", "/api/v1/rules/closed", json_body=said, if_none_match="*")
    assert made.status == 201, made.body
    denied = rest(broker, "broker1", "POST", "/queues/queue1/messages")
    assert (denied.status, denied.json()["decided_by"]) == (403, "rule 1 (closed)")
    gone = broker.request("DELETE", "/api/v1/rules/closed", if_match="*")
    assert gone.status in (200, 204)
    assert rest(broker, "broker1", "POST", "/queues/queue1/messages").status == 201
