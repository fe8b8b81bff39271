"""Rights to jobs about durable subscriptions, which may be deleted or under another topic by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from broker_app.rules.rule import Rule
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

USERS = {"root": (), "bob": (), "ann": ()}
RULES = (
    Rule("ann", "allow", "/event/topic == secret.news", ("ann",)),
    Rule("bob", "allow", "/event/topic == open.news", ("bob",)),
)
#: what shows a job, and the bodies that it wrote
PLACES = ("", "/export", "/results")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    async with small_node(tmp_path, policy_of(*RULES, users=USERS, admins=("root",))) as running:
        yield running


async def subscribe(node: SmallNode, name: str, topic: str, *bodies: str) -> None:
    """A durable subscription of root's that keeps these messages."""
    async with node.stomp("root") as mom:
        async with mom.subscribe(f"/topic/{topic}", headers={"durable-name": name}):
            pass
        for body in bodies:
            await mom.send(f"/topic/{topic}", body)


async def export(root: httpx.AsyncClient, name: str) -> str:
    """An export of what a durable subscription keeps, finished: its path."""
    begun = await root.post("/jobs", json={"op": "export", "source": f"/topic-subscription/{name}"})
    assert begun.status_code == 202, begun.text
    path = f"/jobs/{begun.json()['id']}"
    async with asyncio.timeout(patient(30)):
        while (await root.get(path)).json()["state"] != "done":
            await asyncio.sleep(0.01)
    return path


async def statuses(client: httpx.AsyncClient, job: str) -> list[int]:
    return [(await client.get(job + place)).status_code for place in PLACES]


async def forget(root: httpx.AsyncClient, name: str) -> None:
    assert (await root.delete(f"/subscriptions/{name}")).status_code == 204


async def test_a_job_stays_under_the_rights_of_its_topic_when_the_subscription_is_gone(
    node: SmallNode,
) -> None:
    await subscribe(node, "mine", "secret.news", "top secret")
    async with node.rest("root") as root, node.rest("bob") as bob, node.rest("ann") as ann:
        job = await export(root, "mine")
        assert await statuses(bob, job) == [403, 403, 403]
        await forget(root, "mine")
        assert await statuses(bob, job) == [403, 403, 403]
        assert (await bob.post(f"{job}/cancel")).status_code == 403
        assert await statuses(ann, job) == await statuses(root, job) == [200, 200, 200]
        listed: dict[str, Any] = (await bob.get("/jobs")).json()
        assert listed["items"] == []
        assert [row["id"] for row in (await ann.get("/jobs")).json()["items"]] == [job.removeprefix("/jobs/")]


async def test_a_subscription_of_the_same_name_to_another_topic_opens_no_job(node: SmallNode) -> None:
    await subscribe(node, "mine", "secret.news", "top secret")
    async with node.rest("root") as root, node.rest("bob") as bob, node.rest("ann") as ann:
        job = await export(root, "mine")
        await forget(root, "mine")
        await subscribe(node, "mine", "open.news")
        assert await statuses(bob, job) == [403, 403, 403]
        assert await statuses(ann, job) == [200, 200, 200]


async def test_a_job_kept_without_its_topic_is_its_owners_and_administrators(
    node: SmallNode, tmp_path: Path
) -> None:
    await subscribe(node, "mine", "secret.news", "top secret")
    async with node.rest("root") as root, node.rest("ann") as ann:
        job = await export(root, "mine")
        node.node.features.jobs.jobs.get(job.removeprefix("/jobs/")).topic = ""  # as former versions kept it
        assert await statuses(ann, job) == [403, 403, 403]
        assert await statuses(root, job) == [200, 200, 200]


async def test_nothing_is_planned_about_a_subscription_that_there_is_not(node: SmallNode) -> None:
    async with node.rest("bob") as bob, node.rest("root") as root:
        for client in (bob, root):
            wish = {"op": "export", "source": "/topic-subscription/none", "dry_run": True}
            assert (await client.post("/jobs", json=wish)).status_code == 404


async def test_the_topic_of_a_job_is_kept_on_disk(node: SmallNode, tmp_path: Path) -> None:
    await subscribe(node, "mine", "secret.news", "top secret")
    async with node.rest("root") as root:
        job = await export(root, "mine")
    kept = msgspec.json.decode((tmp_path / job.removeprefix("/") / "job.json").read_bytes())
    assert kept["topic"] == "/topic/secret.news"
