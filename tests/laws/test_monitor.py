"""A monitor sees what an administrator sees and changes nothing: each operation that the data plane
describes, and STOMP. `tests/web/test_monitor.py` has the control plane and the console."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_app.core.destination import parse
from broker_app.net.auth.login import Identity
from broker_app.net.http.routing import CHANGES_NOTHING
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.net.policy.policy import Grant
from broker_app.net.policy.roles import MONITOR_SENTENCE, SAFE_METHODS
from broker_app.net.rest.openapi.document import PATHS
from broker_app.rules.event import BROWSE, MANAGE, METHODS, READ, RECEIVE, SEND
from broker_app.rules.rule import Rule
from mom_client import Refused
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

ADMIN, MONITOR = "root", "mona"
#: of reading operations: those that need a right to take messages
TAKES = ("stream_events",)
EVERYTHING = Rule("everything")


class Operation(NamedTuple):
    method: str
    path: str
    described: Mapping[str, Any]

    @property
    def changes(self) -> bool:
        return self.method not in SAFE_METHODS and CHANGES_NOTHING not in self.described

    @property
    def place(self) -> str:
        """The path with a name in it: of the queue and the topic that there are."""
        return re.sub(r"\{\w+\}", "orders", self.path)


OPERATIONS = [
    Operation(method.upper(), path, described)
    for path, methods in PATHS.items()
    for method, described in methods.items()
    if described.get("security") != []
]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    users: dict[str, tuple[str, ...]] = {ADMIN: (), MONITOR: (), "ann": ()}
    # A rule that allows everything does not allow a monitor anything more.
    policy = policy_of(EVERYTHING, users=users, admins=[ADMIN], monitors=[MONITOR])
    async with small_node(tmp_path, policy) as running:
        async with running.stomp("ann") as ann:
            await ann.send("/queue/orders", b"one")
            await ann.send("/topic/orders", b"two")
        yield running


async def status_of(node: SmallNode, user: str, operation: Operation) -> tuple[int, bytes]:
    """The status of the reply to a request without a body, and the first part of its body; what streams is
    left when it begins."""
    began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if not asked:
            asked.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            began.set_result(event["status"])
        else:
            parts.append(event["body"])

    asked: list[bool] = []
    gone = asyncio.Event()
    scope = {
        "type": "http",
        "method": operation.method,
        "path": operation.place,
        "raw_path": operation.place.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer mom_{user}".encode()), (b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    running = asyncio.create_task(node.node.rest(scope, receive, send))
    async with asyncio.timeout(patient(10)):
        await asyncio.wait((began, running), return_when=asyncio.FIRST_COMPLETED)
        status = await began
        if status < 400:
            gone.set()
        await running
    return status, b"".join(parts)


async def test_a_monitor_is_refused_each_operation_that_changes_something(node: SmallNode) -> None:
    changing = [operation for operation in OPERATIONS if operation.changes]
    assert len(changing) > 50, "operations that change something are described"
    for operation in changing:
        status, body = await status_of(node, MONITOR, operation)
        assert status == 403, f"{operation.method} {operation.path}: {status}"
        assert MONITOR_SENTENCE.encode() in body and b'"role":"monitor"' in body, operation
    assert node.depth("orders") == 1, "nothing was taken"


async def test_a_monitor_reads_all_that_an_administrator_reads(node: SmallNode) -> None:
    for operation in OPERATIONS:
        if operation.method == "GET" and operation.described["operationId"] not in TAKES:
            seen, _ = await status_of(node, ADMIN, operation)
            status, body = await status_of(node, MONITOR, operation)
            assert status == seen != 403, f"{operation.path}: {status} instead of {seen}: {body[:200]!r}"


async def test_lists_of_a_monitor_are_those_of_an_administrator(node: SmallNode) -> None:
    async with node.stomp("ann") as ann, node.rest(ADMIN) as admin, node.rest(MONITOR) as monitor:
        async with ann.subscribe("/queue/orders"):
            for path in ("connections", "subscribers", "queues", "topics", "services", "jobs", "forwarding"):
                whole, seen = (await admin.get(f"/{path}")).json(), (await monitor.get(f"/{path}")).json()
                assert _names(seen) == _names(whole), path
            assert (await monitor.get("/connections")).json()["complete"]
        assert (await monitor.get("/queues/orders")).json()["permissions"] == ["browse", "read"]


def _names(page: Mapping[str, Any]) -> list[object]:
    rows = page["items"] if "items" in page else page["bridges"]
    return [row.get("id") or row.get("name") for row in rows]


async def test_a_monitor_sends_and_takes_nothing_over_stomp(node: SmallNode) -> None:
    async with node.stomp(MONITOR) as monitor:
        with pytest.raises(Refused, match=MONITOR_SENTENCE):
            await monitor.send("/queue/orders", b"no")
    for address, durable in (("/queue/orders", None), ("/topic/orders", None), ("/topic/$mom.event", "d")):
        async with node.stomp(MONITOR) as monitor:
            with pytest.raises(Refused, match=MONITOR_SENTENCE):
                await monitor.subscribe(address, durable=durable).__aenter__()
    async with node.stomp(MONITOR) as monitor, monitor.subscribe("/topic/$mom.event"):
        assert node.depth("orders") == 1


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/queue/orders", {BROWSE, READ}),
        ("/queue/$mom.reflex", {BROWSE, READ}),
        ("/topic/orders", {BROWSE, READ}),
        ("/topic/$mom.event", {BROWSE, READ, RECEIVE}),
        ("/temp-queue/replies", {BROWSE, READ}),
    ],
)
async def test_rights_of_a_monitor(node: SmallNode, address: str, allowed: set[str]) -> None:
    access, client = Access(node.node.logins), Client(Identity(MONITOR), ConnectionInfo("stomp"))
    assert {right for right in METHODS if access.allows(client, right, parse(address))} == allowed
    assert not {SEND, MANAGE} & allowed
    assert access.sending_refusal(client) is not None


async def test_a_token_of_a_monitor_reads_metrics_alone_if_it_grants_no_more(node: SmallNode) -> None:
    grants = (Grant(frozenset({"metrics:read"}), ()),)
    tokens = {
        digest: replace(one, grants=grants) if one.user == MONITOR else one
        for digest, one in node.policy.tokens.items()
    }
    await node.change(tokens=tokens)
    async with node.rest(MONITOR) as monitor:
        assert (await monitor.get("/metrics")).status_code == 200
        assert (await monitor.get("/alerts")).status_code == 403
        assert (await monitor.get("/queues/orders/messages")).status_code == 403
        assert (await monitor.post("/shutdown")).status_code == 403


async def test_a_user_who_becomes_a_monitor_loses_what_is_open(node: SmallNode) -> None:
    async with node.stomp("ann") as ann, ann.subscribe("/queue/invoices") as messages:
        facts = node.policy.users["ann"]
        await node.change(users={**node.policy.users, "ann": replace(facts, monitor=True)})
        with pytest.raises(Refused, match=MONITOR_SENTENCE):
            await messages.get(timeout_s=patient(10))
