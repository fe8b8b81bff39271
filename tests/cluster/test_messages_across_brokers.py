"""Several brokers: what is sent to one reaches consumers of the others, and is settled where it is kept."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import mom_client
from tests.cluster.conftest import BROKERS, Brokers
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess
from tests.support.patience import patient

QUEUE = "/queue/orders"


async def depth(node: Any, queue: str = "orders") -> tuple[int, int]:
    """(waiting, unsettled) messages of a queue at one broker, which may not exist yet."""
    async with node.rest() as http:
        found = (await http.get(f"/queues/{queue}")).json()
    return found.get("depth", 0), found.get("unsettled", 0)


async def take(messages: mom_client.Subscription, count: int, *, ack: bool = True) -> list[Any]:
    """The next messages, acknowledged."""
    taken = []
    async with asyncio.timeout(patient(20)):
        for _ in range(count):
            message = await anext(messages)
            if ack:
                await message.ack()
            taken.append(message)
    return taken


async def shown(node: NodeProcess, path: str, *members: str) -> list[tuple[Any, ...]]:
    """These members of each row of a list about the cluster."""
    async with node.rest() as http:
        found = (await http.get(f"/cluster/{path}")).json()["items"]
    return [tuple(row[member] for member in members) for row in found]


def bodies(messages: list[Any]) -> list[bytes]:
    return [message.body for message in messages]


async def consumers(node: NodeProcess, queue: str = "orders") -> int:
    async with node.rest() as http:
        answer = await http.get(f"/queues/{queue}")
    found = answer.json().get("consumers", 0) if answer.status_code == 200 else 0
    return len(found) if isinstance(found, list) else int(found)


async def test_a_message_crosses_to_the_broker_of_its_consumer_and_is_settled_where_it_is_stored(
    several: Brokers,
) -> None:
    b1, _, b3, *_ = several
    async with b1.stomp() as producer, b3.stomp() as consumer:
        for number in range(20):
            await producer.send(QUEUE, b"%d" % number)
        async with consumer.subscribe(QUEUE) as messages:
            taken = await take(messages, 20)
            assert bodies(taken) == [b"%d" % number for number in range(20)]
            assert not any(message.redelivered for message in taken)
            await becomes(lambda: depth(b1), (0, 0))
            assert await depth(b3) == (0, 0)
            sent = [(f"b{at}", "up", 20 if at == 3 else 0) for at in range(2, BROKERS + 1)]
            assert await shown(b1, "links", "broker", "state", "sent") == sent
            found = await shown(b1, "consumers?destination=orders", "broker", "address", "consumers")
            assert found == [("b3", "/queue/orders", 1)]
            await producer.send(QUEUE, b"unsettled")
            (held,) = await take(messages, 1, ack=False)
            async with b1.rest() as http:
                reply = await http.get(f"/messages/{held.id}/why", params={"queue": "orders"})
            assert "of broker b3 has received it and has not settled it" in reply.text
            await held.ack()
        await becomes(lambda: consumers(b1), 0)


async def test_a_quick_consumer_that_pauses_goes_on_where_it_was_and_loses_nothing_to_itself(
    several: Brokers,
) -> None:
    b1, b2, *_ = several
    bodies_sent = [b"%d" % number for number in range(150)]
    async with b1.stomp() as producer, b2.stomp() as consumer:
        async with asyncio.TaskGroup() as sending:
            for body in bodies_sent:
                sending.create_task(producer.send(QUEUE, body))
        async with consumer.subscribe(QUEUE, credit=5) as messages:
            taken = await take(messages, 100)
            held = await take(messages, 5, ack=False)  # what waits behind these goes back
            await becomes(lambda: depth(b1), (45, 5))
            for message in held:
                await message.ack()
            taken += held + await take(messages, 45)
        assert bodies(taken) == bodies_sent
        await becomes(lambda: depth(b1), (0, 0))


async def test_consumers_everywhere_share_a_queue_and_each_message_goes_to_one(several: Brokers) -> None:
    clients = [node.stomp() for node in several]
    got: list[bytes] = []

    async def consume(client: mom_client.Client) -> None:
        async with client.subscribe(QUEUE, credit=5) as messages:
            async for message in messages:
                got.append(message.body)
                await message.ack()

    async with AsyncExitStack() as opened:
        for client in clients:
            await opened.enter_async_context(client)
        tasks = [asyncio.create_task(consume(client)) for client in clients]
        await becomes(lambda: consumers(several[0]), BROKERS)
        sent = [b"%d-%d" % (at, number) for at in range(BROKERS) for number in range(100)]
        await asyncio.gather(*(clients[int(body[:1])].send(QUEUE, body) for body in sent))
        for node in several:
            await becomes(lambda node=node: depth(node), (0, 0))  # type: ignore[misc]
        for task in tasks:
            task.cancel()
    assert sorted(got) == sorted(sent)


async def test_a_topic_crosses_once_for_all_subscribers_of_a_broker(several: Brokers) -> None:
    b1, _, b3, *_ = several
    async with (
        b1.stomp() as producer,
        b3.stomp() as one,
        b3.stomp() as other,
        one.subscribe("/topic/prices.*", ack="auto") as first,
        other.subscribe("/topic/prices.eur", ack="auto") as second,
    ):
        await becomes(lambda: subscribers(b1), 2)
        for number in range(10):
            await producer.send("/topic/prices.eur", b"%d" % number)
        assert bodies(await take(first, 10, ack=False)) == [b"%d" % number for number in range(10)]
        assert bodies(await take(second, 10, ack=False)) == [b"%d" % number for number in range(10)]
    assert await crossed(b1, "b3") == 10
    assert await crossed(b1, "b2") == 0


async def crossed(node: NodeProcess, to: str) -> int:
    """Messages that a broker has sent to another one."""
    async with node.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    (sent,) = [link["sent"] for link in links if link["broker"] == to]
    return int(sent)


async def subscribers(node: NodeProcess) -> int:
    """What the consumers of other brokers want of a broker."""
    async with node.rest() as http:
        found = (await http.get("/cluster/consumers")).json()["items"]
    return sum(one["broker"] != node.name for one in found)


async def test_a_request_is_answered_across_brokers(several: Brokers) -> None:
    b1, _, b3, *_ = several

    async def serve(client: mom_client.Client) -> None:
        async with client.subscribe("/queue/work") as requests:
            async for request in requests:
                await client.send(
                    request.headers["reply-to"],
                    b"re: " + request.body,
                    correlation_id=request.headers["correlation-id"],
                )
                await request.ack()

    async with b3.stomp() as service, b1.stomp() as requester, asyncio.TaskGroup() as group:
        serving = group.create_task(serve(service))  # an error of the service ends the test
        for number in range(20):
            reply = await requester.request("/queue/work", b"%d" % number, timeout_s=patient(10))
            assert reply.body == b"re: %d" % number
        serving.cancel()


async def test_a_durable_subscription_is_consumed_from_another_broker(several: Brokers) -> None:
    b1, b2, b3, *_ = several
    async with b1.stomp() as producer, b3.stomp() as client:
        async with client.subscribe("/topic/news", durable="d") as messages:
            await becomes(lambda: subscriptions(b1), ["d"])
            await producer.send("/topic/news", b"1")
            assert bodies(await take(messages, 1)) == [b"1"]
        await becomes(lambda: consumers_of_subscription(b1, "d"), 0)
        await producer.send("/topic/news", b"2")  # it waits where it was published
        async with b2.stomp() as elsewhere, elsewhere.subscribe("/topic/news", durable="d") as messages:
            assert bodies(await take(messages, 1)) == [b"2"]


async def subscriptions(node: NodeProcess) -> list[str]:
    async with node.rest() as http:
        found = (await http.get("/subscriptions")).json()
    return [one["name"] for one in found["items"]]


async def consumers_of_subscription(node: NodeProcess, name: str) -> int:
    async with node.rest() as http:
        found = (await http.get("/subscriptions")).json()
    (one,) = [one for one in found["items"] if one["name"] == name]
    return int(one["consumers"]) if not isinstance(one["consumers"], list) else len(one["consumers"])


async def test_a_shared_subscription_divides_messages_among_brokers(several: Brokers) -> None:
    b1, b2, b3, *_ = several
    got: list[bytes] = []

    async def consume(client: mom_client.Client) -> None:
        async with client.subscribe("/topic/news", shared="s") as messages:
            async for message in messages:
                got.append(message.body)
                await message.ack()

    async with b1.stomp() as producer, b2.stomp() as second, b3.stomp() as third:
        tasks = [asyncio.create_task(consume(client)) for client in (second, third)]
        async with b1.rest() as http:

            async def shared() -> int:
                found = (await http.get("/subscriptions")).json()["items"]
                return max((consumers_in(one) for one in found), default=0)

            await becomes(shared, 2)
            for number in range(100):
                await producer.send("/topic/news", b"%d" % number)

            async def arrived() -> int:
                return len(got)

            await becomes(arrived, 100)
        for task in tasks:
            task.cancel()
    assert sorted(got) == sorted(b"%d" % number for number in range(100))


def consumers_in(one: dict[str, Any]) -> int:
    found = one["consumers"]
    return len(found) if isinstance(found, list) else int(found)


async def test_a_rejected_message_is_a_dead_letter_of_the_broker_that_has_stored_it(several: Brokers) -> None:
    b1, _, b3, *_ = several
    async with b1.stomp() as producer, b3.stomp() as consumer:
        await producer.send(QUEUE, b"bad")
        async with consumer.subscribe(QUEUE) as messages:
            (message,) = await take(messages, 1, ack=False)
            await message.nack(requeue=False, reason="no such customer")
            await becomes(lambda: depth(b1, "orders.dead"), (1, 0))
            assert await depth(b1) == (0, 0)


async def test_messages_of_a_consumer_that_left_go_to_one_at_another_broker(several: Brokers) -> None:
    b1, b2, b3, *_ = several
    async with b1.stomp() as producer:
        async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            for number in range(5):
                await producer.send(QUEUE, b"%d" % number)
            await take(messages, 5, ack=False)
        async with b2.stomp() as other, other.subscribe(QUEUE) as messages:
            taken = await take(messages, 5)
            assert bodies(taken) == [b"%d" % number for number in range(5)]
            assert all(message.redelivered for message in taken)


async def test_after_a_kill_of_the_consumers_broker_its_messages_are_delivered_again(
    several: Brokers,
) -> None:
    b1, b2, b3, *_ = several
    async with b1.stomp() as producer, b2.stomp() as other:
        async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            for number in range(5):
                await producer.send(QUEUE, b"%d" % number)
            await take(messages, 5, ack=False)
            b3.kill()
        async with other.subscribe(QUEUE) as messages:
            taken = await take(messages, 5)
            assert all(message.redelivered for message in taken)
            assert bodies(taken) == [b"%d" % number for number in range(5)]


async def test_messages_of_a_broker_that_is_away_wait_for_its_restart(several: Brokers) -> None:
    b1, _, b3, *_ = several
    async with b1.stomp() as producer:
        for number in range(5):
            await producer.send(QUEUE, b"%d" % number)
    b1.kill()
    async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        b1.start()
        assert bodies(await take(messages, 5)) == [b"%d" % number for number in range(5)]


async def test_a_large_message_and_one_with_all_headers_cross_unchanged(several: Brokers) -> None:
    b1, _, b3, *_ = several
    large = bytes(range(256)) * 40_000  # 10 MB
    headers = {"colour": "red:blue\\green\n", "empty": ""}
    async with b1.stomp() as producer, b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        await producer.send(QUEUE, large)
        await producer.send(QUEUE, b"x", headers=headers, priority=7, content_type="text/x", ttl_s=60.0)
        first, second = await take(messages, 2)
        if first.body == b"x":
            first, second = second, first
        assert first.body == large
        assert {name: second.headers[name] for name in headers} == headers
        assert second.headers["priority"] == "7"


async def test_messages_of_a_group_that_are_sent_to_one_broker_go_to_one_consumer_in_order(
    several: Brokers,
) -> None:
    clients = [node.stomp() for node in several]
    got: list[tuple[int, bytes]] = []

    async def consume(at: int) -> None:
        async with clients[at].subscribe(QUEUE, credit=5) as messages:
            async for message in messages:
                got.append((at, message.body))
                await message.ack()

    async with AsyncExitStack() as opened:
        for client in clients:
            await opened.enter_async_context(client)
        tasks = [asyncio.create_task(consume(at)) for at in range(BROKERS)]
        await becomes(lambda: consumers(several[0]), BROKERS)
        sent = [b"%d %d" % (group, number) for number in range(60) for group in range(6)]
        for body in sent:
            await clients[0].send(QUEUE, body, headers={"JMSXGroupID": body.split()[0].decode()})

        async def arrived() -> int:
            return len(got)

        await becomes(arrived, len(sent))
        for task in tasks:
            task.cancel()
    for group in range(6):
        of_group = [(at, body) for at, body in got if body.startswith(b"%d " % group)]
        assert [body for _, body in of_group] == [body for body in sent if body.startswith(b"%d " % group)]
        assert len({at for at, _ in of_group}) == 1
    assert len({at for at, _ in got}) > 1
