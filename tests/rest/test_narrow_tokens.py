"""Tokens with a part of the rights of their owner do not act as the owner, and see themselves alone."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker_app.base.refused import Refused
from broker_app.features.bulk.stage_store import Owner, StageStore, WantedStage
from broker_app.net.policy.policy import Grant, TokenFacts
from broker_app.rules.event import RECEIVE, SEND
from tests.support.small_node import SmallNode, policy_of, small_node
from tests.support.staged_rows import MEDIA_TYPE, stage_id, to

USERS: Mapping[str, tuple[str, ...]] = {"alice": ()}
NARROW = (Grant(frozenset((SEND, RECEIVE)), ("/queue/a",)),)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    policy = policy_of(users=USERS)
    others = {
        hashlib.sha256(f"mom_{name}".encode()).digest(): TokenFacts("alice", name, grants=NARROW)
        for name in ("narrow", "other")
    }
    async with small_node(tmp_path, policy) as running:
        await running.change(tokens={**policy.tokens, **others})
        yield running


async def register(client: httpx.AsyncClient, name: str) -> str:
    reply = await client.post("/services", json={"name": name})
    assert reply.status_code == 201, reply.text
    return f"/services/{reply.json()['id']}"


async def stage(client: httpx.AsyncClient) -> dict[str, Any]:
    """Stage a row for queue a, as a commit names its stage."""
    id, content = stage_id(), to("/queue/a", b"1")
    reply = await client.post(
        "/bulk/stage", params={"id": id}, content=content, headers={"content-type": MEDIA_TYPE}
    )
    assert reply.status_code == 200, reply.text
    return {"id": id, "parts": 1, "rows": 1}


async def commit(client: httpx.AsyncClient, batch: int, staged: dict[str, Any]) -> httpx.Response:
    return await client.post("/bulk/commit", json={"producer": "p", "batch": batch, "stages": [staged]})


async def test_a_narrow_token_changes_and_ends_no_service_of_its_owner(node: SmallNode) -> None:
    async with node.rest("alice") as alice, node.rest("narrow") as narrow:
        hidden, seen = await register(alice, "b"), await register(alice, "a")
        assert (await narrow.get(hidden)).status_code == 404
        assert [one["name"] for one in (await narrow.get("/services")).json()["items"]] == ["a"]
        assert (await narrow.patch(seen, json={"active": False})).status_code == 403
        assert (await narrow.delete(seen)).status_code == 403
        assert (await alice.patch(seen, json={"active": False})).status_code == 200
        assert (await alice.delete(seen)).status_code == 204


async def test_a_narrow_token_renews_and_ends_its_own_services(node: SmallNode) -> None:
    async with node.rest("alice") as alice, node.rest("narrow") as narrow, node.rest("other") as other:
        own, second = await register(narrow, "a"), await register(narrow, "a")
        assert (await other.patch(own, json={"lease_s": 60})).status_code == 403
        assert (await narrow.patch(own, json={"lease_s": 60})).status_code == 200
        assert (await narrow.delete(own)).status_code == 204
        assert (await alice.delete(second)).status_code == 204


async def test_a_narrow_token_aborts_and_commits_no_stage_of_its_owner(node: SmallNode) -> None:
    async with node.rest("alice") as alice, node.rest("narrow") as narrow:
        staged = await stage(alice)
        assert (await commit(narrow, 0, staged)).status_code == 403
        assert (await narrow.post("/bulk/abort", json={"stages": [staged["id"]]})).status_code == 204
        assert (await commit(alice, 0, staged)).status_code == 200
        assert [one["name"] for one in (await alice.get("/bulk/producers")).json()["items"]] == ["p"]
        assert (await narrow.get("/bulk/producers")).json()["items"] == []


async def test_a_narrow_token_commits_and_aborts_its_own_stages(node: SmallNode) -> None:
    async with node.rest("alice") as alice, node.rest("narrow") as narrow, node.rest("other") as other:
        first, second = await stage(narrow), await stage(narrow)
        assert (await commit(other, 0, first)).status_code == 403
        assert (await commit(narrow, 0, first)).status_code == 200
        assert (await narrow.post("/bulk/abort", json={"stages": [second["id"]]})).status_code == 204
        assert (await commit(alice, 1, second)).status_code == 404


async def test_stages_belong_to_their_token_after_a_restart(tmp_path: Path, node: SmallNode) -> None:
    async with node.rest("narrow") as narrow:
        staged = await stage(narrow)
    again = StageStore(tmp_path / "bulk", 1 << 20)
    again.load()
    wanted = [WantedStage(staged["id"], 1, 1)]
    for stranger in (Owner("alice", "other"), Owner("bob")):
        with pytest.raises(Refused, match="another user or token"):
            again.hold(wanted, stranger)
    assert again.hold(wanted, Owner("alice", "narrow"))
