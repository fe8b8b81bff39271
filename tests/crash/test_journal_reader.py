"""A reader of the journal over HTTP, while the broker writes and is killed: every message once, none lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest

from broker_app.config import MIB
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.journal import codec
from broker_app.journal.shared.shared_journal import stored_batch
from mom_client import Client
from tests.support.node_process import NodeProcess, nodes_in

pytestmark = pytest.mark.process

QUEUE = "/queue/followed"


class Follower:
    """Reads all batches over HTTP, as they are stored."""

    def __init__(self, rest: httpx.AsyncClient, position: int = 0) -> None:
        self._rest = rest
        self._begin = position
        self.frames: list[bytes] = []
        self.position = position
        self.journal = ""

    async def read(self) -> None:
        """Read up to the end that the journal has now."""
        shown = (await self._rest.get("/journal/span")).json()
        self.position = self.position or shown["low"]
        while self.position < shown["end"]:
            ends = {"from": self.position, "to": shown["end"], "max_bytes": 200_000}
            reply = await self._rest.get("/journal/batches", params=ends)
            assert reply.status_code == 200, reply.text
            self.journal = reply.headers["mom-journal"]
            for at, frame in codec.frames_of(reply.content):
                assert frame.first_position == self.position, "without a gap, and nothing twice"
                self.position = frame.next_position
                self.frames.append(reply.content[at : at + frame.length])
        assert self.position == shown["end"]
        if self._begin:
            reported = await self._rest.put("/pipeline/cursors/archive", json={"position": self.position})
            assert reported.status_code == 200, reported.text

    async def follow(self) -> None:
        """Read until the broker ends."""
        with contextlib.suppress(httpx.TransportError):
            while True:
                await self.read()

    def bodies(self, end: int) -> Counter[bytes]:
        """Count the publications of each message of the queue, before the position `end`."""
        found: Counter[bytes] = Counter()
        for frame in self.frames:
            batch = stored_batch(frame)
            assert batch is not None, "a frame is damaged"
            if batch.first_position >= end:
                break
            stored = codec.iterate_records(batch.records)
            for position, (kind, record) in enumerate(stored, batch.first_position):
                destination = next(records.walk(record))[3]
                if kind == records.PUBLISHED and batch.destinations[destination] == QUEUE:
                    found[Reader(QUEUE).message(record, position).body] += 1
        return found


async def produce(mom: Client, prefix: str, confirmed: set[bytes], count: int) -> None:
    """Publish up to `count` messages one after the other, of many sizes, until the broker ends."""
    for number in range(count):
        body = f"{prefix}-{number}-".encode() + b"x" * random.choice((0, 300, 5000))
        await mom.send(QUEUE, body)
        confirmed.add(body)


async def consume(mom: Client) -> None:
    """Receive and settle, so that the journal has something to reclaim."""
    async with mom.subscribe(QUEUE) as messages:
        async for message in messages:
            await message.ack()


async def live(node: NodeProcess, follower: Follower, life: int, count: int) -> set[bytes]:
    """Publish, consume and follow at once; the confirmed messages. The broker is killed at the end."""
    confirmed: set[bytes] = set()
    async with node.stomp(reconnect=False) as mom, node.stomp(reconnect=False) as other:
        tasks = [asyncio.ensure_future(follower.follow()), asyncio.ensure_future(consume(other))]
        await asyncio.gather(*(produce(mom, f"{life}.{one}", confirmed, count) for one in range(8)))
        late = asyncio.ensure_future(produce(mom, f"{life}.late", confirmed, 1_000_000))
        await asyncio.sleep(random.uniform(0.0, 0.2))
        node.kill()
        await tasks[0]
        await asyncio.gather(tasks[1], late, return_exceptions=True)
    return confirmed


async def test_every_message_is_read_once_while_the_broker_writes_and_is_killed(tmp_path: Path) -> None:
    with nodes_in(tmp_path) as nodes:
        node = nodes.node("followed", segment_bytes=MIB, journal_retention_bytes=1024 * MIB)
        confirmed: set[bytes] = set()
        node.start()
        async with node.rest() as rest:
            follower = Follower(rest)
            for life in range(3):
                confirmed |= await live(node, follower, life, 150)
                seen = list(follower.frames)
                node.start()
                await follower.read()
                again = Follower(rest)
                await again.read()
                assert again.frames[: len(seen)] == seen, "as it was read before"
                assert again.journal != "" and again.journal.partition("/")[2] == str(life + 2)
            found = follower.bodies(follower.position)
        assert len(confirmed) >= 3 * 8 * 150
        assert confirmed <= set(found), "every confirmed message was read"
        assert set(found.values()) == {1}


async def test_a_reader_that_reports_its_cursor_goes_on_behind_it_after_a_kill(tmp_path: Path) -> None:
    with nodes_in(tmp_path) as nodes:
        node = nodes.node("reported", segment_bytes=MIB)
        node.start()
        confirmed: set[bytes] = set()
        found: Counter[bytes] = Counter()
        async with node.rest() as rest:
            position = 1
            for life in range(3):
                follower = Follower(rest, position)
                confirmed |= await live(node, follower, life, 60)
                node.start()
                shown = (await rest.get("/pipeline/cursors/archive")).json()
                assert shown["lost"] is None
                # What was read behind the reported position is read again, as by a job that was killed, too.
                position = shown["position"]
                found += follower.bodies(position)
                await publish_and_settle(node, 2000)
            for _ in range(2):  # each stop writes a snapshot, so that nothing but the cursor needs the log
                node.terminate()
                node.start()
            low = (await rest.get("/journal/span")).json()["low"]
            follower = Follower(rest, position)
            await follower.read()
            found += follower.bodies(follower.position)
            assert low <= position < (await rest.get("/journal/span")).json()["low"], "it was kept so long"
        assert confirmed <= set(found)
        assert set(found.values()) == {1}


async def publish_and_settle(node: NodeProcess, count: int) -> None:
    """Give the journal much to let go, of another queue."""
    async with node.stomp() as mom, mom.subscribe("/queue/other", ack="auto") as messages:
        for _ in range(count // 100):
            await asyncio.gather(*(mom.send("/queue/other", bytes(3000)) for _ in range(100)))
            for _ in range(100):
                await messages.get(timeout_s=20)
