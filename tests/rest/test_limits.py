"""Limits over REST: publishes wait a moment for room, and are then refused with the time to come again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from broker_app.core import commands as c
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy, Policies
from broker_app.net.rest import RestLimits
from tests.rest.conftest import MakeRest, Rest

HASTY = RestLimits(max_queue_wait_s=0.5)


def limit(rest: Rest, **rules: Any) -> None:
    policies = Policies(
        exact={"/queue/a": DestinationPolicy(**rules), "/topic/a": DestinationPolicy(**rules)}
    )
    rest.engine.submit(c.Reconfigure(policies))


async def test_a_publish_waits_for_room(rest: Rest) -> None:
    limit(rest, max_messages=1)
    await rest.publish("a", "1")
    posting = asyncio.create_task(rest.alice.post("/queues/a/messages", content=b"2"))
    await rest.until(lambda: bool(rest.engine.broker.admission.blocked.bytes))
    (item,) = await rest.receive("a", wait_s=0)
    await rest.alice.delete(f"/leases/{item['receipt']}")
    assert (await posting).status_code == 201


async def test_a_publish_blocked_too_long_is_refused_with_retry_after(
    make_rest: MakeRest,
) -> None:
    rest = make_rest(limits=HASTY)
    limit(rest, max_messages=1)
    await rest.publish("a", "1")
    reply = await rest.alice.post("/queues/a/messages", content=b"2")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert reply.json()["type"] == "/docs/problems/queue-full"
    assert rest.depth("a") == 1


async def test_of_a_batch_each_message_has_its_own_answer(rest: Rest) -> None:
    limit(rest, max_messages=2, limit_behavior=REJECT_NEWEST)
    items = [{"body": number} for number in range(3)]
    reply = await rest.alice.post("/queues/a/messages/batch", json=items)
    assert reply.status_code == 200
    first, second, third = reply.json()["results"]
    assert first["id"] and second["id"]
    assert third["error"]["type"] == "/docs/problems/queue-full"
    reply = await rest.alice.post("/queues/a/messages/batch", json=items)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")


async def test_of_streamed_lines_each_has_its_own_answer(rest: Rest) -> None:
    limit(rest, max_message_bytes=3)
    lines = b"".join(json.dumps({"body": body}).encode() + b"\n" for body in ("ab", "much longer", "c"))
    headers = {"content-type": "application/x-ndjson"}
    reply = await rest.alice.post("/queues/a/messages/batch", content=lines, headers=headers)
    first, second, third = map(json.loads, reply.text.splitlines())
    assert first["id"] and third["id"]
    assert second["error"]["type"] == "/docs/problems/too-large"


async def test_an_atomic_batch_comes_in_whole_or_not_at_all(rest: Rest) -> None:
    limit(rest, max_messages=2)
    items = [{"body": number} for number in range(3)]
    reply = await rest.alice.post("/queues/a/messages/batch?atomic=true", json=items)
    assert (reply.status_code, reply.json()["type"]) == (503, "/docs/problems/queue-full")
    assert rest.depth("a") == 0


async def test_a_full_store_is_reported_and_recovers(make_rest: MakeRest) -> None:
    rest = make_rest(limits=HASTY)
    await rest.publish("a", "1")
    rest.journal.space = 0
    while (reply := await rest.alice.post("/queues/b/messages", content=b"2")).status_code == 201:
        assert rest.depth("b") < 1_000, "the journal is asked again after a while"
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "30")
    assert reply.json()["type"] == "/docs/problems/store-full"
    (item,) = await rest.receive("a", wait_s=0)
    assert (await rest.alice.delete(f"/leases/{item['receipt']}")).status_code == 204
    rest.journal.space = 1 << 40
    await rest.publish("a", "3")


async def test_a_topic_has_limits_as_well(rest: Rest) -> None:
    limit(rest, max_message_bytes=3)
    reply = await rest.alice.post("/topics/a/messages", content=b"long")
    assert (reply.status_code, reply.json()["type"]) == (413, "/docs/problems/too-large")
