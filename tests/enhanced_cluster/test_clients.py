"""Clients of an enhanced cluster: they know its members, and go on at another one when theirs is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import mom_client
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.members import QUEUE, MemberProcess, Members, cluster_of, linked, running
from tests.support.awaiting import becomes
from tests.support.patience import patient
from tests.support.proxy import proxy
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


@pytest.mark.process
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


async def order(broker: MemberProcess, verb: str, seen_by: MemberProcess) -> None:
    """Give an order about clients to a member, and wait until another one knows it."""
    reply = await asyncio.to_thread(
        broker.request, "POST", f"/api/v1/broker/{verb}", json_body={"name": broker.data.name}
    )
    assert reply.status == 200, reply.body

    async def is_quiesced() -> bool:
        links = (await cluster_of(seen_by))["links"]
        return any(link["quiesced"] for link in links if link["broker"] == broker.data.name)

    await becomes(is_quiesced, verb == "quiesce")


@pytest.mark.process
async def test_a_client_whose_member_is_killed_is_sent_by_the_wrong_one_to_the_one_that_takes_over(
    tmp_path: Path,
) -> None:
    """CL-T10. A quiesced member takes over from none, and takes no clients."""
    with running(Members(tmp_path, f"file:{tmp_path / 'shared'}", 3)) as members:
        b1, b2, b3 = members
        await becomes(lambda: linked(b2), ["b1", "b3"])
        direct, wrong, taker = (f"stomp://127.0.0.1:{broker.stomp_port}" for broker in members)
        await order(b3, "quiesce", b1)  # the client does not get to know it
        async with proxy(b1.stomp_port) as network:
            home = f"stomp://{network.host}:{network.port}"
            url = f"imqAddressList={home}&imqReconnectInterval=100"
            async with mom_client.connect(url, login=b1.user, passcode=b1.password) as client:
                await client.send(QUEUE, b"stored at b1")
                stream = client.events()
                network.back.hold()
                await order(b3, "unquiesce", b2)
                await order(b2, "quiesce", b3)
                b1.kill()
                network.accepts = False
                network.cut()
                events: list[mom_client.ConnectionEvent] = []
                async with asyncio.timeout(patient(60)):
                    while not events or events[-1].kind != "reconnected":
                        events.append(await anext(stream))
                async with client.subscribe(QUEUE) as messages:
                    assert bodies(await take(messages, 1)) == [b"stored at b1"]
                assert client.address == taker
        between = events[1:-1]
        assert (events[0].kind, events[0].address) == ("closed", home)
        assert {event.kind for event in between} == {"reconnect failed"}
        assert wrong in {event.address for event in between} <= {home, direct, wrong}
        assert events[-1].address == taker
        (takeover,) = (await cluster_of(b3))["enhanced"]["takeovers"]
        assert (takeover["member"], takeover["taker"], takeover["result"]) == ("b1", "b3", "complete")
