"""Clients of an enhanced cluster: they know its members, and go on at another one when theirs is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import mom_client
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.members import QUEUE, Members, linked
from tests.support.awaiting import becomes
from tests.support.patience import patient
from tests.support.redis import redis_server


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with redis_server() as server:
        made = Members(tmp_path_factory.mktemp("clients"), server.url, 2)
        try:
            for broker in made:
                broker.start()
            yield made
        finally:
            for broker in made:
                if broker.running:
                    broker.kill()


async def test_a_client_without_reconnecting_reconnects_all_the_same_and_misses_nothing(
    pair: Members,
) -> None:
    """As in GlassFish MQ, where enhanced clusters override what connections say about it."""
    b1, _ = pair
    await becomes(lambda: linked(b1), ["b2"])
    first, second = (f"stomp://127.0.0.1:{broker.stomp_port}" for broker in pair)
    url = f"imqAddressList={first}&imqReconnectEnabled=false&imqReconnectInterval=100"
    async with mom_client.connect(url, login=b1.user, passcode=b1.password) as client:
        assert client.server["mom-cluster"] == "shop"
        stream = client.events()
        await client.send(QUEUE, b"stored at b1")
        b1.kill()
        await client.send(QUEUE, b"stored at b2")
        assert client.address == second
        async with client.subscribe(QUEUE) as messages, asyncio.timeout(patient(60)):
            assert set(bodies(await take(messages, 2))) == {b"stored at b1", b"stored at b2"}
    kinds = [(event.kind, event.address) async for event in stream]
    tried = len(kinds) - 4
    assert kinds == [
        ("closed", first),
        *[("reconnect failed", first)] * tried,
        ("reconnected", second),
        ("closing", second),
        ("closed", second),
    ]
