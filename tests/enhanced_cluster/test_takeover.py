"""Brokers of an enhanced cluster: a member that dies is taken over, and its clients do not miss a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import mom_client
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.support.awaiting import becomes
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
