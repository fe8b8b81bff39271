"""Brokers of an enhanced cluster: a member that dies is taken over, and its clients do not miss a message."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import mom_client
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.connected import RawStomp, connected
from tests.enhanced_cluster.members import (
    QUEUE,
    MemberProcess,
    Members,
    adopted,
    cluster_of,
    linked,
    running,
    taken_over,
)
from tests.support.awaiting import becomes, until
from tests.support.proxy import proxy
from tests.support.redis import redis_server
from tests.support.samples import sample
from tests.support.stores import STORES

pytestmark = pytest.mark.process


@pytest.fixture(params=sample(STORES, 1))
def any_members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with ExitStack() as stack:
        stores = stack.enter_context(STORES[request.param]())
        yield stack.enter_context(running(Members(tmp_path, stores.url(), 3)))


async def owners(broker: MemberProcess) -> dict[str, int]:
    """How many messages of each member a broker shows, also of those that were taken over."""
    async with broker.rest() as http:
        page = (await http.get("/queues/orders/messages", params={"limit": 500})).json()
    return Counter(row["broker"].partition("~")[0] for row in page.get("items", ()))


async def explained(broker: MemberProcess) -> tuple[str, str]:
    """The member that owns the first message, and why it waits, as a broker explains it."""
    async with broker.rest() as http:
        page = (await http.get("/queues/orders/messages", params={"limit": 1})).json()
        id = page["items"][0]["id"]
        answer = (await http.get(f"/messages/{id}/why", params={"queue": "orders"})).json()
    return answer["broker"].partition("~")[0], answer["reasons"][0]["code"]


async def test_messages_of_a_member_that_is_killed_are_served_by_another(any_members: Members) -> None:
    b1, b2, b3 = any_members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    async with b1.stomp() as producer:
        for number in range(100):
            await producer.send(QUEUE, b"%d" % number)
        async with producer.subscribe("/topic/prices", durable="audit"):
            pass
        await producer.send("/topic/prices", b"while its subscriber was away")
    b1.kill()
    await becomes(lambda: owners(b3), {"b1": 100})
    for broker in (b2, b3):
        assert await explained(broker) == ("b1", "no-consumer")
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        found = await take(messages, 100)
        assert bodies(found) == [b"%d" % number for number in range(100)]
        # Its producer could have sent each again to another member, which then has it, too.
        assert all(message.redelivered for message in found)
    async with b2.stomp() as consumer, consumer.subscribe("/topic/prices", durable="audit") as prices:
        assert bodies(await take(prices, 1)) == [b"while its subscriber was away"]
    b1.start()  # nothing that was taken comes back, and it joins empty
    async with b1.rest() as http:
        assert (await http.get("/queues/orders")).status_code == 404
    async with b1.stomp() as producer, b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        await producer.send(QUEUE, b"again")
        assert bodies(await take(messages, 1)) == [b"again"]


@pytest.fixture
def redis_members(tmp_path: Path) -> Iterator[Members]:
    with redis_server() as server, running(Members(tmp_path, server.url, 3)) as made:
        yield made


async def test_a_message_whose_receipt_was_lost_with_its_member_is_marked_each_time_it_comes(
    redis_members: Members,
) -> None:
    b1, b2, b3 = redis_members
    await becomes(lambda: linked(b3), ["b1", "b2"])
    async with proxy(b1.stomp_port) as network:
        first, second = f"stomp://{network.host}:{network.port}", f"stomp://{b2.host}:{b2.stomp_port}"
        uri = f"failover:({first},{second})?randomize=false&updateURIsSupported=false&maxReconnectDelay=100"
        async with mom_client.connect(uri, login=b1.user, passcode=b1.password) as producer:
            network.back.hold()
            receipt = producer.send_nowait(QUEUE, b"1")
            await becomes(lambda: depth(b1), 1)
            b1.kill()
            network.accepts = False
            network.cut()
            await receipt
    async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        found = await take(messages, 2)
    assert [(message.body, message.redelivered) for message in found] == [(b"1", True), (b"1", True)]


async def depth(broker: MemberProcess) -> int:
    """The number of messages that a member has stored for the queue."""
    async with broker.rest() as http:
        answer = await http.get("/queues/orders")
    return int(answer.json()["depth"]) if answer.status_code == 200 else 0


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


async def test_a_member_that_is_stopped_for_longer_than_its_lease_sends_its_clients_to_the_taker_and_ends(
    redis_members: Members,
) -> None:
    b1, b2, b3 = redis_members
    await becomes(lambda: linked(b1), ["b2", "b3"])
    async with b1.stomp() as producer:
        await producer.send(QUEUE, b"1")
    async with connected(b1, await RawStomp.connect(b1)) as clients:
        os.kill(b1.pid, signal.SIGSTOP)
        async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, 1)) == [b"1"]
        await becomes(lambda: taken_over(b2), ["b1"])
        (takeover,) = (await cluster_of(b2))["enhanced"]["takeovers"]
        os.kill(b1.pid, signal.SIGCONT)
        await clients.are_sent_to({"b2": b2, "b3": b3}[takeover["taker"]])

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
    with running(Members(tmp_path, f"file:{tmp_path / 'shared'}", 3)) as members:
        b1, b2, b3 = members
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
