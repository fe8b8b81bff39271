"""Two brokers and a bridge between them, as they are seen and asked over REST and on `$mom` topics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker_app.rules.rule import Rule
from tests.bridge.pair import Pair, pair, receive, until
from tests.support.patience import patient
from tests.support.small_node import policy_of

SYNC = "storeAndForwardSyncQueue"
USERS = {"john": (), "bridge": (), "admin": ()}


def rule(name: str, condition: str, user: str = "bridge") -> Rule:
    return Rule(name, "allow", condition, (user,), (), "")


async def shown(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    reply = await client.get(path)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def forwarded(both: Pair, *bodies: str) -> None:
    """Send to the queue `orders` of the other broker, and wait until it is there."""
    async with both.home.stomp("john") as john, both.away.stomp("john") as there:
        await both.send(john, "orders", *bodies)
        assert await receive(there, "orders", len(bodies)) == [body.encode() for body in bodies]
        await until(lambda: both.flow("orders")["accepted"] >= len(bodies))


async def test_a_bridge_that_forwards_is_seen_with_figures_that_add_up(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.rest("admin") as admin:
        await forwarded(both, "1", "2", "3")
        (bridge,) = (await shown(admin, "/forwarding"))["bridges"]
        (flow,) = bridge["flows"]
        assert (bridge["state"], bridge["delivery"], flow["state"]) == ("running", "exactly-once", "running")
        assert (
            flow["sent"] == flow["accepted"] + flow["refused"] + flow["unanswered"] + flow["in_flight"] == 3
        )
        assert (flow["gap"], bridge["backlog"], bridge["error"]) == (0, 0, None)
        assert flow["progress_at"] == bridge["progress_at"] is not None
        assert bridge == await shown(admin, "/bridges/oslo/status")
        happened = (await shown(admin, "/bridges/oslo/events"))["items"]
        assert "connected" in [event["event"] for event in happened]
        logged = (await shown(admin, "/events?kind=bridges&name=oslo"))["items"]
        assert "connected" in [event["event"] for event in logged]
        told = (await shown(admin, "http://localhost/opsmanager/application/_self?q=stats"))["monitoredStats"]
        assert told["brokerStats"]["pipes"]["oslo"]["flows"]["orders"]["state"] == "running"
        assert Pair.source("orders").removeprefix("/queue/") in told["brokerStats"]["queues"]


async def test_the_receiver_shows_how_far_others_have_come(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await forwarded(both, "1", "2")
        await both.away.change(users=policy_of(users=USERS, admins=["admin"]).users)
        async with both.away.rest("admin") as admin:
            (mark,) = (await shown(admin, "/forwarding"))["incoming"]
            assert (mark["sender"].partition("~")[0], mark["count"]) == ("home", 2)
            assert mark["source"] == Pair.source("orders").removeprefix("/queue/")
            queues = await shown(admin, "http://localhost/opsmanager/application/_self?q=stats")
            assert SYNC in queues["monitoredStats"]["brokerStats"]["queues"]
        async with both.away.rest("john") as john:
            assert (await shown(john, "/forwarding"))["incoming"] == []


async def test_testing_a_connection_disturbs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.rest("admin") as admin:
        await forwarded(both, "1")
        queues, marks = (
            set(both.away.node.broker.destinations.queues),
            dict(both.away.node.broker.forwarding.offsets),
        )
        for body in (None, {"queue": "orders"}, {"queue": "never-used"}):
            found = (await admin.post("/bridges/oslo/test", json=body)).json()
            assert found["ok"], found
            assert found["delivery"] == "exactly-once"
        assert {step["name"]: step["ok"] for step in found["steps"]} == {
            "dns": True, "tcp": True, "login": True, "sync-queue": True, "target": True,
        }  # fmt: skip
        await until(lambda: len(both.away.node.registry.sessions) == 1)
        assert (
            set(both.away.node.broker.destinations.queues),
            dict(both.away.node.broker.forwarding.offsets),
        ) == (queues, marks)
        connected = both.report()["connected_ms"]
        await forwarded(both, "2")
        assert both.report()["connected_ms"] == connected, "the connection that forwards is the same"
        assert both.flow("orders")["gap"] == 0


@pytest.mark.parametrize(
    ("rules", "step"),
    [
        ((rule("target", "(/event/queue == orders) && (/event/method == POST)"),), "sync-queue"),
        ((rule("sync", f"/event/queue == {SYNC}"),), "target"),
    ],
)
async def test_the_right_that_is_missing_is_named(tmp_path: Path, rules: tuple[Rule, ...], step: str) -> None:
    async with pair(tmp_path) as both, both.home.rest("admin") as admin:
        await both.away.rule(*rules)
        found = (await admin.post("/bridges/oslo/test", json={"queue": "orders"})).json()
        (failed,) = [one for one in found["steps"] if one["ok"] is False]
        assert (failed["name"], found["ok"]) == (step, False)
        assert "allow bridge" in failed["fix"]


async def test_a_retry_on_request_is_immediate(tmp_path: Path) -> None:
    async with pair(tmp_path, retry_s=600) as both, both.home.rest("admin") as admin:
        await both.away.rule(rule("sync", f"/event/queue == {SYNC}"))
        async with both.home.stomp("john") as john:
            await both.send(john, "orders", "1")
            await until(lambda: both.flow("orders")["error"])
            error = (await shown(admin, "/bridges/oslo/status"))["flows"][0]["error"]
            assert error["code"] == "AUTH_TARGET_QUEUE"
            await both.away.rule(
                rule("sync", f"/event/queue == {SYNC}"),
                rule("target", "(/event/queue == orders) && (/event/method == POST)"),
            )
            assert (await admin.post("/bridges/oslo/retry", json={"queue": "orders"})).status_code == 200
            await until(lambda: both.away.depth("orders") == 1)


async def test_changes_of_bridges_are_published(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("admin") as watcher:
        topic = "/topic/$mom.bridge.oslo"
        async with watcher.subscribe(topic, ack="auto", headers={"snapshot": "true"}) as told:
            first = json.loads((await told.get(timeout_s=10)).text)
            assert first["data"]["items"][0]["state"] == "suspended"
            await both.change(desired="paused")
            async with asyncio.timeout(patient(10)):
                while json.loads((await told.get(timeout_s=10)).text)["data"].get("desired") != "paused":
                    pass
