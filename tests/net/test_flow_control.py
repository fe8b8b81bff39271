"""Producers that are faster than their destination, over TCP, WebSocket and within the process."""

from __future__ import annotations

import asyncio

import pytest

import mom_client
from broker_app.base import deadline
from broker_app.base.rate_limit import RateLimit
from broker_app.core import commands as c
from broker_app.core.limits import Limits
from broker_app.core.message import OVERHEAD_BYTES
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy, Policies
from broker_app.core.selectors import compiler
from broker_app.net.auth.login import Identity
from broker_app.net.policy.policy import Policy
from broker_app.net.stomp.transports import local, websocket
from tests.net.test_websocket import opened
from tests.support.loop_turns import loop_turns
from tests.support.patience import patient
from tests.support.small_broker import RawClient, SmallBroker, small_broker

KIB, MIB = 1024, 1024 * 1024


def limit(broker: SmallBroker, **rules: object) -> None:
    policy = DestinationPolicy(**rules)  # type: ignore[arg-type]
    broker.engine.submit(c.Reconfigure(Policies(exact={"/queue/a": policy})))


def sending(number: int, *, size: int = 0, receipt: bool = True) -> bytes:
    line = f"receipt:{number}\n" if receipt else ""
    return f"SEND\ndestination:/queue/a\n{line}\n{number}".encode() + b"." * size + b"\0"


async def until(condition: object) -> None:
    async with asyncio.timeout(patient(20)):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def consume(broker: SmallBroker, count: int) -> list[int]:
    """Take and acknowledge so many messages; their numbers."""
    consumer = await broker.client()
    consumer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
    numbers = []
    for _ in range(count):
        frame = await consumer.frame()
        ack = frame.partition(b"ack:")[2].partition(b"\n")[0]
        numbers.append(int(frame.partition(b"\n\n")[2].rstrip(b".")))
        consumer.send(b"ACK\nid:%b\n\n\0" % ack)
    await consumer.close()
    return numbers


async def test_receipts_of_a_full_queue_are_sent_when_there_is_space() -> None:
    async with small_broker() as broker:
        limit(broker, max_messages=2)
        producer = await broker.client()
        producer.send(b"".join(map(sending, range(5))))
        assert await producer.frames(2) == [b"RECEIPT\nreceipt-id:0\n\n", b"RECEIPT\nreceipt-id:1\n\n"]
        await until(lambda: broker.engine.broker.admission.blocked.bytes)
        assert await consume(broker, 5) == [0, 1, 2, 3, 4]
        assert await producer.frames(3) == [b"RECEIPT\nreceipt-id:%d\n\n" % number for number in (2, 3, 4)]
        await producer.close()


async def test_a_producer_that_never_stops_is_throttled() -> None:
    limits = Limits(blocked_per_peer=64 * KIB, blocked_bytes=16 * MIB)
    async with small_broker(limits=limits) as broker:
        limit(broker, max_messages=10)
        producer = await broker.client()
        sent = 0

        async def produce() -> None:
            nonlocal sent
            while True:
                producer.send(sending(sent, size=10 * KIB, receipt=False))
                sent += 1
                await producer.writer.drain()

        producing = asyncio.create_task(produce())
        parking = broker.engine.broker.admission.blocked
        await until(lambda: parking.throttled)
        most, before = 0, -1
        while before != sent:  # the buffers of both ends fill, and then nothing moves
            before = sent
            for _ in range(50):
                await asyncio.sleep(0.002)
                most = max(most, parking.bytes)
        assert most < 2 * MIB
        assert await consume(broker, before) == list(range(before))
        producing.cancel()
        producer.writer.transport.abort()
        await producer.close()


async def test_one_connection_may_make_room_for_what_it_sends() -> None:
    limits = Limits(blocked_per_peer=OVERHEAD_BYTES)
    async with small_broker(limits=limits) as broker:
        limit(broker, max_messages=2)
        client = await broker.client()
        client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\nprefetch-count:1\n\n\0")
        client.send(b"".join(sending(number, receipt=False) for number in range(50)))
        for number in range(50):
            frame = await client.frame()
            assert frame.endswith(b"\n\n%d" % number)
            client.send(b"ACK\nid:%b\n\n\0" % frame.partition(b"ack:")[2].partition(b"\n")[0])
        await client.close()


async def test_a_message_blocked_too_long_ends_the_connection_with_the_reason() -> None:
    async with small_broker(limits=Limits(blocked_timeout_ms=500)) as broker:
        limit(broker, max_messages=1)
        producer = await broker.client()
        producer.send(sending(0) + sending(1))
        assert await producer.frame() == b"RECEIPT\nreceipt-id:0\n\n"
        said = await producer.ended()
        assert said.startswith(
            b"ERROR\nreceipt-id:1\nmessage:/queue/a is full\\c it holds at most 1 messages\n"
        )
        assert b'"type":"/docs/problems/queue-full"' in said
        await until(lambda: not broker.registry.sessions)
        await producer.close()


async def test_a_client_with_soft_errors_stays_connected() -> None:
    async with small_broker() as broker:
        limit(broker, max_messages=1, limit_behavior=REJECT_NEWEST)
        producer = await broker.client(**{"mom-soft-errors": "true"})
        producer.send(sending(0) + sending(1))
        assert await producer.frame() == b"RECEIPT\nreceipt-id:0\n\n"
        refused = await producer.frame()
        assert refused.startswith(b"MESSAGE\nreceipt-id:1\nsubscription:$mom.refused\n")
        assert b"queue-full" in refused
        await consume(broker, 1)
        assert await producer.ask(sending(2)) == b"RECEIPT\nreceipt-id:2\n\n"
        await producer.close()


async def test_acknowledgements_of_nothing_are_processed_one_by_one_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with small_broker() as broker:
        client = await broker.client(**{"mom-soft-errors": "true"})
        monkeypatch.setattr(deadline, "TURN_S", -1.0)
        async with loop_turns() as turns:
            client.send(b"".join(b"ACK\nid:%d\n\n\0" % number for number in range(1_000)))
            for _ in range(1_000):
                assert b"unknown-delivery" in await client.frame()
        assert turns.number >= 1_000
        await client.close()


async def test_a_disconnect_is_answered_when_all_that_was_sent_is_stored() -> None:
    async with small_broker() as broker:
        limit(broker, max_messages=1)
        producer = await broker.client()
        producer.send(b"".join(sending(number, receipt=False) for number in range(3)))
        producer.send(b"DISCONNECT\nreceipt:bye\n\n\0")
        await until(lambda: broker.engine.broker.admission.blocked.bytes)
        assert await consume(broker, 3) == [0, 1, 2]
        assert await producer.frame() == b"RECEIPT\nreceipt-id:bye\n\n"
        assert await producer.ended() == b""
        await producer.close()


async def test_a_throttled_client_misses_no_heart_beat() -> None:
    async with small_broker(limits=Limits(blocked_per_peer=1), heartbeat_ms=100) as broker:
        limit(broker, max_messages=1)
        producer = await broker.client(**{"heart-beat": "100,0"})
        producer.send(sending(0) + sending(1))
        await producer.frame()
        await until(lambda: broker.engine.broker.admission.blocked.throttled)
        (session,) = broker.registry.sessions
        for _ in range(5):  # ten intervals without a sign of life
            session.tick(session.conversation.last_received_s + 1.0, 0.025)
        assert await consume(broker, 2) == [0, 1]
        assert await producer.frame() == b"RECEIPT\nreceipt-id:1\n\n"
        await producer.close()


async def test_a_websocket_producer_gets_its_receipts_late_and_is_throttled() -> None:
    async with small_broker(limits=Limits(blocked_per_peer=1)) as broker:
        limit(broker, max_messages=1)
        producer = await opened(broker)
        producer.send(sending(0) + sending(1))
        assert await producer.data() == b"RECEIPT\nreceipt-id:0\n\n\0\n"
        await until(lambda: broker.engine.broker.admission.blocked.throttled)
        producer.send(sending(2))
        producer.send(sending(3))
        for _ in range(20):
            await asyncio.sleep(0)
        assert producer.incoming.qsize() >= 1, "the rest waits with the server"
        assert await consume(broker, 4) == [0, 1, 2, 3]
        data = b""
        while data.count(b"\0") < 3:
            data += await producer.data()
        assert data == b"".join(b"RECEIPT\nreceipt-id:%d\n\n\0\n" % number for number in (1, 2, 3))
        await producer.leave()


async def test_a_websocket_producer_is_refused_in_the_end() -> None:
    async with small_broker(limits=Limits(blocked_timeout_ms=500)) as broker:
        limit(broker, max_messages=1)
        producer = await opened(broker)
        producer.send(sending(0) + sending(1))
        assert await producer.data() == b"RECEIPT\nreceipt-id:0\n\n\0\n"
        assert b'"type":"/docs/problems/queue-full"' in await producer.data()
        event = await producer.event()
        assert (event["type"], event["code"]) == ("websocket.close", websocket.NORMAL)
        await producer.leave()


async def test_a_client_in_the_brokers_process_is_throttled_too() -> None:
    async with small_broker(limits=Limits(blocked_per_peer=1)) as broker:
        limit(broker, max_messages=1)
        opener = local.opener(broker.registry, Identity("anna"))
        async with mom_client.connect("stomp://local", opener=opener) as mom:
            sending = asyncio.create_task(_send_all(mom, 4))
            await until(lambda: broker.engine.broker.admission.blocked.throttled)
            assert not sending.done()
            assert await consume(broker, 4) == [0, 1, 2, 3]
            await sending


async def _send_all(mom: mom_client.Client, count: int) -> None:
    for number in range(count):
        await mom.send("/queue/a", f"{number}")


async def test_a_slow_consumer_is_disconnected_with_the_reason() -> None:
    async with small_broker() as broker:
        limit(broker, slow_consumer_ms=1_000)
        consumer = await broker.client()
        subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\nprefetch-count:1\nreceipt:s\n\n\0"
        await consumer.ask(subscribe)
        producer = await broker.client()
        producer.send(sending(0) + sending(1))
        said = await consumer.ended()
        assert b"slow-consumer" in said
        assert b"settled nothing for" in said
        await consumer.close()
        await producer.close()


# ---------------------------------------------------------------------- per connection


async def test_a_connection_that_sends_too_fast_is_read_more_slowly() -> None:
    async with small_broker(max_frames_per_second=100) as broker:
        producer = await broker.client()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(150):
            assert await producer.ask(sending(number)) == b"RECEIPT\nreceipt-id:%d\n\n" % number
        assert 0.3 < loop.time() - began < 5
        await producer.close()


async def test_a_connection_that_sends_much_too_fast_is_refused() -> None:
    async with small_broker(max_bytes_per_second=1_000) as broker:
        producer: RawClient = await broker.client()
        producer.send(sending(0, size=50_000))
        assert b"rate-limited" in await producer.ended()
        await producer.close()


@pytest.mark.parametrize(("frames", "bytes_"), [(10, 0), (0, 1_000)])
def test_the_rate_limit_of_a_connection(frames: int, bytes_: int) -> None:
    pace = RateLimit(frames, bytes_, now=0.0)
    assert pace.spend(10, 1_000, now=0.0) == 0.0
    assert pace.spend(5, 500, now=0.0) == pytest.approx(0.5)
    assert pace.spend(0, 0, now=0.5) == pytest.approx(0.0)
    assert pace.spend(10, 1_000, now=100.0) == 0.0


def test_a_connection_has_no_rate_limit_by_default() -> None:
    assert RateLimit(0, 0, now=0.0).spend(1 << 30, 1 << 40, now=0.0) == 0.0


# ---------------------------------------------------------------------- clients that give up


async def test_blocked_messages_of_a_disconnected_client_are_dropped() -> None:
    """Nothing is read of it, so that its end goes unnoticed: the kernel is asked."""
    async with small_broker(limits=Limits(blocked_per_peer=1)) as broker:
        limit(broker, max_messages=1)
        producer = await broker.client()
        producer.send(sending(0) + sending(1))
        await producer.frame()
        await until(lambda: broker.engine.broker.admission.blocked.throttled)
        producer.send(sending(2))
        await producer.close()
        await until(lambda: not broker.engine.broker.admission.blocked.bytes)
        assert await consume(broker, 1) == [0]
        assert broker.engine.broker.destinations.queues["/queue/a"].depth == 0


async def test_messages_before_a_disconnect_are_stored_although_the_client_did_not_wait() -> None:
    async with small_broker(limits=Limits(blocked_per_peer=1)) as broker:
        limit(broker, max_messages=1)
        producer = await broker.client()
        producer.send(sending(0) + sending(1))
        await producer.frame()
        await until(lambda: broker.engine.broker.admission.blocked.throttled)
        producer.send(sending(2) + b"DISCONNECT\n\n\0")
        await producer.close()
        await until(lambda: not broker.registry.sessions)
        assert await consume(broker, 3) == [0, 1, 2]


async def test_a_disconnecting_client_gets_its_receipts_before_the_error_of_its_revoked_login() -> None:
    async with small_broker() as broker:
        client = await broker.client()
        (session,) = broker.registry.sessions
        session.receive(sending(0) + b"DISCONNECT\nreceipt:bye\n\n\0")
        broker.registry.logins.reload(Policy())
        broker.registry.recheck_logins()
        told = await client.ended()
    receipts, _, error = told.partition(b"ERROR\n")
    assert b"receipt-id:0\n" in receipts and b"receipt-id:bye\n" in receipts
    assert b"the login of anna is no longer valid" in error


class Compiled:
    """An interceptor that notes of each SUBSCRIBE whether its selector is compiled when the core gets it."""

    def __init__(self) -> None:
        self.noted: list[bool] = []

    def takes(self, command: c.Command, size: int) -> bool:
        if isinstance(command, c.Subscribe):
            before = compiler.compile_stored.cache_info().misses
            compiler.compile(command.selector)
            self.noted.append(compiler.compile_stored.cache_info().misses == before)
        return False


async def test_a_selector_is_compiled_in_the_time_of_its_connection_and_not_in_that_of_the_engine() -> None:
    async with small_broker() as broker:
        compiled = Compiled()
        broker.engine.intercept([compiled])
        client = await broker.client()
        for number in range(3):
            frame = "SUBSCRIBE\nid:{0}\ndestination:/topic/a\nselector:own{0} = 1\nreceipt:{0}\n\n\0"
            client.send(frame.format(number).encode())
            await client.frame()
        assert compiled.noted == [True] * 3
