"""The client and a real broker: one conversation, over each way in, asynchronous and blocking."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import mom_client
import mom_client.blocking
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient

REAL_TIME = True


def tcp(broker: BrokerProcess) -> str:
    return f"stomp://{broker.host}:{broker.stomp_port}"


def websocket(broker: BrokerProcess) -> str:
    return f"ws://{broker.host}:{broker.port}/ws"


@pytest.fixture(params=[tcp, websocket])
def url(request: pytest.FixtureRequest, broker: BrokerProcess) -> str:
    return str(request.param(broker))


@pytest.fixture
def queue() -> str:
    return f"/queue/{uuid.uuid4()}"


def connect(url: str) -> mom_client.Client:
    return mom_client.connect(url, login=BrokerProcess.user, passcode=BrokerProcess.password)


async def test_send_and_receive(url: str, queue: str) -> None:
    async with connect(url) as mom:
        await mom.send(queue, "grüße\0", headers={"a:b": "c\r\nd\\"}, priority=9, correlation_id="x")
        await mom.send_json(queue, {"n": 1})
        async with mom.subscribe(queue, credit=1) as messages:
            first = await messages.get(10)
            assert (first.text, first.headers["a:b"], first.correlation_id) == ("grüße\0", "c\r\nd\\", "x")
            assert (first.attempt, first.redelivered, first.destination) == (1, False, queue)
            await first.ack(confirm=True)
            second = await messages.get(10)
            assert second.json() == {"n": 1}
            await second.nack()
            again = await messages.get(10)
            assert (again.id, again.attempt, again.redelivered) == (second.id, 2, True)
            await again.ack(confirm=True)


async def test_many_at_once(url: str, queue: str) -> None:
    async with connect(url) as mom:
        await asyncio.gather(*(mom.send(queue, b"%d" % number) for number in range(2000)))
        async with mom.subscribe(queue, credit=500) as messages:
            for number in range(2000):
                message = await messages.get(10)
                assert message.body == b"%d" % number
                await message.ack()


async def test_a_drained_subscription_settles_what_it_has_and_receives_nothing_new(
    url: str, queue: str
) -> None:
    async with connect(url) as mom, mom.subscribe(queue, credit=2) as messages:
        await mom.send(queue, b"1")
        await mom.send(queue, b"2")
        await mom.send(queue, b"3")
        taken = await messages.get(patient(10))
        await messages.drain()
        await taken.ack(confirm=True)
        rest = [message async for message in messages]
        assert [message.body for message in rest] == [b"2"]
        await rest[0].ack(confirm=True)
        async with mom.subscribe(queue) as others:
            left = await others.get(patient(10))
            assert (left.body, left.attempt) == (b"3", 1)
            await left.ack(confirm=True)


async def test_large_bodies(url: str, queue: str) -> None:
    body = bytes(range(256)) * 4096 * 4
    async with connect(url) as mom, mom.subscribe(queue) as messages:
        await mom.send(queue, body)
        message = await messages.get(30)
        assert message.body == body
        await message.ack(confirm=True)


async def test_topic(url: str) -> None:
    async with connect(url) as mom, mom.subscribe("/topic/news.>", ack="auto") as messages:
        await mom.send("/topic/news.sport.ski", b"snow")
        assert (await messages.get(10)).destination == "/topic/news.sport.ski"


async def test_refusals_leave_the_connection_alone(url: str, queue: str) -> None:
    async with connect(url) as mom:
        with pytest.raises(mom_client.Refused) as caught:
            await mom.send("/nowhere/x", b"")
        assert caught.value.code == "bad-destination"
        with pytest.raises(mom_client.Refused):
            await mom.subscribe("/nowhere/x").__aenter__()
        await mom.send(queue, b"still here")


async def test_login_is_refused(url: str) -> None:
    with pytest.raises(mom_client.Refused) as caught:
        await mom_client.connect(url, login="admin", passcode="wrong").open()
    assert caught.value.code == "not-authenticated"


async def test_transactions(url: str, queue: str) -> None:
    async with connect(url) as mom, mom.subscribe(queue) as messages:
        with pytest.raises(ZeroDivisionError):
            await _send_and_fail(mom, queue)
        with pytest.raises(mom_client.Refused):
            await _send_both(mom, queue, "/nowhere/x")
        async with mom.transaction() as tx:
            await tx.send(queue, b"1")
            await tx.send(queue, b"2")
        first = await messages.get(10)
        assert first.body == b"1"
        async with mom.transaction() as tx:
            tx.ack(first)
            await tx.send(queue, b"3")
        assert [(await messages.get(10)).body for _ in range(2)] == [b"2", b"3"]


async def _send_and_fail(mom: mom_client.Client, queue: str) -> None:
    async with mom.transaction() as tx:
        await tx.send(queue, b"aborted")
        raise ZeroDivisionError


async def _send_both(mom: mom_client.Client, *destinations: str) -> None:
    async with mom.transaction() as tx:
        for destination in destinations:
            await tx.send(destination, b"refused with the other")


async def test_request_and_reply(url: str, queue: str) -> None:
    async def serve(served: mom_client.Client) -> None:
        async with served.subscribe(queue) as requests:
            async for request in requests:
                await request.reply(request.body[::-1])
                await request.ack()

    async with connect(url) as mom, connect(url) as served:
        serving = asyncio.create_task(serve(served))
        questions = [b"a%d" % number for number in range(20)]
        replies = await asyncio.gather(*(mom.request(queue, body, timeout_s=10) for body in questions))
        assert [reply.body for reply in replies] == [body[::-1] for body in questions]
        serving.cancel()


async def test_a_broker_that_was_killed(start_broker: StartBroker, queue: str) -> None:
    """Sends go on over the kill; none that returned is lost."""
    broker = start_broker()
    async with connect(tcp(broker)) as mom, mom.subscribe(queue) as messages:
        await mom.send(queue, b"before")
        await messages.get(10)
        broker.kill()
        sending = [asyncio.create_task(mom.send(queue, b"%d" % number)) for number in range(10)]
        await asyncio.to_thread(broker.start)
        await asyncio.gather(*sending)
        bodies = {(await messages.get(10)).body for _ in range(11)}
        assert bodies == {b"before", *(b"%d" % number for number in range(10))}


@pytest.mark.parametrize("way", [tcp, websocket])
async def test_a_client_of_a_broker_that_was_killed_closes(
    start_broker: StartBroker, queue: str, way: Callable[[BrokerProcess], str]
) -> None:
    broker = start_broker()
    mom = await connect(way(broker))
    async with mom.subscribe(queue):
        broker.kill()
        async with asyncio.timeout(patient(20)):
            await mom.close()
    assert not mom.connected


async def test_a_message_given_back_with_a_delay_comes_again_after_it(url: str, queue: str) -> None:
    async with connect(url) as mom, mom.subscribe(queue) as messages:
        await mom.send(queue, b"again")
        first = await messages.get(10)
        given_back = time.monotonic()
        await first.nack(delay_s=0.2, confirm=True)
        again = await messages.get(10)
        assert time.monotonic() - given_back >= 0.2
        assert (again.body, again.redelivered) == (b"again", True)


def test_blocking(url: str, queue: str) -> None:
    options = {"login": BrokerProcess.user, "passcode": BrokerProcess.password}
    with mom_client.blocking.connect(url, **options) as mom:
        mom.send(queue, "one")
        with mom.transaction() as tx:
            tx.send(queue, "two")
        with mom.subscribe(queue) as messages:
            first = next(messages)
            mom.ack(first, confirm=True)
            with mom.transaction() as tx:
                tx.ack(messages.get(10))
                tx.send(queue, "three")
            third = messages.get(10)
            assert third.text == "three"
            mom.nack(third, requeue=False, reason="no: such article")
            with pytest.raises(mom_client.Timeout):
                messages.get(0.1)
        with mom.subscribe(f"{queue}.dead") as dead:
            while (letter := dead.get(10)).text != "three":
                mom.ack(letter)
            found = {name: letter.headers[name] for name in ("dead-reason", "dead-detail")}
            mom.ack(letter, confirm=True)
        assert found == {"dead-reason": "REJECTED", "dead-detail": "no: such article"}
        with pytest.raises(mom_client.Refused):
            mom.send("/nowhere/x")
    assert "mom_client" not in {thread.name for thread in threading.enumerate()}


def test_blocking_request(url: str, queue: str) -> None:
    options = {"login": BrokerProcess.user, "passcode": BrokerProcess.password}
    with (
        mom_client.blocking.connect(url, **options) as mom,
        mom_client.blocking.connect(url, **options) as served,
        served.subscribe(queue) as requests,
    ):

        def serve() -> None:
            request = next(requests)
            served.send(request.reply_to or "", b"yes", correlation_id=request.correlation_id)

        thread = threading.Thread(target=serve)
        thread.start()
        assert mom.request(queue, b"well?", timeout_s=10).body == b"yes"
        thread.join()


async def test_durable_and_shared_subscriptions(url: str) -> None:
    topic, name = f"/topic/{uuid.uuid4()}", str(uuid.uuid4())
    async with connect(url) as mom:
        async with mom.subscribe(topic, durable=name):
            pass
        await mom.send(topic, "kept")
        async with mom.subscribe(topic, durable=name, shared=True) as messages:
            message = await messages.get(10)
            assert (message.text, message.destination) == ("kept", topic)
            await message.ack(confirm=True)
        await mom.forget(name)
        with pytest.raises(mom_client.Refused) as refused:
            await mom.forget(name)
        assert refused.value.code == "not-found"
        async with mom.subscribe(topic, shared=name) as one, mom.subscribe(topic, shared=name) as two:
            await mom.send(topic, "1")
            await mom.send(topic, "2")
            assert [(await one.get(10)).text, (await two.get(10)).text] == ["1", "2"]


async def test_a_start_in_the_past(url: str) -> None:
    async with connect(url) as mom, mom.subscribe(f"/topic/{uuid.uuid4()}", start="first") as messages:
        await mom.send(messages.destination, "now")
        assert (await messages.get(10)).text == "now"


async def test_forwarded_messages_wait_before_their_bridge_is_configured(
    url: str, broker: BrokerProcess
) -> None:
    queue = str(uuid.uuid4())
    address = f"/api/v1/queues/storeAndForward:broker1/queue/{queue}"
    options: dict[str, Any] = {"login": broker.user, "passcode": broker.password, "broker": "broker1"}
    async with mom_client.connect(url, store_and_forward=True, **options) as mom:
        with pytest.raises(ValueError, match="at most 79"):
            await mom.send("/queue/" + "q" * 80, "x")
        await mom.send(f"/queue/{queue}", "x")
    assert broker.request("GET", address).json()["depth"] == 1

    def send_blocking() -> None:
        with mom_client.blocking.connect(url, **options) as mom:
            mom.send(mom.destination(queue, store_and_forward=True), "y")

    await asyncio.to_thread(send_blocking)
    assert broker.request("GET", address).json()["depth"] == 2
