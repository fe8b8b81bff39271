"""A Redis that fills up to its `maxmemory`: who watches hears it before producers are refused, nothing
that was confirmed is lost, and there is room again when messages are consumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import mom_client
from tests.support.awaiting import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.redis import Redis, redis_server

pytestmark = pytest.mark.process

STORE = 20 * 1024 * 1024
QUEUE = "/queue/a"
READY = {"status": "ready"}
DEGRADED = {"status": "ready", "degraded": "nearly-full"}


@pytest.fixture
def store(processes: None) -> Iterator[Redis]:
    with redis_server(maxmemory=str(STORE)) as server:
        yield server


@pytest.fixture
def broker(store: Redis, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose journal is in the store."""
    options = ("--journal", store.url, "--segment-bytes", "1MiB", "--full-wait", "1")
    process = BrokerProcess(tmp_path / "data", *options)
    try:
        process.start()
        yield process
    finally:
        process.kill()


class Producer:
    """Sends numbered messages, and knows which were confirmed."""

    def __init__(self, client: mom_client.Client) -> None:
        self._client = client
        self.confirmed: list[bytes] = []

    async def send(self) -> None:
        """Raises Refused."""
        body = b"%d:" % len(self.confirmed) + bytes(60_000)
        await self._client.send(QUEUE, body)
        self.confirmed.append(body)

    async def send_all(self) -> NoReturn:
        """Send until that is refused. Raises Refused."""
        while True:
            await self.send()

    @property
    def bytes(self) -> int:
        return sum(map(len, self.confirmed))


def is_nearly_full(store: Redis, used: int) -> bool:
    """Return whether a journal of so many bytes has more than four fifths of its space."""
    memory = store.client.info("memory")
    free: int = STORE - memory["used_memory"] + memory["mem_not_counted_for_evict"]
    return used > 0.81 * (used + free)


async def next_of_store(events: mom_client.Subscription) -> Any:
    """The next event of the store."""
    while True:
        event = json.loads((await events.get(patient(10))).body)["data"]
        if event["kind"] == "store":
            return event["event"]


async def take(client: mom_client.Client, count: int) -> list[bytes]:
    """Receive and acknowledge so many messages; their bodies."""
    taken = []
    async with client.subscribe(QUEUE) as messages:
        for _ in range(count):
            message = await messages.get(patient(10))
            taken.append(message.body)
            await message.ack(confirm=True)
    return taken


@pytest.mark.slow
@pytest.mark.timeout(patient(120))
async def test_it_is_reported_before_it_is_full_refuses_producers_loses_nothing_and_has_space_again(
    broker: BrokerProcess, store: Redis
) -> None:
    async def readiness() -> Any:
        return broker.request("GET", "/health/ready", authorization="").json()

    address = f"stomp://{broker.host}:{broker.stomp_port}"
    async with (
        mom_client.connect(address, login=broker.user, passcode=broker.password) as client,
        client.subscribe("/topic/$mom.event", ack="auto") as events,
    ):
        producer = Producer(client)
        assert await readiness() == READY
        while not is_nearly_full(store, producer.bytes):
            await producer.send()
        assert await next_of_store(events) == "nearly full"
        await becomes(readiness, DEGRADED)

        await producer.send()
        with pytest.raises(mom_client.Refused, match="store-full"):
            await producer.send_all()
        assert (await readiness())["type"] == "/docs/problems/store-full"

        assert await take(client, len(producer.confirmed)) == producer.confirmed
        assert await next_of_store(events) == "has space again"
        await becomes(readiness, READY)
        await producer.send()
        assert await take(client, 1) == producer.confirmed[-1:]
