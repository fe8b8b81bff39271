"""Watching what comes to a destination."""

from __future__ import annotations

import json
from typing import Any

from tests.rest.conftest import Rest
from tests.rest.test_events import Stream


def skipped(stream: Stream) -> int:
    told = [block for block in stream.text.decode().split("\n\n") if "event: skipped" in block]
    return sum(json.loads(block.split("data: ")[1])["count"] for block in told)


async def test_a_tail_shows_new_messages_without_consuming_them(rest: Rest) -> None:
    await rest.publish("a", "before")
    tail = Stream(rest, "/api/v1/queues/a/tail")
    await rest.until_later(lambda: b"connected" in tail.text)
    await rest.publish("a", "1", **{"mom-header-tenant": "acme"})
    await rest.publish("b", "elsewhere")
    await rest.receive("a", max=2)
    await rest.publish("a", "2")
    seen: list[dict[str, Any]] = await tail.messages(2)
    assert [item["body"] for item in seen] == ["1", "2"]
    assert seen[0]["headers"] == {"tenant": "acme"}
    assert [item["body"] for item in await rest.receive("a")] == ["2"]
    assert skipped(tail) == 0
    await tail.leave()
    assert not rest.engine.broker.store.taps


async def test_messages_beyond_the_credit_are_counted(rest: Rest) -> None:
    tail = Stream(rest, "/api/v1/topics/t/tail?credit=8")
    await rest.until_later(lambda: b"connected" in tail.text)
    for number in range(20):
        await rest.alice.post("/topics/t/messages", content=b"%d" % number)
    await rest.until_later(lambda: skipped(tail) + tail.text.count(b"event: message") == 20)
    assert tail.text.count(b"event: message") >= 2
    assert skipped(tail) > 0
    await tail.leave()


async def test_a_tail_requires_the_right_to_read(rest: Rest) -> None:
    assert (await rest.alice.get("/queues/a/tail?credit=0")).status_code == 400
    assert (await rest.anonymous.get("/queues/a/tail")).status_code == 401
