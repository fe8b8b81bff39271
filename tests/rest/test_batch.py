"""Publishing many messages with one request."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from broker_app.base import deadline
from broker_app.net.http.requests import LineCutter
from broker_app.net.rest import RestLimits
from tests.rest.conftest import MakeRest, Rest, in_pieces
from tests.support.loop_turns import loop_turns

NDJSON = {"content-type": "application/x-ndjson"}


async def test_each_item_gets_its_result_in_order(rest: Rest) -> None:
    reply = await rest.alice.post(
        "/queues/a/messages/batch",
        json=[{"body": "one"}, {"body": "two", "priority": 10}, {"bodyy": 1}, {"body": {"n": 3}}],
    )
    assert reply.status_code == 200
    results = reply.json()["results"]
    assert [result["i"] for result in results] == [0, 1, 2, 3]
    assert [result.get("error", {}).get("errors", [{}])[0].get("pointer") for result in results] == [
        None,
        "/priority",
        "/bodyy",
        None,
    ]
    assert "did you mean body" in results[2]["error"]["detail"]
    received = await rest.receive("a", max=10)
    assert [item["id"] for item in received] == [results[0]["id"], results[3]["id"]]
    assert [item["body"] for item in received] == ["one", {"n": 3}]


async def test_items_have_a_member_for_each_header(rest: Rest) -> None:
    item = {
        "body_base64": base64.b64encode(b"\0\xff").decode(),
        "content_type": "application/x-thing",
        "headers": {"Tenant": "acme: a\nb"},
        "persistent": False,
        "priority": 9,
        "expires_s": 60,
        "correlation_id": "c1",
        "reply_to": "/queue/answers",
        "type": "t",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
    await rest.alice.post("/queues/a/messages/batch", json=[item])
    (received,) = await rest.receive("a")
    for member in (
        "body_base64",
        "content_type",
        "headers",
        "persistent",
        "priority",
        "correlation_id",
        "reply_to",
    ):
        assert received[member] == item[member]
    assert received["type"] == "t"
    assert received["trace"] == {"traceparent": item["traceparent"]}


async def test_bodies_keep_their_bytes(rest: Rest) -> None:
    batch = (
        b'[{"body": {"n":  1.0} }, {"body": "a\\u00e9\\n"}, {"body": null},'
        b' {"body": "x", "content_type": "application/json"}, {"body_base64": ""}]'
    )
    await rest.alice.post(
        "/queues/a/messages/batch", content=batch, headers={"content-type": "application/json"}
    )
    (lane,) = rest.engine.broker.destinations.queues["/queue/a"].lanes
    assert [m.body for m in lane.in_memory()] == [b'{"n":  1.0}', "aé\n".encode(), b"null", b'"x"', b""]


@pytest.mark.parametrize(
    ("item", "pointer"),
    [
        ({}, "/body"),
        ({"body": "x", "body_base64": "eA=="}, "/body"),
        ({"body_base64": "?"}, "/body_base64"),
        ({"body": 1, "content_type": "text/plain"}, "/body"),
        ({"body": "x", "expires_s": 0}, "/expires_s"),
        ({"body": "x", "delay_s": -1}, "/delay_s"),
        ({"body": "x", "deliver_at": "soon"}, "/deliver_at"),
        ({"body": "x", "dedup_id": ""}, "/dedup_id"),
        ({"body": "x", "headers": {"destination": "/queue/b"}}, "/headers/destination"),
        ({"body": "x", "headers": {"a": "\0"}}, "/headers/a"),
        ({"body": "x", "headers": {"a": 1}}, "/headers"),
        ({"body": "x", "type": "\0"}, "/type"),
        ({"body": "\ud800"}, None),
        ("text", ""),
    ],
)
async def test_wrong_items(rest: Rest, item: object, pointer: str | None) -> None:
    content = json.dumps([item, {"body": "good"}])
    reply = await rest.alice.post(
        "/queues/a/messages/batch", content=content, headers={"content-type": "application/json"}
    )
    if pointer is None:  # no JSON in UTF-8 at all
        assert reply.status_code == 400
        return
    bad, good = reply.json()["results"]
    assert bad["error"]["errors"][0]["pointer"].startswith(pointer)
    assert "id" in good


@pytest.mark.parametrize("content", [b"{}", b'"x"', b"[", b"[1,]", b"\xff", b"[" * 100_000, b""])
async def test_a_body_that_is_not_an_array_is_refused(rest: Rest, content: bytes) -> None:
    reply = await rest.alice.post(
        "/queues/a/messages/batch", content=content, headers={"content-type": "application/json"}
    )
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid")


async def test_an_atomic_batch_is_published_whole_or_not_at_all(rest: Rest) -> None:
    address = "/queues/a/messages/batch?atomic=true"
    refused = await rest.alice.post(address, json=[{"body": "1"}, {"body": "2", "priority": -1}])
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/1/priority")
    assert rest.depth("a") == 0
    commits = rest.journal.statistics()["commits"]
    reply = await rest.alice.post(address, json=[{"body": "1"}, {"body": "2"}])
    assert [result["i"] for result in reply.json()["results"]] == [0, 1]
    assert len({result["id"] for result in reply.json()["results"]}) == 2
    assert rest.depth("a") == 2
    assert rest.journal.statistics()["commits"] == commits + 1
    assert (await rest.alice.post(address, json=[])).json() == {"results": []}


async def test_atomic_lines_are_refused(rest: Rest) -> None:
    reply = await rest.alice.post(
        "/queues/a/messages/batch?atomic=true", content=b'{"body":"1"}', headers=NDJSON
    )
    assert reply.status_code == 415


async def test_lines_are_published_as_they_arrive(rest: Rest) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b'{"body":"1"}\n{"bo'
        await rest.until(lambda: rest.depth("a") == 1)
        yield b'dy":"2"}\n\nnonsense\n'
        await rest.until(lambda: rest.depth("a") == 2)
        yield b'{"body":"3"}'

    reply = await rest.alice.post("/queues/a/messages/batch", content=lines(), headers=NDJSON)
    assert reply.headers["content-type"] == "application/x-ndjson"
    results = [json.loads(line) for line in reply.text.splitlines()]
    assert [result["i"] for result in results] == [0, 1, 2, 3]
    assert ["id" in result for result in results] == [True, True, False, True]


async def test_more_lines_than_taken_end_with_an_error(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_stream_items=2))
    reply = await rest.alice.post("/queues/a/messages/batch", content=b'{"body":"x"}\n' * 5, headers=NDJSON)
    results = [json.loads(line) for line in reply.text.splitlines()]
    assert ["id" in result for result in results] == [True, True, False]
    assert results[2]["error"]["type"] == "/docs/problems/too-large"
    assert rest.depth("a") == 2


async def test_sizes_are_bounded(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_batch_items=2, max_batch_bytes=100))
    many = await rest.alice.post("/queues/a/messages/batch", json=[{"body": "x"}] * 3)
    assert (many.status_code, many.json()["limit"], many.json()["size"]) == (413, 2, 3)
    large = await rest.alice.post("/queues/a/messages/batch", json=[{"body": "x" * 100}])
    assert large.status_code == 413
    line = await rest.alice.post("/queues/a/messages/batch", content=b"x" * 101, headers=NDJSON)
    assert line.status_code == 413
    assert rest.depth("a") == 0


async def test_topics_take_batches(rest: Rest) -> None:
    reply = await rest.alice.post("/topics/news/messages/batch", json=[{"body": "x"}])
    assert "id" in reply.json()["results"][0]


async def test_rights_and_methods_are_checked(rest: Rest) -> None:
    assert (await rest.anonymous.post("/queues/a/messages/batch", json=[])).status_code == 401
    assert (await rest.alice.get("/queues/a/messages/batch")).status_code == 405
    wrong = await rest.alice.post(
        "/queues/a/messages/batch", content=b"x", headers={"content-type": "text/csv"}
    )
    assert wrong.status_code == 415
    unknown = await rest.alice.post("/queues/a/messages/batch?atomci=true", json=[])
    assert "did you mean atomic?" in unknown.json()["detail"]
    assert (await rest.alice.post("/queues/a/messages/batch?atomic=1", json=[])).status_code == 400
    refused = await rest.alice.post("/queues/a/messages/batch", json=[], headers={"mom-priority": "1"})
    assert refused.status_code == 400


async def test_a_failed_commit_leaves_no_success(rest: Rest) -> None:
    rest.journal.failure = OSError("disk full")
    rest.engine._failed = rest.rest_api.engine_ended
    reply = await rest.alice.post("/queues/a/messages/batch?atomic=true", json=[{"body": "x"}])
    assert reply.status_code == 503
    assert not rest.rest_api.engine_client._open


def test_lines_are_cut_the_same_however_their_bytes_arrive() -> None:
    body = b"\nfirst\n\nsecond line\nthird"
    for size in range(1, len(body) + 1):
        cutter = LineCutter()
        found = [line for at in range(0, len(body), size) for line in cutter.cut(body[at : at + size])]
        assert [*found, cutter.rest()] == body.split(b"\n"), size
        assert cutter.size == len(b"third")


async def test_others_are_served_while_many_lines_of_one_piece_are_published(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    body = b'{"body":"x"}\n' * 800
    request = asyncio.ensure_future(rest.alice.post("/queues/a/messages/batch", content=body, headers=NDJSON))
    turns = 0
    while not request.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await request).content.splitlines()) == 800
    assert turns > 2 * 800 / 17  # to read the lines, and to write the results


def parsing_s(body: bytes) -> float:
    """The processor time of reading JSON, and what is in it, once."""
    began = time.thread_time()
    msgspec.json.decode(body)
    return time.thread_time() - began


@pytest.mark.parametrize("headers", [NDJSON, {"content-type": "application/json"}], ids=["lines", "array"])
async def test_a_large_batch_is_read_off_the_loop(rest: Rest, headers: dict[str, str]) -> None:
    # It becomes short when it is read, as nothing but reading it is measured.
    item = b'{"body":"%b"}' % (rb"\u0041" * 1_300_000)
    body = b"[%b]" % item if headers != NDJSON else item
    async with loop_turns() as turns:
        reply = await rest.alice.post("/queues/a/messages/batch", content=in_pieces(body), headers=headers)
    assert reply.status_code == 200 and b'"id"' in reply.content, reply.text
    assert turns.longest_s < parsing_s(body) / 2


async def test_others_are_served_while_an_array_of_many_items_is_published(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    async with loop_turns() as turns:
        reply = await rest.alice.post("/queues/a/messages/batch", json=[{"body": "x"}] * 800)
    assert len(reply.json()["results"]) == 800
    assert turns.number > 2 * 800 / 17  # to read the items, and to write the results
