"""Publishing one message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from broker_app.net.rest import RestLimits
from broker_app.net.stomp.header_names import OF_MESSAGE
from tests.rest.conftest import MakeRest, Rest


async def test_the_reply_to_a_stored_message_has_its_location(rest: Rest) -> None:
    reply = await rest.alice.post("/queues/orders.new/messages", json={"id": 4711})
    assert reply.status_code == 201
    answer = reply.json()
    assert answer == {"id": answer["id"], "seq": 1, "stored": "synced", "copies": 1}
    assert reply.headers["location"] == f"/api/v1/messages/{answer['id']}?queue=orders.new"
    assert reply.headers["request-id"]
    looked = await rest.alice.get(reply.headers["location"].removeprefix("/api/v1"))
    assert looked.json()["body"] == {"id": 4711}


async def test_the_reply_leaves_after_the_commit_and_not_before(make_rest: MakeRest) -> None:
    rest = make_rest(hold=True)
    posting = asyncio.ensure_future(rest.alice.post("/queues/a/messages", content=b"x"))
    await rest.until(lambda: rest.depth("a") == 1)
    assert not posting.done()
    rest.journal.release()
    assert (await posting).status_code == 201


async def test_headers_of_a_message_are_delivered_to_its_consumer(rest: Rest) -> None:
    headers = {
        "content-type": "text/plain; charset=utf-8",
        "mom-priority": "7",
        "mom-persistent": "false",
        "mom-expires-s": "60",
        "mom-correlation-id": "c:1",
        "mom-reply-to": "/queue/answers",
        "mom-type": "order",
        "mom-header-tenant": "acme",
        "ce-source": "/shop",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
    reply = await rest.alice.post("/queues/a/messages", content="hé".encode(), headers=headers)
    assert reply.json()["stored"] == "memory"
    assert reply.headers["traceparent"] == headers["traceparent"]
    (item,) = await rest.receive("a")
    assert item["body"] == "hé"
    assert item["content_type"] == "text/plain; charset=utf-8"
    assert item["headers"] == {"tenant": "acme", "ce-source": "/shop"}
    assert (item["priority"], item["persistent"], item["type"]) == (7, False, "order")
    assert (item["correlation_id"], item["reply_to"]) == ("c:1", "/queue/answers")
    assert item["trace"] == {"traceparent": headers["traceparent"]}


async def test_equal_headers_share_one_envelope(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    (lane,) = rest.engine.broker.destinations.queues["/queue/a"].lanes
    first, second = lane.in_memory()
    assert first.envelope is second.envelope


async def test_blanks_around_the_value_of_a_header_are_none_of_it(rest: Rest) -> None:
    await rest.alice.post("/queues/a/messages", content=b"1", headers={"mom-header-x": "  v w \t"})
    (lane,) = rest.engine.broker.destinations.queues["/queue/a"].lanes
    (message,) = lane.in_memory()
    assert b"x:v w\n" in message.envelope.block


@pytest.mark.parametrize("name", ["a/b", "forward:b1/queue/q", "messages", "größe", "a b", "100%", "x/"])
async def test_any_name_fits_into_an_address_or_a_query(rest: Rest, name: str) -> None:
    first = await rest.alice.post(f"/queues/{quote(name, safe='')}/messages", content=b"1")
    second = await rest.alice.post("/queues/messages", params={"queue": name}, content=b"2")
    assert (first.status_code, second.status_code) == (201, 201), (first.text, second.text)
    assert rest.depth(name) == 2
    assert (await rest.alice.get(first.headers["location"].removeprefix("/api/v1"))).status_code == 200


async def test_a_name_is_given_once(rest: Rest) -> None:
    assert (await rest.alice.post("/queues/a/messages?queue=b", content=b"1")).status_code == 400
    assert (await rest.alice.post("/queues/messages?queue=", content=b"1")).status_code == 400


async def test_slashes_of_a_name_need_no_escape(rest: Rest) -> None:
    assert (await rest.alice.post("/queues/a/b/messages", content=b"1")).status_code == 201
    assert rest.depth("a/b") == 1


async def test_the_reply_of_a_topic_has_the_number_of_subscribers(rest: Rest) -> None:
    reply = await rest.alice.post("/topics/news/messages", content=b"x")
    assert (reply.status_code, reply.json()["copies"], reply.json()["stored"]) == (201, 0, "memory")
    assert "location" not in reply.headers
    refused = await rest.alice.post("/topics/news/messages?mandatory=true", content=b"x")
    assert (refused.status_code, refused.json()["type"]) == (409, "/docs/problems/no-route")


@pytest.mark.parametrize(
    ("headers", "status", "problem", "pointer"),
    [
        ({"mom-delay-s": "-1"}, 400, "invalid", "header/mom-delay-s"),
        ({"mom-delay-s": "315360001"}, 400, "invalid", "header/mom-delay-s"),
        ({"mom-deliver-at": "tomorrow"}, 400, "invalid", "header/mom-deliver-at"),
        ({"mom-deliver-at": "2030-01-01T00:00:00"}, 400, "invalid", "header/mom-deliver-at"),
        ({"mom-dedup-id": "x" * 1025}, 400, "invalid", "header/mom-dedup-id"),
        ({"mom-header-delay-s": "5"}, 400, "invalid", "header/mom-header-delay-s"),
        ({"mom-priority": "10"}, 400, "invalid", "header/mom-priority"),
        ({"mom-persistent": "yes"}, 400, "invalid", "header/mom-persistent"),
        ({"mom-expires-s": "nan"}, 400, "invalid", "header/mom-expires-s"),
        ({"mom-expires-s": "0"}, 400, "invalid", "header/mom-expires-s"),
        ({"mom-prioritty": "1"}, 400, "invalid", "header/mom-prioritty"),
        ({"mom-header-destination": "/queue/b"}, 400, "invalid", "header/mom-header-destination"),
        ({"content-encoding": "gzip"}, 415, "unsupported-type", None),
    ],
)
async def test_wrong_headers_are_refused(
    rest: Rest, headers: dict[str, str], status: int, problem: str, pointer: str | None
) -> None:
    reply = await rest.alice.post("/queues/a/messages", content=b"x", headers=headers)
    assert (reply.status_code, reply.json()["type"]) == (status, f"/docs/problems/{problem}")
    assert reply.headers["content-type"] == "application/problem+json"
    if pointer:
        assert reply.json()["errors"][0]["pointer"] == pointer
    assert rest.depth("a") == 0


async def test_a_misspelt_header_gets_a_suggestion(rest: Rest) -> None:
    reply = await rest.alice.post("/queues/a/messages", content=b"x", headers={"mom-prioritty": "1"})
    assert "did you mean mom-priority?" in reply.json()["detail"]


async def test_a_misspelt_query_key_gets_a_suggestion(rest: Rest) -> None:
    reply = await rest.alice.post("/topics/a/messages?mandatry=true", content=b"x")
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (400, "query/mandatry")
    assert "did you mean mandatory?" in reply.json()["detail"]


async def test_reserved_and_bad_names_are_refused(rest: Rest) -> None:
    assert (await rest.alice.post("/topics/$mom.stats/messages", content=b"x")).status_code == 403
    bad = await rest.alice.post("/queues/%20a/messages", content=b"x")
    assert (bad.status_code, bad.json()["type"]) == (400, "/docs/problems/bad-destination")
    assert (await rest.alice.post("/queues/%ff/messages", content=b"x")).status_code == 400
    assert (await rest.alice.post("/queues/messages", content=b"x")).status_code == 400
    assert (await rest.alice.post("/topics/a.*/messages", content=b"x")).status_code == 400


@pytest.mark.parametrize("name", sorted(OF_MESSAGE))
async def test_no_request_sets_a_header_that_the_broker_writes(rest: Rest, name: str) -> None:
    reply = await rest.alice.post("/queues/a/messages", content=b"x", headers={f"mom-header-{name}": "1"})
    assert (reply.status_code, f"{name} is reserved" in reply.json()["detail"]) == (400, True)


async def test_a_request_without_credentials_is_refused(rest: Rest) -> None:
    reply = await rest.anonymous.post("/queues/a/messages", content=b"x")
    assert (reply.status_code, reply.json()["type"]) == (401, "/docs/problems/not-authenticated")
    assert "Bearer" in reply.headers["www-authenticate"]


async def test_a_wrong_method_names_the_right_ones(rest: Rest) -> None:
    reply = await rest.alice.put("/queues/a/messages", content=b"x")
    assert (reply.status_code, reply.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, POST")


async def test_a_body_beyond_the_limit_is_refused_with_both_sizes(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_body_bytes=10))

    async def parts() -> AsyncIterator[bytes]:
        yield b"12345"
        yield b"678901"

    for content in (b"x" * 11, parts()):
        reply = await rest.alice.post("/queues/a/messages", content=content)
        answer = reply.json()
        assert (reply.status_code, answer["limit"], answer["size"]) == (413, 10, 11)
    assert (await rest.alice.post("/queues/a/messages", content=b"x" * 10)).status_code == 201


async def test_too_many_or_too_long_headers_are_refused(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_headers=2, max_header_bytes=100))
    many = {f"mom-header-{i}": "x" for i in range(3)}
    assert (await rest.alice.post("/queues/a/messages", content=b"", headers=many)).status_code == 413
    long = {"mom-header-a": "x" * 100}
    assert (await rest.alice.post("/queues/a/messages", content=b"", headers=long)).status_code == 413


async def test_a_failed_commit_is_no_success(rest: Rest) -> None:
    rest.journal.failure = OSError("disk full")
    rest.engine._failed = rest.rest_api.engine_ended
    reply = await rest.alice.post("/queues/a/messages", content=b"x")
    assert (reply.status_code, reply.json()["type"]) == (503, "/docs/problems/store-unavailable")
    again = await rest.alice.post("/queues/a/messages", content=b"x")
    assert (again.status_code, again.json()["type"]) == (503, "/docs/problems/not-active")
