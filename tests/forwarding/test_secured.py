"""Bridges between secured brokers, by the documents' rules: who may do what at either end."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from mom_client import Refused
from tests.forwarding.home import PASSWORD, Home, add_users, client, connection, depth, source
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

FORWARDED = "storeAndForward:broker2/queue/queue1"
JOHN = f"""
@include "security/messaging_rule.config" {{
    "conditions" : "(/event/queue == {FORWARDED}) && (/event/method == POST)",
    "users" : ["john"]
}}
"""
BROKER1_SENDS = {"conditions": "(/event/queue == queue1) && (/event/method == POST)", "users": ["broker1"]}
BROKER1_SYNCS = {"conditions": "(/event/queue == storeAndForwardSyncQueue)", "users": ["broker1"]}


@pytest.fixture(scope="module", autouse=True)
def users(broker: BrokerProcess) -> None:
    """`broker` is the secured target: it has a rule, and so denies what no rule allows."""
    add_users(broker, "broker1")
    rule(broker, "broker1-sends", BROKER1_SENDS)


def rule(broker: BrokerProcess, name: str, said: dict[str, Any]) -> None:
    made = broker.request("PUT", f"/api/v1/rules/{name}", json_body={**said, "position": len(name)})
    assert made.status == 201, made.body


def without_rule(broker: BrokerProcess, name: str) -> None:
    gone = broker.request("DELETE", f"/api/v1/rules/{name}", if_match="*")
    assert gone.status in (200, 204), gone.body


def status(broker: BrokerProcess, user: str, method: str, path: str, body: bytes | None = None) -> int:
    """Of a request by a user."""
    credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    kind = {"content_type": "application/json"} if body == b"{}" else {"content_type": "text/plain"}
    return broker.request(method, f"/api/v1{path}", body, authorization=f"Basic {credentials}", **kind).status


@pytest.fixture
def home(start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path) -> Home:
    """Secured by the one rule that the documents give john."""
    found = Home(tmp_path / "config", start_broker, JOHN)
    add_users(found.broker, "john", "mary")
    found.change(connection("broker2", broker.stomp_port))
    return found


async def test_john_may_only_send_and_his_messages_are_forwarded(home: Home, broker: BrokerProcess) -> None:
    rule(broker, "broker1-syncs", BROKER1_SYNCS)
    at = home.broker
    sending, reading = f"/queues/messages?queue={FORWARDED}", f"/queues/receive?queue={FORWARDED}"
    assert status(at, "john", "POST", sending, b"by REST") == 201
    assert status(at, "mary", "POST", sending, b"no") == 403
    for user in ("john", "mary"):
        assert status(at, user, "POST", reading, b"{}") == 403
        assert status(at, user, "GET", sending) == 403
    async with client(at, "john") as john, client(at, "mary") as mary:
        await john.send(source("broker2", "queue1"), "by STOMP")
        for mom, refused in ((john, "receive from"), (mary, "receive from")):
            with pytest.raises(Refused, match=f"may not {refused}"):
                async with mom.subscribe(f"/queue/{FORWARDED}"):
                    pass
        with pytest.raises(Refused, match="mary may not send to"):
            await mary.send(source("broker2", "queue1"), "no")
    await asyncio.to_thread(poll, lambda: depth(broker, "queue1") == 2)
    await asyncio.to_thread(poll, lambda: depth(at, FORWARDED) == 0)
    without_rule(broker, "broker1-syncs")


async def test_without_the_rule_for_the_sync_queue_messages_stay_and_flow_when_it_is_there(
    home: Home, broker: BrokerProcess
) -> None:
    before = depth(broker, "queue1")
    async with client(home.broker, "john") as john:
        for number in range(5):
            await john.send(source("broker2", "queue1"), str(number))
    await asyncio.to_thread(poll, lambda: (home.flow("broker2", "queue1").get("error") or {}).get("code"))
    flow = home.flow("broker2", "queue1")
    assert flow["error"]["code"] == "AUTH_SYNC_QUEUE"
    assert "broker1 may not" in flow["error"]["detail"]
    assert flow["state"] == "retrying"
    assert (flow["depth"], depth(broker, "queue1")) == (5, before)
    started = home.broker.pid, broker.pid
    rule(broker, "broker1-syncs", BROKER1_SYNCS)
    await asyncio.to_thread(poll, lambda: depth(broker, "queue1") == before + 5)
    await asyncio.to_thread(poll, lambda: home.flow("broker2", "queue1")["error"] is None)
    assert (home.broker.pid, broker.pid) == started
    assert PASSWORD not in home.broker.log
    without_rule(broker, "broker1-syncs")
