"""Rights and settings that change while clients are connected: operations end, connections stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker_app.net.auth.login import Identity
from broker_app.net.stomp import sends
from broker_app.net.stomp.transports import local
from broker_app.rules.rule import DENY, Rule
from mom_client import ConnectionLost, Refused
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

USERS = {"john": (), "mary": (), "root": ()}
ALL = Rule("all")
NOBODY_SENDS = Rule("no-sending", DENY, conditions="/event/method == POST", source="zero.config:7")
NOBODY_RECEIVES = Rule("no-receiving", DENY, conditions="/event/method == GET")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    async with small_node(tmp_path, policy_of(users=USERS, admins=("root",))) as running:
        yield running


async def frame(pipe: local.LocalPipe) -> str:
    async with asyncio.timeout(patient(10)):
        return (await pipe.receive()).decode()


async def connected(
    node: SmallNode, user: str = "john", token: str | None = None, **headers: str
) -> local.LocalPipe:
    """A client within the process, which sends bytes as they are."""
    pipe = local.LocalPipe(node.node.registry, Identity(user, token))
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    await pipe.send(f"CONNECT\naccept-version:1.2\nhost:/\n{lines}\n\0".encode())
    assert (await frame(pipe)).startswith("CONNECTED")
    return pipe


async def test_a_producer_is_refused_at_its_next_send_and_stays_connected(node: SmallNode) -> None:
    async with node.stomp("john", reconnect=False) as mom:
        await mom.send("/queue/a", "1")
        await node.rule(NOBODY_SENDS, ALL)
        with pytest.raises(Refused) as refused:
            await mom.send("/queue/a", "2")
        assert refused.value.problem["decided_by"] == "rule 1 (zero.config:7)"
        await node.rule(ALL)
        await mom.send("/queue/a", "3")
    assert node.depth("a") == 2


async def test_a_subscription_ends_with_the_reason_and_its_unsettled_messages_return(node: SmallNode) -> None:
    async with node.stomp("john", reconnect=False) as mom:
        async with mom.subscribe("/queue/a", ack="client-individual") as messages:
            await mom.send("/queue/a", "1")
            await messages.get(timeout_s=5)
            await node.rule(NOBODY_RECEIVES, ALL)
            with pytest.raises(Refused, match="john may not receive from queue a; subscription") as refused:
                await messages.get(timeout_s=5)
            assert refused.value.problem["right"] == "receive"
        assert mom.connected
        assert (node.depth("a"), len(node.node.broker.destinations.queues["/queue/a"].consumers)) == (1, 0)
        await node.rule(ALL)
        async with mom.subscribe("/queue/a") as messages:
            assert (await messages.get(timeout_s=5)).redelivered


async def test_a_subscription_to_what_is_forwarded_ends_with_the_rule_that_allowed_it(
    node: SmallNode,
) -> None:
    queue = "storeAndForward:broker2/queue/queue1"
    await node.rule(Rule("john", conditions=f"/event/queue == {queue}", users=("john",)))
    async with node.stomp("john", reconnect=False) as mom, mom.subscribe(f"/queue/{queue}") as messages:
        await node.rule()
        with pytest.raises(Refused, match="may not receive from queue storeAndForward"):
            await messages.get(timeout_s=5)
        assert mom.connected
    assert not node.node.broker.destinations.queues[f"/queue/{queue}"].consumers


async def test_permission_is_checked_once_for_each_destination_and_policy(
    node: SmallNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sends, "MAX_SENDS", 2)
    await node.rule(ALL)

    def counted() -> dict[str | None, int]:
        return {row.event.queue: row.times for row in node.node.decisions.decided()}

    async with node.stomp("john", reconnect=False) as mom:
        for number in range(20):
            await mom.send(f"/queue/{'ab'[number % 2]}", "1", headers={"unique": str(number)})
        assert counted() == {"a": 1, "b": 1}
        await node.rule(ALL)
        await mom.send("/queue/a", "1")
        assert counted() == {"a": 2, "b": 1}
        await mom.send("/queue/c", "1")  # in the place of a
        await mom.send("/queue/b", "1")
        await mom.send("/queue/a", "1", headers={"unique": "again"})
        assert counted() == {"a": 3, "b": 2, "c": 1}
        await node.rule(NOBODY_SENDS)
        for number in range(3):
            with pytest.raises(Refused):
                await mom.send("/queue/c", "1", headers={"unique": str(number)})
        assert counted()["c"] == 4, "each refusal is counted"


async def test_a_client_without_soft_errors_is_disconnected_with_the_reason(node: SmallNode) -> None:
    pipe, other = await connected(node), await connected(node)
    await pipe.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")
    assert "RECEIPT" in await frame(pipe)
    await node.rule(NOBODY_RECEIVES, ALL)
    told = await frame(pipe)
    assert told.startswith("ERROR\n") and '"decided_by":"rule 1 (no-receiving)"' in told
    assert await frame(pipe) == ""
    await other.send(b"SEND\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert "RECEIPT" in await frame(other), "who uses nothing that it lost goes on"


async def test_a_subscription_requested_just_before_is_found_and_ended(node: SmallNode) -> None:
    pipe = await connected(node, **{"mom-soft-errors": "true"})
    (session,) = node.node.registry.sessions
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert not session.peer.subscriptions, "the engine has not had a turn"
    await node.rule(NOBODY_RECEIVES, ALL)
    assert '"subscription":"1"' in await frame(pipe)
    assert not node.node.broker.destinations.queues["/queue/a"].consumers


async def test_a_frame_that_was_begun_before_is_refused_when_it_ends_after(node: SmallNode) -> None:
    pipe = await connected(node, **{"mom-soft-errors": "true"})
    send = b"SEND\ndestination:/queue/a\ncontent-length:4\nreceipt:%d\n\n%b"
    await pipe.send(send % (1, b"1234\0"))
    assert "RECEIPT" in await frame(pipe)
    await pipe.send(send % (2, b"12"))
    await node.rule(NOBODY_SENDS, ALL)
    await pipe.send(b"34\0")
    assert "receipt-id:2" in (told := await frame(pipe)) and "not-allowed" in told
    assert node.depth("a") == 1


async def test_a_transaction_is_not_committed_with_a_right_that_was_lost(node: SmallNode) -> None:
    async with node.stomp("john", reconnect=False) as mom:

        async def send_and_lose_the_right() -> None:
            async with mom.transaction() as transaction:
                await transaction.send("/queue/b", "1")
                await transaction.send("/queue/a", "1")
                await mom.send("/queue/c", "what was sent before has been taken")
                deny = Rule("no", DENY, conditions="/event/queue == a && /event/method == POST")
                await node.rule(deny, ALL)

        with pytest.raises(Refused, match="rolled back: john may not send to queue a") as refused:
            await send_and_lose_the_right()
        assert refused.value.problem["decided_by"] == "rule 1 (no)"
        assert (node.depth("a"), node.depth("b")) == (0, 0)
        async with mom.transaction() as transaction:
            await transaction.send("/queue/b", "1")
    assert node.depth("b") == 1


async def test_with_the_setting_close_a_client_that_loses_a_used_right_is_disconnected(
    tmp_path: Path,
) -> None:
    policy = policy_of(users=USERS)
    async with small_node(tmp_path, policy, revoked="close") as node:
        sender, idle = await connected(node, **{"mom-soft-errors": "true"}), await connected(node)
        consumer = await connected(node, **{"mom-soft-errors": "true"})
        await sender.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
        await consumer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/b\nreceipt:1\n\n\0")
        assert "RECEIPT" in await frame(sender) and "RECEIPT" in await frame(consumer)
        await node.rule(NOBODY_SENDS, NOBODY_RECEIVES)
        for pipe in (sender, consumer):
            assert (await frame(pipe)).startswith("ERROR\n")
            assert await frame(pipe) == ""
        await idle.send(b"SEND\ndestination:/topic/$x\nreceipt:1\n\n\0")
        assert "the broker's own" in await frame(idle)


# ---------------------------------------------------------------------- REST


async def waiting(node: SmallNode, count: int) -> None:
    async with asyncio.timeout(patient(10)):
        while len(node.node.rest._waiting._waits) < count:
            await asyncio.sleep(0)


async def test_a_receive_that_waits_ends_with_the_problem(node: SmallNode) -> None:
    async with node.rest("john") as john, node.rest("root") as root:
        asked = [
            asyncio.ensure_future(rest.post("/queues/a/receive", json={"wait_s": 30}))
            for rest in (john, root)
        ]
        await waiting(node, 2)
        await node.rule(NOBODY_RECEIVES, ALL)
        refused = await asked[0]
        assert (refused.status_code, refused.json()["decided_by"]) == (403, "rule 1 (no-receiving)")
        await root.post("/queues/a/messages", content=b"1")
        assert len((await asked[1]).json()["items"]) == 1, "an administrator goes on"


async def test_an_event_stream_ends_with_the_problem_as_its_last_event(node: SmallNode) -> None:
    async with node.rest("john") as rest:
        streaming = asyncio.ensure_future(rest.get("/queues/a/events"))
        await waiting(node, 1)
        await rest.post("/queues/a/messages", content=b"1")
        async with asyncio.timeout(patient(10)):
            while not node.node.broker.destinations.queues["/queue/a"].unsettled:
                await asyncio.sleep(0)
        await node.rule(NOBODY_RECEIVES, ALL)
        events = (await streaming).text
    assert "event: message" in events
    assert events.rstrip().rpartition("\n\n")[2].startswith("event: problem\ndata: {")
    async with asyncio.timeout(patient(10)):
        while not node.depth("a"):
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/queues/a/messages", "/queues/a/messages/batch", "/queues/a/import"])
async def test_a_slow_upload_is_refused_at_its_end(node: SmallNode, path: str) -> None:
    async def upload() -> AsyncIterator[bytes]:
        yield b'[{"body":' if path.endswith("batch") else b'{"body":'
        await node.rule(NOBODY_SENDS, ALL)
        yield b'"1"}]' if path.endswith("batch") else b'"1"}\n'

    kind = "application/x-ndjson" if path.endswith("import") else "application/json"
    async with node.rest("john") as rest:
        reply = await rest.post(path, content=upload(), headers={"content-type": kind})
    assert reply.status_code == 403, reply.text
    assert node.depth("a") == 0


async def test_of_lines_that_arrive_those_before_the_change_are_taken(node: SmallNode) -> None:
    async def upload() -> AsyncIterator[bytes]:
        yield b'{"body":"1"}\n{"body":"2"}\n'
        await node.rule(NOBODY_SENDS, ALL)
        yield b'{"body":"3"}\n'

    async with node.rest("john") as rest:
        kind = {"content-type": "application/x-ndjson"}
        reply = await rest.post("/queues/a/messages/batch", content=upload(), headers=kind)
    results = [httpx.Response(200, content=line).json() for line in reply.text.splitlines()]
    assert ["id" in result for result in results] == [True, True, False]
    assert results[2]["error"]["type"] == "/docs/problems/not-allowed"
    assert node.depth("a") == 2


# ---------------------------------------------------------------------- settings of the broker


async def settings(node: SmallNode, **values: Any) -> None:
    await node.change(broker=values)


async def test_settings_of_clients_change_while_they_are_connected(node: SmallNode) -> None:
    async with node.stomp("john") as mom, node.rest("john") as rest:
        await settings(node, credit=2, lease=7, max_connections=1, max_subscriptions=1)
        async with mom.subscribe("/queue/a", ack="client-individual"):
            (consumer,) = (await rest.get("/queues/a/consumers")).json()["items"]
            assert consumer["credit"] == 2
            with pytest.raises(Refused, match="may have 1 subscriptions"):
                async with mom.subscribe("/queue/b"):
                    pass
        with pytest.raises((Refused, ConnectionLost), match="at most 1 connections"):
            await node.stomp("mary", reconnect=False).open()
        assert (await rest.get("/limits")).json()["default_lease_s"] == 7
        await settings(node)
        async with node.stomp("mary"):
            assert (await rest.get("/limits")).json()["default_lease_s"] == 30


async def test_the_brokers_limits_change_while_messages_come(node: SmallNode) -> None:
    async with node.stomp("john") as mom:
        await mom.send("/queue/a", "1")
        await settings(node, max_messages=1, full_wait=0.1, queue_reap=2)
        assert node.node.broker.turn.limits.idle_queue_ms == 2_000
        with pytest.raises(Refused) as refused:
            await mom.send("/queue/a", "2")
        assert refused.value.code == "queue-full"
        await settings(node, max_messages=2)
        await mom.send("/queue/a", "3")
        await settings(node, max_messages=2, full_wait=30)
        waits = asyncio.ensure_future(mom.send("/queue/a", "4"))
        async with asyncio.timeout(patient(10)):
            while not node.node.broker.admission.blocked.bytes:
                await asyncio.sleep(0)
        await settings(node)
        await waits
    assert node.depth("a") == 3


async def test_the_rate_limit_changes_while_a_client_sends(node: SmallNode) -> None:
    pipe = await connected(node)
    (session,) = node.node.registry.sessions
    await settings(node, max_frames_per_second=10)
    await pipe.send(b"SEND\ndestination:/queue/a\n\n\0" * 15)
    assert session.is_throttled
    await settings(node)
    async with asyncio.timeout(patient(10)):
        while session.is_throttled:
            await asyncio.sleep(0.01)
    await pipe.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0" * 1000)
    assert not session.is_throttled


async def test_a_new_password_ends_the_connections_of_the_old_one_and_a_new_token_those_of_its_former(
    node: SmallNode,
) -> None:
    by_password, by_token = await connected(node), await connected(node, token="test")
    of_mary = await connected(node, "mary")
    users = {**node.policy.users, "john": replace(node.policy.users["john"], password_hash="another")}
    await node.change(users=users)
    told = await frame(by_password)
    assert told.startswith("ERROR\n") and "the login of john is no longer valid" in told
    await by_token.send(b"SEND\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert "RECEIPT" in await frame(by_token), "a token is not its owner's password"

    tokens = {b"new" if facts.user == "john" else key: facts for key, facts in node.policy.tokens.items()}
    await node.change(tokens=tokens)
    assert "the login of john is no longer valid" in await frame(by_token)
    await (await connected(node)).send(b"DISCONNECT\n\n\0")
    await of_mary.send(b"SEND\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert "RECEIPT" in await frame(of_mary)
