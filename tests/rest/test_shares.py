"""Shares of users: one user takes no number of the node from all others, nor from administrators."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import MappingProxyType

import httpx
import pytest

from broker_app.net.policy.policy import UserFacts
from broker_app.net.rest import RestLimits
from tests.rest.conftest import MakeRest, Rest
from tests.rest.test_bulk import A, commit, numbered, stage
from tests.support.staged_rows import MEDIA_TYPE, stage_id, to


def detail(reply: httpx.Response) -> str:
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1"), reply.text
    return str(reply.json()["detail"])


def administered_by_bob(rest: Rest) -> None:
    facts = {"alice": UserFacts("alice", "alice"), "bob": UserFacts("bob", "bob", admin=True)}
    rest.logins.reload(replace(rest.logins.policy, version=1, users=MappingProxyType(facts)))


async def test_one_user_cannot_take_all_parts_of_bulk(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_app.features.bulk.stage_store.MAX_PARTS", 4)
    id = stage_id()
    for seq in range(2):
        assert (await stage(rest.alice, id, numbered(0, 1), seq=seq)).status_code == 200
    refused = detail(await stage(rest.alice, id, numbered(0, 1), seq=2))
    assert refused.startswith("alice has 2 parts of stages that wait for their commit already; the share of")
    assert "commit or abort some" in refused
    assert (await stage(rest.alice, id, numbered(0, 1), seq=1)).status_code == 200, "replaces one"
    assert (await stage(rest.bob, stage_id(), numbered(0, 1))).status_code == 200
    assert "reserved for administrators" in detail(await stage(rest.bob, stage_id(), numbered(0, 1)))
    administered_by_bob(rest)
    assert (await stage(rest.bob, stage_id(), numbered(0, 1))).status_code == 200
    assert (await commit(rest.alice, 0, {"id": id, "parts": 2, "rows": 2})).status_code == 200
    assert (await stage(rest.alice, stage_id(), numbered(0, 1))).status_code == 200


async def test_an_upload_that_hangs_takes_no_place_of_bulk(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.net.rest.messages.bulk.MAX_AT_ONCE", 2)
    release, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def slowly(content: bytes):  # type: ignore[no-untyped-def]
        yield content[:3]
        begun.release()
        await release.wait()
        yield content[3:]

    async def upload() -> httpx.Response:
        return await rest.alice.post(
            "/bulk/stage",
            params={"id": stage_id()},
            content=slowly(to(A, b"x")),
            headers={"content-type": MEDIA_TYPE},
        )

    hanging = [asyncio.ensure_future(upload()) for _ in range(2)]
    for _ in hanging:
        await begun.acquire()
    assert (await stage(rest.bob, stage_id(), numbered(0, 1))).status_code == 200
    release.set()
    for one in hanging:
        one.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_one_user_cannot_let_all_requests_wait(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_waiting=4))
    polls = [asyncio.ensure_future(rest.receive("a", wait_s=30)) for _ in range(2)]
    await rest.until(lambda: rest.rest_api._waiting._shares.total == 2)
    refused = detail(await rest.alice.post("/queues/a/receive", json={"wait_s": 30}))
    assert refused.startswith("alice has 2 requests that wait for messages already")
    others = asyncio.ensure_future(rest.bob.post("/queues/b/receive", json={"wait_s": 30}))
    await rest.until(lambda: rest.rest_api._waiting._shares.total == 3)
    await rest.publish("b", "1")
    assert (await others).status_code == 200
    await rest.publish("a", "1", "2")
    assert [len(items) for items in await asyncio.gather(*polls)] == [1, 1]
    assert rest.rest_api._waiting._shares.total == 0


async def test_one_user_cannot_register_all_services(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_app.features.services.registry.MOST", 3)
    first = await rest.alice.post("/services", json={"name": "stock", "lease_s": 30})
    assert first.status_code == 201, first.text
    refused = await rest.alice.post("/services", json={"name": "stock", "lease_s": 30})
    assert "alice has 1 services already; the share of one user is 1 of 3" in refused.json()["detail"]
    administered_by_bob(rest)
    assert (await rest.bob.post("/services", json={"name": "bank", "lease_s": 30})).status_code == 201
    assert (await rest.alice.delete(f"/services/{first.json()['id']}")).status_code == 204
    assert (await rest.alice.post("/services", json={"name": "stock", "lease_s": 30})).status_code == 201


async def test_the_last_cursors_are_reserved_for_administrators(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.journal.log.cursors.MAX_CURSORS", 2)
    administered_by_bob(rest)
    await rest.publish("a", "1")
    monkeypatch.setattr(rest.access, "may_read_journal", lambda identity: True)
    assert (await rest.alice.put("/pipeline/cursors/one", json={"position": 1})).status_code == 200
    refused = await rest.alice.put("/pipeline/cursors/two", json={"position": 1})
    assert refused.status_code == 409
    assert "reserved for administrators" in refused.json()["detail"]
    assert (await rest.alice.put("/pipeline/cursors/one", json={"position": 2})).status_code == 200
    assert (await rest.bob.put("/pipeline/cursors/two", json={"position": 1})).status_code == 200
