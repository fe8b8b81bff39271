"""Brokers of an enhanced cluster: a member that dies is taken over, and its clients do not miss a message."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import mom_client
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.support.awaiting import becomes, until
from tests.support.broker_process import BrokerProcess
from tests.support.ports import reserve_ports
from tests.support.postgres import postgres_server
from tests.support.redis import redis_server

QUEUE = "/queue/orders"
LEASE_S = 2.0


class MemberProcess(BrokerProcess):
    """A broker, and its clients."""

    def stomp(self) -> mom_client.Client:
        address = f"stomp://{self.host}:{self.stomp_port}"
        return mom_client.connect(address, login=self.user, passcode=self.password)

    def rest(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.url}/api/v1", auth=httpx.BasicAuth(self.user, self.password)
        )


class Members:
    """Brokers b1, b2, … whose journals are in one store."""

    def __init__(self, folder: Path, journal: str, number: int) -> None:
        ports = reserve_ports(number)
        self.all = [
            MemberProcess(
                folder / f"b{at}",
                *("--name", f"b{at}", "--cluster-id", "shop", "--cluster-port", str(port)),
                *("--journal", journal, "--lease-s", str(LEASE_S)),
                environment={"MOM_CLUSTER_SECRET": "a secret of the cluster in this test"},
            )
            for at, port in enumerate(ports, 1)
        ]

    def __iter__(self) -> Iterator[MemberProcess]:
        return iter(self.all)


@pytest.fixture(params=["redis", "postgres", "directory"])
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with ExitStack() as stack:
        if request.param == "redis":
            journal = stack.enter_context(redis_server()).url
        elif request.param == "postgres":
            journal = stack.enter_context(postgres_server()).url
        else:
            journal = f"file:{tmp_path / 'shared'}"
        made = Members(tmp_path, journal, 3)
        try:
            for broker in made:
                broker.start()
            yield made
        finally:
            for broker in made:
                if broker.running:
                    broker.kill()


async def linked(broker: MemberProcess) -> list[str]:
    async with broker.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    return sorted(link["broker"] for link in links if link["state"] == "up")


async def test_messages_of_a_member_that_is_killed_are_served_by_another(members: Members) -> None:
    b1, b2, b3 = members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    async with b1.stomp() as producer:
        for number in range(100):
            await producer.send(QUEUE, b"%d" % number)
    b1.kill()
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        assert bodies(await take(messages, 100)) == [b"%d" % number for number in range(100)]
    b1.start()  # nothing that was taken comes back, and it joins empty
    async with b1.rest() as http:
        assert (await http.get("/queues/orders")).status_code == 404
    async with b1.stomp() as producer, b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        await producer.send(QUEUE, b"again")
        assert bodies(await take(messages, 1)) == [b"again"]


@pytest.fixture
def redis_members(tmp_path: Path) -> Iterator[Members]:
    with redis_server() as server:
        made = Members(tmp_path, server.url, 3)
        try:
            for broker in made:
                broker.start()
            yield made
        finally:
            for broker in made:
                if broker.running:
                    broker.kill()


async def test_a_taker_that_dies_is_taken_over_with_all_that_it_has_served(redis_members: Members) -> None:
    b1, b2, b3 = redis_members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    for broker, word in ((b1, b"1"), (b2, b"2")):
        async with broker.stomp() as producer, producer.subscribe("/topic/news", durable="d"):
            await producer.send(QUEUE, b"at " + word)
            await producer.send(QUEUE, b"later at " + word, delay_s=1.0)
    b1.kill()
    await becomes(lambda: adopted(b2, b3), ["b1"], 30)
    taker, other = (b2, b3) if await adopted(b2) else (b3, b2)
    taker.kill()
    async with other.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        expected = {b"at 1", b"later at 1", b"at 2", b"later at 2"}
        assert set(bodies(await take(messages, 4))) == expected
    nothing: list[str] = []
    await becomes(lambda: adopted(other), nothing, 30)


async def adopted(*brokers: MemberProcess) -> list[str]:
    """The members whose journals are served by one of these brokers."""
    found = []
    for broker in brokers:
        async with broker.rest() as http:
            found += [one["member"] for one in (await http.get("/cluster")).json()["adopted"]]
    return found


async def test_a_member_that_is_stopped_for_longer_than_its_lease_serves_no_longer(
    redis_members: Members,
) -> None:
    b1, b2, _ = redis_members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    async with b1.stomp() as producer:
        await producer.send(QUEUE, b"1")
    os.kill(b1.pid, signal.SIGSTOP)
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        assert bodies(await take(messages, 1)) == [b"1"]
    os.kill(b1.pid, signal.SIGCONT)

    async def runs() -> bool:
        return b1.running

    await becomes(runs, False)
    reasons = ("has taken the journal over", "has taken over the journal", "the lease of the journal expired")
    assert any(reason in b1.log for reason in reasons), b1.log


async def test_messages_of_a_member_that_stops_in_good_order_stay_available(redis_members: Members) -> None:
    b1, b2, _ = redis_members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    async with b1.stomp() as producer:
        await producer.send(QUEUE, b"1")
    b1.terminate()
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        assert bodies(await take(messages, 1)) == [b"1"]


async def test_a_damaged_journal_keeps_nobody_from_taking_over_another(tmp_path: Path) -> None:
    members = Members(tmp_path, f"file:{tmp_path / 'shared'}", 3)
    b1, b2, b3 = members
    try:
        for broker in members:
            broker.start()
        await becomes(lambda: linked(b3), ["b1", "b2"])
        for broker in (b1, b2):
            async with broker.stomp() as producer:
                await producer.send(QUEUE, b"of " + broker.data.name.encode())
        b1.kill()
        (tmp_path / "shared" / "mom_journal_shop.b1" / "journal.json").write_bytes(b"{")
        b2.kill()
        async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, 1)) == [b"of b2"]
        await until(lambda: "journal shop.b1 of b1 cannot be taken over" in b3.log)
    finally:
        for broker in members:
            if broker.running:
                broker.kill()
