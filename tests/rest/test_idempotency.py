"""Requests with an Idempotency-Key on the data plane: carried out once, answered alike."""

import asyncio
import time
from hashlib import blake2b
from typing import Any

import httpx
import pytest

from broker_app.config import MIB
from broker_app.net.http.idempotency import IdempotencyStore
from tests.rest.conftest import MakeRest, Rest, in_pieces
from tests.support.loop_turns import loop_turns
from tests.support.memory_journal import MemoryStorage

QUEUE = "/queues/a/messages"
BATCH = "/queues/a/messages/batch"


async def post(
    client: httpx.AsyncClient, path: str, body: Any, key: str = "k", **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, str):
        return await client.post(path, content=body, headers={"idempotency-key": key, **named})
    return await client.post(path, json=body, headers={"idempotency-key": key, **named})


@pytest.mark.parametrize(
    ("path", "body", "stored"),
    [(QUEUE, "hello", 1), (BATCH, [{"body": "x"}, {"body": "y"}], 2), ("/topics/t/messages", "hello", None)],
)
async def test_a_repeat_gets_the_answer_of_the_first(
    rest: Rest, path: str, body: Any, stored: int | None
) -> None:
    first = await post(rest.alice, path, body)
    assert "idempotency-replayed" not in first.headers
    again = await post(rest.alice, path, body)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers.get("location") == first.headers.get("location")
    assert again.headers["request-id"] != first.headers["request-id"]
    if stored is not None:
        assert rest.depth("a") == stored


async def test_a_job_is_begun_once(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    wish = {"op": "purge", "source": "a"}
    plan = {"plan": (await rest.alice.post("/jobs", json={**wish, "dry_run": True})).json()["plan"]}
    first = await post(rest.alice, "/jobs", plan)
    again = await post(rest.alice, "/jobs", plan)
    assert first.status_code == again.status_code == 202, first.text
    assert again.json()["id"] == first.json()["id"]


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (QUEUE, "other", {}),
        ("/queues/b/messages", "hello", {}),
        ("/topics/a/messages", "hello", {}),
        (QUEUE, "hello", {"mom_priority": "9"}),
        (QUEUE, "hello", {"content_type": "text/plain"}),
    ],
)
async def test_another_request_needs_another_key(
    rest: Rest, path: str, body: str, headers: dict[str, str]
) -> None:
    await post(rest.alice, QUEUE, "hello")
    refused = await post(rest.alice, path, body, **headers)
    assert (refused.status_code, refused.json()["type"]) == (422, "/docs/problems/idempotency-mismatch")


async def test_keys_belong_to_their_user(rest: Rest) -> None:
    assert (await post(rest.alice, QUEUE, "x")).json()["id"] != (await post(rest.bob, QUEUE, "x")).json()[
        "id"
    ]
    assert rest.depth("a") == 2


async def test_a_refused_request_may_be_repeated(rest: Rest) -> None:
    assert (await post(rest.alice, BATCH, {"no": "array"})).status_code == 400
    assert (await post(rest.alice, BATCH, [{"body": "x"}])).status_code == 200


@pytest.mark.parametrize("key", ["x" * 256, "a b", '"', "ü"])
async def test_an_invalid_key_is_reported(rest: Rest, key: str) -> None:
    refused = await rest.alice.post(QUEUE, content="x", headers=[(b"idempotency-key", key.encode())])
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "header/idempotency-key"


@pytest.mark.parametrize("path", [BATCH, "/queues/a/import"])
async def test_a_stream_of_lines_takes_no_key(rest: Rest, path: str) -> None:
    refused = await post(rest.alice, path, '{"body": "x"}\n', content_type="application/x-ndjson")
    assert (refused.status_code, refused.json()["type"]) == (422, "/docs/problems/unsupported")
    assert "dedup" in refused.json()["detail"]


async def test_a_running_request_is_reported(make_rest: MakeRest) -> None:
    rest = make_rest(hold=True)
    first = asyncio.create_task(post(rest.alice, QUEUE, "x"))
    await rest.until(lambda: rest.depth("a") == 1)
    running = await post(rest.alice, QUEUE, "x")
    assert (running.status_code, running.json()["type"]) == (409, "/docs/problems/conflict")
    assert running.headers["retry-after"] == "1"
    rest.journal.release()
    assert (await first).status_code == 201


async def test_a_repeat_is_known_after_a_restart(make_rest: MakeRest) -> None:
    storage = MemoryStorage()
    before = make_rest(storage=storage)
    first = await post(before.alice, QUEUE, "x")
    await before.engine.stop()
    before.journal.close()
    rest = make_rest(storage=storage)
    again = await post(rest.alice, QUEUE, "x")
    assert (again.json()["id"], again.json()["duplicate"]) == (first.json()["id"], True)
    assert rest.depth("a") == 1


@pytest.mark.parametrize("path", [BATCH, f"{BATCH}?atomic=true"])
async def test_a_repeated_batch_is_known_after_a_restart(make_rest: MakeRest, path: str) -> None:
    storage = MemoryStorage()
    before = make_rest(storage=storage)
    batch = [{"body": "x"}, {"body": "x"}, {"body": "y", "dedup_id": "own"}]
    first = (await post(before.alice, path, batch)).json()["results"]
    assert len({result["id"] for result in first}) == 3
    await before.engine.stop()
    before.journal.close()
    rest = make_rest(storage=storage)
    again = (await post(rest.alice, path, batch)).json()["results"]
    assert again == [{**result, "duplicate": True} for result in first]
    assert rest.depth("a") == 3


async def test_the_oldest_answers_go_first(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    store = IdempotencyStore(lambda: 0.0)
    monkeypatch.setattr(rest.rest_api._dispatcher, "_idempotency", store)
    monkeypatch.setattr(IdempotencyStore, "MOST", 2)
    for key in ("1", "2", "3"):
        await post(rest.alice, "/topics/t/messages", "x", key)
    assert [key for _, key in store._kept] == [b"2", b"3"]
    monkeypatch.setattr(IdempotencyStore, "MAX_BYTES", 1)
    await post(rest.alice, "/topics/t/messages", "x", "4")
    assert [key for _, key in store._kept] == [b"4"]
    monkeypatch.setattr(store, "_clock", lambda: IdempotencyStore.KEPT_S)
    assert "idempotency-replayed" not in (await post(rest.alice, "/topics/t/messages", "y", "4")).headers
    assert store._bytes == sum(store._size(kept) for kept in store._kept.values())


async def test_a_large_body_is_compared_off_the_loop(rest: Rest) -> None:
    body = bytes(16 * MIB)
    began = time.thread_time()
    blake2b(body).digest()
    once_s = time.thread_time() - began
    key = {"idempotency-key": "k", "content-type": "text/plain"}
    # No subscription gets it, as nothing but reading the request is measured.
    url = "/topics/t/messages"
    async with loop_turns() as turns:
        first = await rest.alice.post(url, content=in_pieces(body), headers=key)
    assert first.status_code == 201, first.text
    assert turns.longest_s < once_s / 2
    again = await rest.alice.post(url, content=body[1:], headers=key)
    assert again.status_code == 422 and again.json()["type"].endswith("idempotency-mismatch")
