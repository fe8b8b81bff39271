"""The share of jobs of one user: slow jobs of one user do not block those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from broker_app.features.jobs.job_manager import MAX_OPEN_OF_USER
from broker_app.features.jobs.slots import MAX_WORKING
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

USERS = dict.fromkeys(("root", "bob", "ann", "cid", "dan"), ())


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    async with small_node(tmp_path, policy_of(users=USERS, admins=("root",))) as running:
        yield running


async def fill(client: httpx.AsyncClient, queue: str, count: int = 500) -> None:
    reply = await client.post(f"/queues/{queue}/messages/batch", json=[{"body": "x"}] * count)
    assert reply.status_code in (200, 201), reply.text


async def begin(client: httpx.AsyncClient, *, slowly: bool, status: int = 202) -> str:
    """Begin to copy the queue `a`; where the job is."""
    wish = {"op": "copy", "source": "a", "target": "b", **({"rate_per_s": 1} if slowly else {})}
    reply = await client.post("/jobs", json=wish)
    assert reply.status_code == status, reply.text
    return f"/jobs/{reply.json()['id']}" if status == 202 else ""


async def reaches(client: httpx.AsyncClient, job: str, state: str) -> None:
    async with asyncio.timeout(patient(30)):
        while (await client.get(job)).json()["state"] != state:
            await asyncio.sleep(0.01)


async def test_slow_jobs_of_one_user_keep_no_other_user_waiting(node: SmallNode) -> None:
    async with node.rest("bob") as bob, node.rest("ann") as ann:
        await fill(bob, "a")
        slow = [await begin(bob, slowly=True) for _ in range(MAX_WORKING)]
        await reaches(ann, await begin(ann, slowly=False), "done")
        states = [(await bob.get(job)).json()["state"] for job in slow]
        assert states == ["running"] + ["waiting"] * (MAX_WORKING - 1)


async def test_the_next_job_of_a_user_begins_when_the_one_before_has_ended(node: SmallNode) -> None:
    async with node.rest("bob") as bob:
        await fill(bob, "a")
        first, second = await begin(bob, slowly=True), await begin(bob, slowly=True)
        await reaches(bob, first, "running")
        assert (await bob.post(f"{first}/cancel")).status_code == 200
        await reaches(bob, second, "running")


async def test_an_administrator_works_although_all_others_have_slow_jobs(node: SmallNode) -> None:
    async with node.rest("root") as root:
        await fill(root, "a")
        for name in ("bob", "ann", "cid", "dan"):
            async with node.rest(name) as client:
                await begin(client, slowly=True)
        slow = await begin(root, slowly=True)
        await reaches(root, slow, "running")
        assert (await root.post(f"{slow}/cancel")).status_code == 200
        await reaches(root, await begin(root, slowly=False), "done")


async def test_a_user_has_so_many_open_jobs_and_leaves_room_for_those_of_others(node: SmallNode) -> None:
    async with node.rest("bob") as bob, node.rest("ann") as ann:
        await fill(bob, "a", 100)
        for _ in range(MAX_OPEN_OF_USER):
            await begin(bob, slowly=True)
        await begin(bob, slowly=True, status=503)
        await reaches(ann, await begin(ann, slowly=False), "done")


async def test_dry_runs_of_one_user_make_no_plan_of_another_forgotten(node: SmallNode) -> None:
    wish = {"op": "copy", "source": "a", "target": "b", "dry_run": True}
    async with node.rest("bob") as bob, node.rest("ann") as ann:
        await fill(bob, "a", 3)
        plan = (await ann.post("/jobs", json=wish)).json()["plan"]
        for _ in range(60):
            assert (await bob.post("/jobs", json=wish)).status_code == 200
        assert (await ann.post("/jobs", json={"plan": plan})).status_code == 202
