"""Options of messages and consumers hold across brokers: delays, expiry, priorities, selectors,
exclusive consumers, and consumers of one broker only.

The brokers are shared; each test has queues of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial

import pytest

import mom_client
from tests.cluster.conftest import Brokers
from tests.cluster.test_messages_across_brokers import bodies, crossed, depth, shown, take
from tests.support.awaiting import becomes
from tests.support.node_process import nodes_in
from tests.support.patience import patient


@pytest.fixture(scope="module")
def brokers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers that run, with queues whose expired messages become dead letters, and a local one."""
    with nodes_in(tmp_path_factory.mktemp("options")) as nodes:
        made = Brokers(nodes, 3)
        for node in made:
            node.destinations = {
                "/queue/brief": {"dead_letter_expired": True},
                "/queue/held": {"dead_letter_expired": True},
                "/queue/own": {"local_only": True},
            }
        made.start()
        yield made


async def test_a_delayed_and_a_scheduled_message_reach_another_broker_when_they_are_due(
    brokers: Brokers,
) -> None:
    b1, _, b3 = brokers
    queue = "/queue/later"
    async with b1.stomp() as producer, b3.stomp() as consumer, consumer.subscribe(queue) as messages:
        began = time.time()
        await producer.send(queue, b"delayed", delay_s=0.3)
        at_ms = int(time.time() * 1_000) + 600
        await producer.send(queue, b"scheduled", headers={"deliver-at": str(at_ms)})
        (delayed,) = await take(messages, 1)
        assert delayed.body == b"delayed" and time.time() - began > 0.29
        (scheduled,) = await take(messages, 1)
        assert scheduled.body == b"scheduled" and time.time() * 1_000 >= at_ms - 1
    await becomes(lambda: depth(b1, "later"), (0, 0))


async def dead_letter(broker: mom_client.Client, queue: str) -> dict[str, str]:
    """The headers of the only dead letter of a queue, taken at any broker."""
    async with broker.subscribe(f"/queue/{queue}.dead") as messages:
        (message,) = await take(messages, 1)
    return {name: message.headers[name] for name in ("origin", "dead-reason", "dead-broker")}


async def test_a_message_that_expires_while_the_consumer_elsewhere_is_busy_is_not_delivered_to_it(
    brokers: Brokers,
) -> None:
    b1, b2, b3 = brokers
    queue = "/queue/brief"
    async with b1.stomp() as producer, b2.stomp() as other, b3.stomp() as consumer:
        async with consumer.subscribe(queue, credit=1) as messages:
            await producer.send(queue, b"first")
            (held,) = await take(messages, 1, ack=False)
            await producer.send(queue, b"expires", ttl_s=0.2)
            await producer.send(queue, b"lasts", ttl_s=patient(60.0))
            await becomes(lambda: depth(b1, "brief.dead"), (1, 0))
            await held.ack()
            assert bodies(await take(messages, 1)) == [b"lasts"]
        expired = {"origin": queue, "dead-reason": "EXPIRED", "dead-broker": "b1"}
        assert await dead_letter(other, "brief") == expired


async def test_a_message_that_expired_at_a_consumer_which_left_goes_to_none_at_another_broker(
    brokers: Brokers,
) -> None:
    b1, b2, b3 = brokers
    queue = "/queue/held"
    async with b1.stomp() as producer, b2.stomp() as other:
        async with b3.stomp() as consumer, consumer.subscribe(queue) as messages:
            ttl_s = 0.3
            await producer.send(queue, b"expires", ttl_s=patient(ttl_s))
            await take(messages, 1, ack=False)
            await asyncio.sleep(patient(ttl_s))
        async with other.subscribe(queue) as messages:
            await becomes(lambda: depth(b1, "held.dead"), (1, 0))
            await producer.send(queue, b"after it")
            assert bodies(await take(messages, 1)) == [b"after it"]
        assert (await dead_letter(other, "held"))["dead-reason"] == "EXPIRED"


async def test_messages_that_wait_cross_in_the_order_of_their_priorities(brokers: Brokers) -> None:
    b1, _, b3 = brokers
    queue = "/queue/ranked"
    sent = [(number * 7 % 10, number) for number in range(30)]
    async with b1.stomp() as producer, b3.stomp() as consumer:
        for priority, number in sent:
            await producer.send(queue, b"%d" % number, priority=priority)
        async with consumer.subscribe(queue, credit=2) as messages:
            taken = await take(messages, len(sent))
    expected = sorted(sent, key=lambda one: -one[0])
    assert [(int(one.headers["priority"]), int(one.body)) for one in taken] == expected


@pytest.mark.parametrize("owner", [0, 1])
async def test_a_dead_letter_names_the_broker_that_it_died_on(brokers: Brokers, owner: int) -> None:
    home, consumers, queue = brokers[owner], brokers[2], f"/queue/bad{owner}"
    async with home.stomp() as producer, consumers.stomp() as consumer:
        await producer.send(queue, b"bad")
        async with consumer.subscribe(queue) as messages:
            (message,) = await take(messages, 1, ack=False)
            await message.nack(requeue=False, reason="no such customer")
        rejected = {"origin": queue, "dead-reason": "REJECTED", "dead-broker": home.name}
        assert await dead_letter(consumer, f"bad{owner}") == rejected


async def test_one_exclusive_consumer_of_all_brokers_is_served_and_the_next_one_when_it_leaves(
    brokers: Brokers,
) -> None:
    b1, b2, b3 = brokers
    queue, path = "/queue/alone", "consumers?destination=alone"
    numbers = [b"%d" % number for number in range(10)]
    async with (
        b1.stomp() as producer,
        b2.stomp() as first,
        b3.stomp() as second,
        AsyncExitStack() as leaving,
    ):
        served = await leaving.enter_async_context(first.subscribe(queue, exclusive=True))
        await becomes(partial(shown, b1, path, "broker"), [("b2",)])
        async with second.subscribe(queue, exclusive=True) as standing_by:
            await becomes(partial(shown, b1, path, "broker"), [("b2",), ("b3",)])
            for number in numbers:
                await producer.send(queue, number)
            assert bodies(await take(served, len(numbers))) == numbers
            await leaving.aclose()
            for number in numbers:
                await producer.send(queue, number)
            assert bodies(await take(standing_by, len(numbers))) == numbers


async def test_messages_cross_to_the_broker_whose_consumer_selects_them_and_to_no_other(
    brokers: Brokers,
) -> None:
    b1, b2, b3 = brokers
    queue, path = "/queue/coloured", "consumers?destination=coloured"
    async with (
        b1.stomp() as producer,
        b2.stomp() as one,
        b3.stomp() as other,
        one.subscribe(queue, selector="colour = 'red'") as red,
        other.subscribe(queue, selector="colour = 'blue'") as blue,
    ):
        await becomes(partial(shown, b1, path, "broker"), [("b2",), ("b3",)])
        before = [await crossed(b1, "b2"), await crossed(b1, "b3")]
        for number in range(20):
            colour = ("red", "blue", "green", "blue")[number % 4]
            await producer.send(queue, b"%d" % number, headers={"colour": colour})
        assert [int(body) for body in bodies(await take(red, 5))] == list(range(0, 20, 4))
        assert [int(body) for body in bodies(await take(blue, 10))] == list(range(1, 20, 2))
        await becomes(lambda: depth(b1, "coloured"), (5, 0))
        after = [await crossed(b1, "b2"), await crossed(b1, "b3")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [5, 10]


async def test_messages_of_a_local_only_queue_stay_with_the_consumers_of_their_broker(
    brokers: Brokers,
) -> None:
    b1, _, b3 = brokers
    async with (
        b1.stomp() as here,
        b3.stomp() as elsewhere,
        elsewhere.subscribe("/queue/own"),
        elsewhere.subscribe("/queue/any") as any_queue,
    ):
        await here.send("/queue/own", b"stays")
        await here.send("/queue/any", b"crosses")  # later than what would have crossed before it
        assert bodies(await take(any_queue, 1)) == [b"crosses"]
        assert await shown(b1, "consumers?destination=own", "broker") == []
        assert await depth(b1, "own") == (1, 0)
        async with here.subscribe("/queue/own") as messages:
            assert bodies(await take(messages, 1)) == [b"stays"]
