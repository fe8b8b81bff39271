"""Webhooks and SIGKILL: each message is pushed at least once, under one id, and none is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.signature import new_secret
from tests.support.hook_server import HookServer, hook_server
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.polling import poll

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", "2"))


@pytest.fixture
def receiver() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


async def publish(node: NodeProcess, address: str, first: int, count: int) -> None:
    """Send numbers, and wait until all are confirmed."""
    async with node.stomp() as client:
        await asyncio.gather(
            *(client.send(address, b"%d" % number) for number in range(first, first + count))
        )


@pytest.mark.parametrize("source", ["queue", "topic"])
async def test_a_broker_that_is_killed_while_it_pushes_pushes_everything(
    tmp_path: Path, receiver: HookServer, source: str
) -> None:
    chance = random.Random(random.random())
    with nodes_in(tmp_path) as nodes:
        node = nodes.node("home", webhook_allow=("127.0.0.1",))
        address = {"queue": "a", "topic": ""} if source == "queue" else {"queue": "", "topic": "a"}
        spec = {"url": receiver.url, "owner": "admin", "max_in_flight": 20, **address}
        hook = Callback.of("hook", spec, secret=new_secret())
        node.callbacks["hook"] = hook
        node.start()
        if source == "topic":  # it keeps messages from the time on when its subscription exists
            async with node.rest() as rest:
                while (await rest.get("/callbacks/hook/status")).json()["state"] != "running":
                    await asyncio.sleep(0.02)
        sent = 0
        for _ in range(KILLS):
            await publish(node, f"/{source}/a", sent, 100)
            sent += 100
            already = len(receiver.bodies)
            wanted = already + chance.randrange(1, 60)
            await asyncio.to_thread(poll, lambda wanted=wanted: len(receiver.bodies) >= wanted)  # type: ignore[misc]
            node.kill()
            node.start()
        await asyncio.to_thread(poll, lambda: len(set(receiver.bodies)) == sent, 60)
    ids: dict[bytes, set[str]] = {}
    for one in receiver.hooks:
        ids.setdefault(one.body, set()).add(one.headers["webhook-id"])
    assert ids.keys() == {b"%d" % number for number in range(sent)}
    assert {len(known) for known in ids.values()} == {1}
    assert len(receiver.hooks) < 2 * sent, "repeats are only of what was in flight"


async def test_notifications_go_on_with_the_true_number_after_a_kill(
    tmp_path: Path, receiver: HookServer
) -> None:
    with nodes_in(tmp_path) as nodes:
        node = nodes.node("home", webhook_allow=("127.0.0.1",))
        node.callbacks["hook"] = Callback(
            "hook", receiver.url, owner="admin", secret=new_secret(), mode="notify", queue="a"
        )
        node.start()
        for round_number in range(1, 4):
            await publish(node, "/queue/a", 50 * round_number, 50)
            node.kill()
            seen = len(receiver.bodies)
            node.start()
            await asyncio.to_thread(poll, lambda seen=seen: len(receiver.bodies) > seen)  # type: ignore[misc]
            assert json.loads(receiver.bodies[seen])["pending"] == 50 * round_number
