"""Stored messages of topics survive `kill -9`: the backlogs of durable subscriptions, and histories."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import httpx
import pytest

import mom_client
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.samples import sample
from tests.support.stores import STORES

TOPIC = "/topic/prices"
MESSAGES = 300
#: bytes of a history that does not keep all of them
BRIEF = 10_000


def connect(broker: BrokerProcess) -> mom_client.Client:
    return mom_client.connect(
        f"stomp://{broker.host}:{broker.stomp_port}", login=broker.user, passcode=broker.password
    )


JOURNALS = ("own files", "postgres", "redis")


@pytest.fixture(params=sample(JOURNALS, 1))
def journal(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of a broker with its journal there."""
    if request.param == "own files":
        yield {}
        return
    with STORES[request.param]() as stores:
        yield {"MOM_JOURNAL": stores.url(), "MOM_LEASE_S": "1"}


async def bodies(topic: mom_client.Subscription) -> list[bytes]:
    """All that comes from a history, until nothing more comes for a while."""
    found = []
    with contextlib.suppress(mom_client.Timeout):
        while True:
            found.append((await topic.get(0.5)).body)
    return found


async def test_a_killed_broker_keeps_what_its_topics_remember(
    start_broker: StartBroker, journal: dict[str, str]
) -> None:
    broker = start_broker(environment=journal)
    login = httpx.BasicAuth(broker.user, broker.password)
    async with httpx.AsyncClient(base_url=f"http://{broker.host}:{broker.port}/api/v1", auth=login) as web:
        declared = await web.put("/topics/prices", json={"retention_s": 3600})
        assert declared.status_code == 201, declared.text
        declared = await web.put("/topics/brief", json={"retention_bytes": BRIEF})
        assert declared.status_code == 201, declared.text
    async with connect(broker) as mom:
        async with mom.subscribe(TOPIC, durable="audit"):
            pass
        await asyncio.gather(
            *(mom.send(TOPIC, b"%d" % number) for number in range(MESSAGES)),
            *(mom.send("/topic/brief", b"%d" % number * 20) for number in range(MESSAGES)),
        )
        async with mom.subscribe("/topic/brief", ack="auto", start="first") as history:
            brief = await bodies(history)
            assert 1 < len(brief) < MESSAGES
            assert brief[-1] == b"%d" % (MESSAGES - 1) * 20
        async with mom.subscribe(TOPIC, durable="audit", credit=10) as kept:
            for _ in range(100):
                await (await kept.get(10)).ack(confirm=True)
    broker.kill()
    broker.start()
    expected = [b"%d" % number for number in range(MESSAGES)]
    async with connect(broker) as mom:
        async with mom.subscribe(TOPIC, durable="audit", ack="auto") as kept:
            assert [(await kept.get(10)).body for _ in range(MESSAGES - 100)] == expected[100:]
        async with mom.subscribe(TOPIC, ack="auto", start="first") as history:
            read = [await history.get(10) for _ in range(MESSAGES)]
            assert [message.body for message in read] == expected
            await mom.send(TOPIC, b"new")
            assert (await history.get(10)).body == b"new"
        async with mom.subscribe(TOPIC, start=f"seq:{read[-1].seq}") as rest:
            assert [(await rest.get(10)).body for _ in range(2)] == [expected[-1], b"new"]
        async with mom.subscribe("/topic/brief", ack="auto", start="first") as history:
            assert await bodies(history) == brief
