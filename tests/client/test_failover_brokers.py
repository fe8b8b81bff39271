"""Failover with real brokers that are killed: nothing is lost, nothing doubles, nobody is left behind."""

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable

import pytest

import mom_client
from tests.client.test_against_broker import tcp, websocket
from tests.support.awaiting import until
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient

REAL_TIME = True


def connect(
    *brokers: BrokerProcess, options: str, way: Callable[[BrokerProcess], str] = tcp
) -> mom_client.Client:
    url = f"failover:({','.join(map(way, brokers))})?{options}"
    return mom_client.connect(url, login=BrokerProcess.user, passcode=BrokerProcess.password)


def depth(broker: BrokerProcess, queue: str) -> int:
    return int(broker.request("GET", f"/api/v1/queues/{queue}").json()["depth"])


@pytest.mark.parametrize("confirm", [True, False], ids=["confirmed", "tracked"])
async def test_nothing_is_lost_and_nothing_doubles(start_broker: StartBroker, confirm: bool) -> None:
    """Sends go on over three kills; each message is stored once, those without a wait as well."""
    broker = start_broker()
    options = "maxReconnectDelay=200&trackMessages=true&maxCacheSize=10000000"
    stop = asyncio.Event()
    sent = 0

    async def send_all(mom: mom_client.Client) -> None:
        nonlocal sent
        while not stop.is_set():
            batch = range(sent, sent + 20)
            await asyncio.gather(*(mom.send("/queue/once", b"%d" % n, confirm=confirm) for n in batch))
            sent += 20
            await asyncio.sleep(0.02)  # at full speed, both compute as long as a start takes

    async with connect(broker, options=options) as mom:
        sending = asyncio.create_task(send_all(mom))
        for _ in range(3):
            goal = sent + 200
            while sent < goal:
                await asyncio.sleep(0.001)
            broker.kill()
            await asyncio.to_thread(broker.start)
        stop.set()
        await sending
    async with connect(broker, options="") as mom, mom.subscribe("/queue/once", credit=1000) as messages:
        bodies = []
        for _ in range(sent):
            message = await messages.get(20)
            bodies.append(int(message.body))
            await message.ack()
        assert sorted(bodies) == list(range(sent))
        with pytest.raises(mom_client.Timeout):
            await messages.get(0.2)


@pytest.mark.parametrize("way", [tcp, websocket])
async def test_a_spare_connection_to_another_broker(
    start_broker: StartBroker, broker: BrokerProcess, way: Callable[[BrokerProcess], str]
) -> None:
    first, second, queue = start_broker(), broker, str(uuid.uuid4())
    async with (
        connect(
            first, second, options="randomize=false&backup=true&initialReconnectDelay=20000", way=way
        ) as mom,
        mom.subscribe(f"/queue/{queue}") as messages,
    ):
        assert mom.address == way(first)
        async with asyncio.timeout(patient(20)):
            while mom.spares != [way(second)]:
                await asyncio.sleep(0.01)
        killed = time.monotonic()
        first.kill()
        await mom.send(f"/queue/{queue}", "over the spare")
        assert (await messages.get(10)).text == "over the spare"
        assert time.monotonic() - killed < 10  # a new connection would have waited 20 s
        assert mom.address == way(second)


@pytest.mark.parametrize("way", [tcp, websocket])
async def test_the_return_to_the_preferred_broker(
    start_broker: StartBroker, broker: BrokerProcess, way: Callable[[BrokerProcess], str]
) -> None:
    """AF-T12: within five seconds of its return, once, with sends in flight all the time: none fails, and
    none is sent twice."""
    preferred, queue = start_broker(), str(uuid.uuid4())
    preferred.kill()
    events: list[str] = []
    url = f"failover:({way(preferred)},{way(broker)})?priorityBackup=true"
    client = mom_client.connect(
        url, login=broker.user, passcode=broker.password, listener=lambda event: events.append(event.kind)
    )
    async with client as mom:
        assert mom.address == way(broker)
        starting = asyncio.create_task(asyncio.to_thread(preferred.start))
        sent, returned = 0, 0.0
        while mom.address != way(preferred):
            numbers = range(sent, sent + 50)
            await asyncio.gather(*(mom.send(f"/queue/{queue}", b"%d" % number) for number in numbers))
            sent = numbers.stop
            if starting.done() and not returned:
                returned = time.monotonic()
            assert not returned or time.monotonic() - returned < patient(5)
        await starting
        await mom.send(f"/queue/{queue}", "there")
        assert depth(preferred, queue) > 0
    assert depth(preferred, queue) + depth(broker, queue) == sent + 1
    assert events == ["closing", "closed", "reconnected", "closing", "closed"]


async def test_waits_between_sweeps(start_broker: StartBroker) -> None:
    """AF-T06. They are exact in virtual time (`test_failover_client`); here the machine may add some."""
    broker = start_broker()
    times: list[float] = []

    def note(event: mom_client.ConnectionEvent) -> None:
        if event.kind in ("closed", "reconnect failed") and not event.final:
            times.append(time.monotonic())

    options = "initialReconnectDelay=100&maxReconnectDelay=1000&maxReconnectAttempts=6"
    url = f"failover:({tcp(broker)})?{options}"
    async with mom_client.connect(url, login=broker.user, passcode=broker.password, listener=note) as mom:
        await mom.send("/queue/a", "1")
        broker.kill()
        with pytest.raises(mom_client.ConnectionLost, match="6 attempts"):
            await mom.send("/queue/a", "2")
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    wanted = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(waits) == len(wanted)
    for wait, least in zip(waits, wanted, strict=True):
        assert least - 0.01 <= wait <= least + patient(max(0.2 * least, 0.1)), waits


async def test_sends_fail_in_time_and_the_client_lives_on(start_broker: StartBroker) -> None:
    """AF-T08"""
    broker = start_broker()
    async with connect(broker, options="timeout=3000&maxReconnectDelay=100") as mom:
        await mom.send("/queue/a", "1")
        broker.kill()
        await until(lambda: not mom.connected)
        began = time.monotonic()
        with pytest.raises(mom_client.ConnectionLost, match="no connection for 3 s"):
            await mom.send("/queue/a", "2")
        assert 3.0 <= time.monotonic() - began <= 3.0 + patient(0.5)
        await asyncio.to_thread(broker.start)
        await mom.send("/queue/a", "3")
    assert depth(broker, "a") == 2


async def test_dedup_ids_harm_nothing(broker: BrokerProcess) -> None:
    """Sends to temporary queues, delayed ones, replies, transactions and forwarded messages."""
    queue = f"/queue/{uuid.uuid4()}"
    async with connect(broker, options="") as mom, mom.subscribe(queue) as messages:
        async with asyncio.timeout(patient(20)):

            async def serve() -> None:
                request = await messages.get()
                await request.reply("yes")
                await request.ack()

            serving = asyncio.create_task(serve())
            assert (await mom.request(queue, "well?")).text == "yes"
            await serving
            await mom.send(queue, "late", delay_s=0.05)
            assert (await messages.get()).text == "late"
            await mom.send(f"/topic/{uuid.uuid4()}", "unheard")
            async with mom.transaction() as tx:
                await tx.send(queue, "both")
            assert (await messages.get()).text == "both"
            await mom.send(mom.destination("q", store_and_forward=True, broker="other"), "forwarded")


@pytest.mark.parametrize("size", [100_001, 30_000_000])
@pytest.mark.parametrize("way", [tcp, websocket])
async def test_a_message_that_is_too_large_is_refused_and_the_client_goes_on(
    start_broker: StartBroker, way: Callable[[BrokerProcess], str], size: int
) -> None:
    """AF-P12 of the specification."""
    broker = start_broker("--max-body-bytes", "100000")
    async with connect(broker, options="maxReconnectDelay=100", way=way) as mom:
        for _ in range(2):
            async with asyncio.timeout(patient(20)):
                with pytest.raises(mom_client.Refused, match="too-large"):
                    await mom.send("/queue/a", bytes(size))
                await mom.send("/queue/a", b"small enough")
    assert depth(broker, "a") == 2
