"""Statistics over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from broker_app.telemetry.node_totals import NODE_LAYOUT
from broker_app.telemetry.timeseries import COLUMNS
from tests.rest.conftest import Rest
from tests.rest.test_events import Stream
from tests.support.patience import patient

NOW = 1_800_000_000


async def test_the_past_of_a_queue_comes_as_columns(rest: Rest) -> None:
    rest.statistics.sample(NOW)
    await rest.publish("a", "1", "2", "3")
    await rest.receive("a", ack="auto")
    rest.statistics.sample(NOW + 1)
    await rest.publish("a", "4")
    rest.statistics.sample(NOW + 12)
    reply = await rest.alice.get("/queues/a/stats", params={"window_s": 12, "step_s": 1})
    assert reply.status_code == 200
    shown = reply.json()
    assert (shown["name"], shown["t0"], shown["step_s"]) == ("a", NOW + 1, 1)
    assert set(shown["series"]) == set(COLUMNS)
    assert shown["series"]["in"] == [3, *[0] * 10, 1]
    assert shown["series"]["out"] == [1, *[0] * 11]
    assert shown["series"]["depth"] == [2] * 11 + [3]
    assert (shown["now"]["depth"], shown["now"]["published"], shown["now"]["wait_s"]["samples"]) == (3, 4, 0)
    hour = (await rest.alice.get("/queues/a/stats", params={"window_s": 3600, "step_s": 10})).json()
    assert hour["step_s"] == 10
    assert len(hour["series"]["in"]) == 360
    assert hour["series"]["in"][-2:] == [3, 1]


async def test_the_past_of_a_topic(rest: Rest) -> None:
    await rest.alice.post("/topics/t.x/messages", content=b"1")
    rest.statistics.sample(NOW)
    shown = (await rest.alice.get("/topics/t.x/stats?window_s=1")).json()
    assert shown["series"]["in"] == [1]
    assert shown["now"]["kind"] == "topic"


async def test_a_queue_that_ended_lately_still_has_its_past(rest: Rest) -> None:
    await rest.publish("a", "1")
    rest.statistics.sample(NOW)
    del rest.engine.broker.destinations.queues["/queue/a"]
    shown = (await rest.alice.get("/queues/a/stats?window_s=1")).json()
    assert shown["series"]["in"] == [1]
    assert shown["now"] is None


async def test_errors_of_a_query_are_reported(rest: Rest) -> None:
    assert (await rest.alice.get("/queues/none/stats")).status_code == 404
    assert (await rest.alice.get("/topics/none/stats")).status_code == 404
    await rest.publish("a", "1")
    assert (await rest.alice.get("/queues/a/stats?window_s=86401")).status_code == 400
    assert (await rest.alice.get("/queues/a/stats?step_s=0")).status_code == 400
    assert (await rest.alice.get("/queues/a/stats?steps=1")).status_code == 400
    assert (await rest.anonymous.get("/queues/a/stats")).status_code == 401
    assert (await rest.alice.get("/queues/stats?queue=a")).status_code == 200


async def events(stream: Stream, count: int) -> list[dict[str, Any]]:
    """Wait until `count` events have arrived in total."""
    async with asyncio.timeout(patient(10)):
        while stream.text.count(b"event: stats\n") < count:
            await asyncio.sleep(0)
    return [json.loads(part.partition("\n\n")[0]) for part in stream.text.decode().split("data: ")[1:]]


async def test_a_stream_sends_the_numbers_after_each_pass(rest: Rest) -> None:
    stream, other = Stream(rest, "/api/v1/stats/stream"), Stream(rest, "/api/v1/stats/stream")
    await events(stream, 1)
    assert stream.headers[b"content-type"] == b"text/event-stream"
    await rest.publish("a", "1")
    rest.statistics.sample(NOW)
    first, second = await events(stream, 2)
    assert first["destinations"] == []
    assert [row["depth"] for row in second["destinations"]] == [1]
    assert second == (await events(other, 2))[1]
    assert {**second, "bridges": []} == (await rest.alice.get("/stats")).json()
    await stream.leave()
    await other.leave()
    assert not rest.statistics.listeners


async def test_a_stream_of_some_destinations(rest: Rest) -> None:
    await rest.publish("a", "1")
    await rest.publish("b", "1")
    rest.statistics.sample(NOW)
    stream = Stream(rest, "/api/v1/stats/stream?destinations=b,/queue/none,/topic/t")
    (event,) = await events(stream, 1)
    assert [row["name"] for row in event["destinations"]] == ["/queue/b"]
    assert event["node"]["published"] == 2
    await stream.leave()
    for wrong in (",", "x," * 51, "/nowhere/a"):
        assert (await rest.alice.get(f"/stats/stream?destinations={wrong}")).status_code == 400


async def test_streams_end_with_the_node(rest: Rest) -> None:
    stream = Stream(rest, "/api/v1/stats/stream")
    await events(stream, 1)
    rest.rest_api.stop()
    await stream.task
    assert stream.ended


async def test_the_past_of_the_node_comes_as_columns(rest: Rest) -> None:
    rest.statistics.sample(NOW)
    await rest.publish("a", "1", "2")
    rest.statistics.sample(NOW + 1, connections=3)
    shown = (await rest.alice.get("/node/stats", params={"window_s": 2, "step_s": 1})).json()
    assert (shown["t0"], shown["step_s"], shown["node"]["backlog"]) == (NOW, 1, 2)
    assert set(shown["series"]) == set(NODE_LAYOUT.columns)
    assert shown["series"]["in"] == [0, 2]
    assert shown["series"]["connections"] == [0, 3]
    assert (await rest.alice.get("/node/stats?window_s=86401")).status_code == 400
    assert (await rest.anonymous.get("/node/stats")).status_code == 401
