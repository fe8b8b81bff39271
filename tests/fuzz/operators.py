"""Operators who do at random what operators do."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random

import httpx

from broker_app.core.policy import LIMIT_BEHAVIORS
from tests.fuzz.broker_watch import admin
from tests.fuzz.rights import TAKEN
from tests.fuzz.stomp_client import QUEUES, TOPICS
from tests.support.broker_process import BrokerProcess


class Operator:
    """Deletes, purges, pauses, sets limits, ends connections, moves dead letters, gives and takes rights."""

    def __init__(self, broker: BrokerProcess, random: Random) -> None:
        self._broker = broker
        self._random = random
        self.broken: list[str] = []
        self.actions = 0

    async def run(self) -> None:
        async with admin(self._broker) as rest:
            while not self.broken:
                with contextlib.suppress(httpx.TransportError):  # the watch shows whether the broker is there
                    await self._act(rest)
                await asyncio.sleep(self._random.choice([0.01, 0.05, 0.2]))

    async def _act(self, rest: httpx.AsyncClient) -> None:
        random = self._random
        queue = random.choice(QUEUES).removeprefix("/queue/")
        topic = random.choice(TOPICS).removeprefix("/topic/")
        settings = {
            random.choice(["max_messages", "max_bytes", "max_consumers", "max_attempts"]): random.choice(
                [1, 50]
            ),
            "paused": random.choice(["none", "none", "none", "producers", "consumers", "all"]),
            "limit_behavior": random.choice(list(LIMIT_BEHAVIORS)),
        }
        job = {"op": random.choice(["move", "purge", "retry"]), "source": queue, "target": "open.c"}
        action: list[tuple[str, str, object]] = [
            ("DELETE", f"/queues/{queue}?force=true", None),
            ("DELETE", f"/queues/{queue}/messages?all=true", None),
            ("PUT", f"/queues/{queue}", settings),
            ("PATCH", f"/queues/{queue}", {"paused": random.choice(["none", "all"])}),
            ("PUT", f"/topics/{topic}", {"retention_bytes": random.randrange(1, 10_000)}),
            ("DELETE", f"/topics/{topic}", None),
            ("PUT", "/rules/taken", TAKEN),
            ("DELETE", "/rules/taken", None),
            ("POST", "/jobs", job),
            ("GET", f"/queues/{queue}/messages?q=a", None),
            ("DELETE", f"/subscriptions/{random.choice(['d', 'e'])}", None),
            ("GET", "/stats", None),
        ]
        method, path, body = random.choice(action)
        # What is there already is replaced whatever its version; PUT makes what is not there.
        version = {"if-match": "*"} if method in ("DELETE", "PATCH") else {}
        reply = await rest.request(method, path, json=body, headers=version)
        self.actions += 1
        if reply.status_code >= 500 and reply.status_code != 503:
            self.broken.append(f"{method} {path}: {reply.status_code} {reply.text[:2000]}")
        if random.random() < 0.1:
            await self._end_a_connection(rest)

    async def _end_a_connection(self, rest: httpx.AsyncClient) -> None:
        reply = await rest.get("/connections?limit=50")
        items = reply.json()["items"] if reply.status_code == 200 else []
        ids = [item["id"] for item in items if item["user"] not in ("keeper", "admin")]
        if ids:
            await rest.delete(f"/connections/{self._random.choice(ids)}")
