"""Takeovers in a row under load: nothing promised is lost, repeats are marked, and never two brokers serve.

A failover client sends with receipts, others receive and acknowledge, half of it with receipts. A receipt
promises that a message will be there, or that it will not come again once it was acknowledged. Nothing is
rejected, so nothing may become a dead letter. The holder is killed, paused beyond its lease and resumed, cut
off from the store, left without answers of the store, or stopped, in random order. In `make soak`, clients
that follow a broker of a quiet machine get at least 2,000 receipts a second.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

import mom_client
from tests.support.account import working
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import LEASE_S, Mirrors, Probe, mirrors_in, serves, status
from tests.support.patience import SLOWNESS, patient
from tests.support.proxy import Proxy, proxy
from tests.support.samples import sample
from tests.support.stores import STORES, Stores

pytestmark = pytest.mark.process

#: in ways that differ from commit to commit
TAKEOVERS = int(os.environ.get("TAKEOVERS", "3"))
QUEUES, WINDOW = 3, 20
#: seconds between the windows of a producer: at full speed, a storm computes as long as it takes
_PAUSE_S = 0.005 if "SOAK" in os.environ else 0.15
#: receipts a second while a broker serves, where that is asked for: at full speed, by a machine that is quiet
_RATE = 2_000 if "SOAK" in os.environ and SLOWNESS < 1.2 else 0
#: one message in so many is not acknowledged before the next takeover
_FORGOTTEN = 100
#: of which a consumer has so many: its broker may be one that never fails, and its credit would be used up
_CREDIT, _MOST_FORGOTTEN = 50, 20
#: one that a busy machine renews in time
_LEASE_S = min(6.0, patient(LEASE_S))
_WAYS = ("kill", "pause", "cut", "silence", "stop")
#: ways that need a network between broker and store
_NETWORK = ("cut", "silence")


class Clients(Protocol):
    """Makes clients of brokers that fail."""

    def client(self) -> mom_client.Client:
        """A client that follows the broker that serves."""


@dataclass
class Ledger:
    """The messages of one queue: numbers in the order in which they were sent."""

    queue: str
    sent: int = 0
    promised: set[int] = field(default_factory=set)
    #: numbers that were received, and those whose acknowledgement was confirmed
    seen: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    repeats: int = 0
    last_new: int = -1
    #: a message of this number or a later one ends a wait, which sets the time (monotonic)
    awaited: int = 0
    arrived_at: float = 0.0
    faults: list[str] = field(default_factory=list)

    async def send(self, mirrors: Clients) -> None:
        """Send until cancelled."""
        async with mirrors.client() as mom:
            while True:
                await self.send_window(mom)
                await asyncio.sleep(_PAUSE_S)

    async def send_window(self, mom: mom_client.Client) -> None:
        """Send the next messages, and wait for their receipts."""
        numbers = range(self.sent, self.sent + WINDOW)
        self.sent = numbers.stop
        receipts = [self.submit(mom, number) for number in numbers]
        found = await asyncio.gather(*receipts, return_exceptions=True)
        self.promised.update(one for one, error in zip(numbers, found, strict=True) if error is None)

    def submit(self, mom: mom_client.Client, number: int) -> asyncio.Future[None]:
        """Send one message; returns its receipt."""
        return mom.send_nowait(self.queue, str(number))

    async def receive(self, mirrors: Clients) -> None:
        """Receive until cancelled."""
        async with (
            mirrors.client() as mom,
            mom.subscribe(self.queue, credit=_CREDIT) as messages,
            asyncio.TaskGroup() as acknowledgements,
        ):
            forgotten: deque[mom_client.Message] = deque()
            async for message in messages:
                number = int(message.body)
                is_new = number not in self.seen
                self.note(message)
                if is_new and number % _FORGOTTEN == 0:
                    forgotten.append(message)
                    if len(forgotten) <= _MOST_FORGOTTEN:
                        continue
                    message = forgotten.popleft()
                acknowledgements.create_task(self.acknowledge(message))

    async def acknowledge(self, message: mom_client.Message) -> None:
        """Acknowledge a message; every second one is settled when that was confirmed."""
        is_confirmed = int(message.body) % 2 == 0
        with suppress(mom_client.ClientError):
            await message.ack(confirm=is_confirmed)
            if is_confirmed:
                self.settle(message)

    def settle(self, message: mom_client.Message) -> None:
        """Note that the acknowledgement of a message was confirmed."""
        self.settled.add(int(message.body))

    def await_next(self) -> None:
        """Wait for a message that is not sent yet."""
        self.awaited, self.arrived_at = self.sent, 0.0

    def note(self, message: mom_client.Message) -> None:
        """Check a delivery against those before it."""
        number = int(message.body)
        if number in self.settled:
            self.faults.append(f"{number} came again after its acknowledgement was confirmed")
        if number in self.seen:
            self.repeats += 1
            if not message.redelivered:
                self.faults.append(f"{number} came again and was not marked")
        elif number < self.last_new:
            self.faults.append(f"{number} came for the first time behind {self.last_new}")
        if number >= self.awaited and not self.arrived_at:
            self.arrived_at = time.monotonic()
        self.last_new = max(self.last_new, number)
        self.seen.add(number)


@dataclass
class Load:
    """How many receipts came while a broker served."""

    ledgers: list[Ledger]
    receipts: int = 0
    seconds: float = 0.0

    async def run(self, seconds: float) -> None:
        """Let the clients work for so long, and count."""
        before, began_at = self._promised, time.monotonic()
        await asyncio.sleep(seconds)
        self.receipts += self._promised - before
        self.seconds += time.monotonic() - began_at

    @property
    def rate(self) -> float:
        """Receipts a second."""
        return self.receipts / self.seconds

    @property
    def _promised(self) -> int:
        return sum(len(one.promised) for one in self.ledgers)


class Arena:
    """Two brokers, each with a way of its own to the store."""

    def __init__(self, mirrors: Mirrors, proxies: list[Proxy], brokers: list[BrokerProcess]) -> None:
        self.mirrors = mirrors
        self.proxies = proxies
        self.brokers = brokers
        #: seconds from each SIGKILL until a message came that was sent after it
        self.gaps: list[float] = []

    def _stand_by(self) -> int | None:
        """Start what has ended: the last holder, or one that could not renew its lease on a busy machine.
        Returns the number of the holder when the other one is on standby."""
        for broker in self.brokers:
            if not broker.running:
                broker.start(standby=True)
        for number, broker in enumerate(self.brokers):
            with suppress(OSError):
                if serves(broker) and any(one["state"] == "standby" for one in status(broker)["brokers"]):
                    return number
        return None

    async def holder(self) -> int:
        """The number of the holder, once the other one is on standby."""
        async with asyncio.timeout(patient(60)):
            while (number := await asyncio.to_thread(self._stand_by)) is None:
                await asyncio.sleep(0.02)
        return number

    async def kill(self, ledgers: list[Ledger]) -> None:
        """Kill the holder and bring it back, as `take_over` does, and measure how long no message came."""
        began_at = 0.0

        def killed() -> None:
            nonlocal began_at
            began_at = time.monotonic()
            for one in ledgers:
                one.await_next()

        await self.take_over("kill", killed)
        await _until(lambda: any(one.arrived_at for one in ledgers))
        self.gaps.append(min(one.arrived_at for one in ledgers if one.arrived_at) - began_at)

    async def take_over(self, way: str, killed: Callable[[], None] = lambda: None) -> None:
        """End the holder in a way, wait until the other one serves, and bring the first one back. `killed` is
        called when it was."""
        number = await self.holder()
        holder, proxy, other = self.brokers[number], self.proxies[number], self.brokers[1 - number]
        if way == "kill":
            holder.kill()
            killed()
        elif way == "stop":
            await asyncio.to_thread(holder.terminate)
        elif way == "pause":
            os.kill(holder.pid, signal.SIGSTOP)
        elif way == "silence":
            proxy.out.hold()
            proxy.back.hold()
        else:
            proxy.accepts = False
            proxy.cut()
        await _until(lambda: serves(other))
        if way == "pause":
            os.kill(holder.pid, signal.SIGCONT)
        if way in ("pause", *_NETWORK):
            await _until(lambda: not holder.running)
            proxy.heal()
        await self.holder()

    async def dead_letters(self) -> dict[str, int]:
        """How many dead letters wait, by queue."""
        path = "/api/v1/queues?q=*.dead&fields=name,depth"
        reply = await asyncio.to_thread(self.brokers[await self.holder()].request, "GET", path)
        assert reply.status == 200, reply.body
        return {one["name"]: one["depth"] for one in reply.json()["items"] if one["depth"]}

    @property
    def takeovers(self) -> int:
        """How often a broker has taken over, or has started when no other one served, as their logs have
        it; not the first time."""
        logs = "".join(broker.log_file.read_text() for broker in self.brokers)
        return max(map(int, re.findall(r" (?:took over from|serves from now on).*epoch (\d+)", logs))) - 1


async def _until(condition: object, within_s: float = 30.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(patient(within_s)):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def arena(folder: Path, stores: Stores, name: str) -> AsyncIterator[Arena]:
    with mirrors_in(folder, name, stores.url(), _LEASE_S) as mirrors:
        async with proxy(stores.port) as one, proxy(stores.port) as other:
            proxies = [one, other]
            brokers = [mirrors.make(journal=stores.url(proxy.port)) for proxy in proxies]
            await asyncio.to_thread(brokers[0].start)
            await asyncio.to_thread(brokers[1].start, standby=True)
            yield Arena(mirrors, proxies, brokers)


@pytest.mark.slow
@pytest.mark.timeout(patient(120 + 60 * TAKEOVERS))
@pytest.mark.parametrize("kind", sample(STORES, 1))
async def test_takeovers_in_a_row_lose_nothing_and_never_let_two_brokers_serve(
    kind: str, processes: None, tmp_path: Path
) -> None:
    possible = [way for way in _WAYS if kind != "files" or way not in _NETWORK]
    random.shuffle(possible)
    ways = [possible[number % len(possible)] for number in range(TAKEOVERS)]
    ledgers = [Ledger(f"/queue/storm-{number}") for number in range(QUEUES)]
    load = Load(ledgers)
    with STORES[kind]() as stores:
        async with arena(tmp_path, stores, "storm") as field_:
            probe = Probe(field_.brokers)
            mirrors = field_.mirrors
            work = [one.send(mirrors) for one in ledgers]
            async with working(probe.run(), *(one.receive(mirrors) for one in ledgers)):
                async with working(*work):
                    for way in ways:
                        await load.run(random.uniform(0.1, 0.6))
                        await (field_.kill(ledgers) if way == "kill" else field_.take_over(way))
                await _until(lambda: all(one.promised <= one.seen for one in ledgers), 60)
            dead_letters = await field_.dead_letters()
    print(
        f"{kind}: {len(ways)} takeovers, {load.rate:,.0f} receipts a second between them, "
        f"{sum(len(one.promised) for one in ledgers):,} in all, {sum(one.repeats for one in ledgers):,} "
        f"messages came again, {sum(dead_letters.values())} dead letters"
    )
    if field_.gaps:
        median, largest = statistics.median(field_.gaps), max(field_.gaps)
        print(
            f"{kind}: {len(field_.gaps)} SIGKILLs, lease {_LEASE_S:g} s: first message after {median:.2f} s "
            f"(median), {largest:.2f} s at most"
        )
    for one in ledgers:
        assert one.faults == []
        assert len(one.promised) > 20 * len(ways)
        assert len(one.settled) > 5 * len(ways)
        assert one.repeats > 0, "the storm was too mild to show anything"
    assert dead_letters == {}
    assert load.rate >= _RATE
    for broker in field_.brokers:
        assert "internal error" not in broker.log_file.read_text()
    assert len(ways) <= probe.changes <= field_.takeovers
