"""A storm over a cluster: clients at all brokers, while brokers are killed and stopped and links are cut.

`python -m tests.cluster.storm SEED` repeats one and shows what it does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import mom_client
from tests.cluster.conftest import SECRET
from tests.support.account import broker_may_end, client, working
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.patience import patient
from tests.support.ports import reserve_ports
from tests.support.proxy import Proxy, proxy

#: seconds of a SIGSTOP or of a silent network that links survive, and of one that they do not
_SHORT_S, _LONG_S = 0.4, 6.5
#: seconds between what a producer sends to one destination and to the next
_PAUSE_S = 0.01 if "SOAK" in os.environ else 0.1
QUEUES = ("/queue/orders", "/queue/bills")
TOPIC = "/topic/news"
DURABLE, SHARED = "archive", "workers"


@contextmanager
def _former_place_may_stand() -> Iterator[None]:
    """Passes over the refusal of a durable subscription whose last consumer, at another broker, is not known
    to have left; `mom_client` tries again by itself where it reconnects."""
    try:
        yield
    except mom_client.Refused as refused:
        if refused.code != "conflict":
            raise


class Sent(NamedTuple):
    """A message: its number at one producer, over one broker."""

    producer: str
    broker: str
    number: int

    @staticmethod
    def read(body: bytes) -> Sent:
        producer, broker, number = body.decode().split()
        return Sent(producer, broker, int(number))


class Ledger:
    """Everything that was promised to the consumers of one destination, and what they saw."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.promised: set[Sent] = set()
        self.seen: Counter[Sent] = Counter()
        #: the id of each: another broker that had stored it, too, would deliver it with an id of its own
        self.ids: dict[Sent, str] = {}
        #: where each was seen without a mark, and when
        self.unmarked: dict[Sent, str] = {}
        self.acked: set[Sent] = set()
        self.faults: list[str] = []

    @property
    def missing(self) -> set[Sent]:
        return self.promised - self.acked

    def consumer(self, who: str) -> Consumer:
        return Consumer(self, who)


class Consumer:
    """One subscription: what it is delivered for the first time is in the order in which it was sent."""

    def __init__(self, ledger: Ledger, who: str) -> None:
        self._ledger = ledger
        self._who = who
        self._last: dict[tuple[str, str], int] = {}

    def note(self, message: mom_client.Message) -> Sent:
        """Check a delivery against those before it."""
        sent, ledger = Sent.read(message.body), self._ledger
        here = f"{asyncio.get_running_loop().time():.2f} {self._who}"
        if ledger.ids.setdefault(sent, message.id) != message.id:
            ledger.faults.append(
                f"{ledger.name}: {sent} has two owners: it came at {here} with the id {message.id}, "
                f"before with {ledger.ids[sent]}"
            )
        if not message.redelivered:
            # Of two deliveries one is marked. The other may be looked at later: a consumer kept it whose
            # broker has lost its link.
            if sent in ledger.unmarked:
                ledger.faults.append(
                    f"{ledger.name}: {sent} came again at {here} and was not marked; "
                    f"before at {ledger.unmarked[sent]}"
                )
            ledger.unmarked[sent] = here
            source = sent.producer, sent.broker
            if sent.number < self._last.get(source, -1):
                ledger.faults.append(f"{ledger.name}: {sent} came at {here} behind {self._last[source]}")
            self._last[source] = sent.number
        ledger.seen[sent] += 1
        return sent


class Storm:
    def __init__(self, seed: int, brokers: list[NodeProcess], proxies: list[Proxy], trace: bool) -> None:
        self.random = Random(seed)
        self._brokers = brokers
        self._proxies = proxies
        self._trace = trace
        names = (*QUEUES, f"{TOPIC} {DURABLE}", f"{TOPIC} {SHARED}")
        self._ledgers = {name: Ledger(name) for name in names}
        self._settling = False
        self.done: Counter[str] = Counter()

    # ------------------------------------------------------------------ clients

    async def produce(self, number: int) -> None:
        """Send to all destinations, from now on over another broker whenever a connection breaks."""
        name, sent = f"p{number}", 0
        random = Random(number)
        at = number
        while True:
            broker = self._brokers[at % len(self._brokers)]
            with broker_may_end():
                async with client(broker) as mom:
                    for _ in range(random.randint(10, 200)):
                        for target in (*QUEUES, TOPIC):
                            await asyncio.sleep(_PAUSE_S)
                            batch = [
                                Sent(name, broker.name, sent + one) for one in range(random.randint(1, 6))
                            ]
                            sent += len(batch)
                            await self._send(mom, target, batch)
            at += random.randint(0, 1)
            await asyncio.sleep(0.05)

    async def _send(self, mom: mom_client.Client, target: str, batch: list[Sent]) -> None:
        ledgers = [ledger for name, ledger in self._ledgers.items() if name.startswith(target)]
        answers = [mom.send_nowait(target, " ".join(map(str, one))) for one in batch]
        found = await asyncio.gather(*answers, return_exceptions=True)
        for sent, error in zip(batch, found, strict=True):
            if error is None:
                for ledger in ledgers:
                    ledger.promised.add(sent)
        for error in found:
            if error is not None:
                raise error

    async def consume(self, number: int, ledger: Ledger, at: int, target: str, **options: Any) -> None:
        """Take what comes and acknowledge most of it, at another broker after each end."""
        random = Random(-number)
        slow = number % 4 == 0
        while True:
            broker = self._brokers[at % len(self._brokers)]
            credit = 50 if self._settling else random.choice((1, 5, 50))
            consumer = ledger.consumer(f"{broker.name} (consumer {number})")
            with broker_may_end(), _former_place_may_stand():
                async with (
                    client(broker) as mom,
                    mom.subscribe(target, credit=credit, **options) as messages,
                ):
                    stays = random.randint(50, 1_000)
                    async for message in messages:
                        sent = consumer.note(message)
                        chance = 1.0 if self._settling else random.random()
                        if chance < 0.005:
                            await message.nack()
                        elif chance > 0.01:
                            await message.ack()
                            ledger.acked.add(sent)
                        stays -= 1
                        if not stays and not self._settling:
                            break
                        if slow and not self._settling:
                            await asyncio.sleep(0.02)
            at += 1
            await asyncio.sleep(0.02)

    def producers(self) -> list[Any]:
        return [self.produce(at) for at in range(len(self._brokers))]

    def consumers(self) -> list[Any]:
        """Those of all destinations, at all brokers."""
        running, number = [], 0
        for target, ledger in self._ledgers.items():
            options: dict[str, Any] = {}
            if target in QUEUES:
                many = len(self._brokers) + 1
            elif target.endswith(DURABLE):
                many, options["durable"] = 1, DURABLE
            else:
                many, options = 2, {"durable": SHARED, "shared": True}
            for at in range(many):
                number += 1
                running.append(self.consume(number, ledger, at, target.split()[0], **options))
        return running

    async def make_subscriptions(self) -> None:
        """Have all brokers keep what is published from now on."""
        async with (
            client(self._brokers[0]) as mom,
            mom.subscribe(TOPIC, durable=DURABLE),
            mom.subscribe(TOPIC, durable=SHARED, shared=True),
        ):
            for broker in self._brokers:
                await _holds(lambda broker=broker: self._has_subscriptions(broker))  # type: ignore[misc]

    async def _has_subscriptions(self, broker: NodeProcess) -> str:
        found = {one["name"] for one in (await _get(broker, "/subscriptions"))["items"]}
        return "" if {DURABLE, SHARED} <= found else f"{broker.name} has only {found}"

    # ------------------------------------------------------------------ what happens to brokers

    async def blow(self, ways: list[str]) -> None:
        """Do to random brokers what `ways` names, in random order."""
        self.random.shuffle(ways)
        for way in ways:
            at = self.random.randrange(len(self._brokers))
            self._say(f"{way} {self._brokers[at].name}")
            await getattr(self, f"_{way}")(self._brokers[at], self._proxies[at])
            self.done[way] += 1
            await asyncio.sleep(self.random.uniform(0.1, 0.7))

    def _say(self, what: str) -> None:
        if self._trace:
            print(f"{asyncio.get_running_loop().time():.2f} {what}", flush=True)

    async def _kill(self, broker: NodeProcess, _: Proxy) -> None:
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(self.random.choice((0.0, 0.3, 1.2)))
        await asyncio.to_thread(broker.start)

    async def _stop(self, broker: NodeProcess, _: Proxy, seconds: float = _SHORT_S) -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    async def _stop_long(self, broker: NodeProcess, network: Proxy) -> None:
        await self._stop(broker, network, _LONG_S)

    async def _cut(self, _: NodeProcess, network: Proxy) -> None:
        network.cut()

    async def _away(self, _: NodeProcess, network: Proxy) -> None:
        network.accepts = False
        network.cut()
        await asyncio.sleep(self.random.uniform(0.5, 2.5))
        network.heal()

    async def _silence(self, _: NodeProcess, network: Proxy, seconds: float = _SHORT_S) -> None:
        for way in self.random.choice(((network.out,), (network.back,), (network.out, network.back))):
            way.hold()
        await asyncio.sleep(seconds)
        network.heal()

    async def _silence_long(self, broker: NodeProcess, network: Proxy) -> None:
        await self._silence(broker, network, _LONG_S)

    # ------------------------------------------------------------------ the end

    async def settle(self) -> None:
        """Wait until everything was delivered and every broker knows it."""
        self._settling = True
        async with working(*self.consumers()):
            await _holds(self._unsettled, say=self._say)

    async def _unsettled(self) -> str:
        for ledger in self._ledgers.values():
            if ledger.missing:
                return f"{ledger.name}: {len(ledger.missing)} missing, as {sorted(ledger.missing)[:3]}"
        for broker in self._brokers:
            for queue in (await _get(broker, "/queues"))["items"]:
                if queue["depth"] or queue["unsettled"]:
                    return f"{broker.name}: {queue}"
            for one in (await _get(broker, "/subscriptions"))["items"]:
                if one["backlog"] or one["unsettled"]:
                    return f"{broker.name}: {one}"
            for link in (await _get(broker, "/cluster"))["links"]:
                if link["state"] != "up" or link["unsettled_there"] or link["unsettled_here"]:
                    return f"{broker.name}: {link}"
        return ""

    def check(self) -> None:
        """Raise AssertionError with what went wrong."""
        faults = [fault for ledger in self._ledgers.values() for fault in ledger.faults]
        for broker in self._brokers:
            wrong = [line for line in broker.log.splitlines() if "ERROR" in line or "Traceback" in line]
            faults += [f"log of {broker.name}: {line}" for line in wrong[:5]]
        assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:20])

    def summary(self) -> str:
        counts = [
            f"{one.name}: {len(one.promised)} promised, {one.seen.total() - len(one.seen)} repeats"
            for one in self._ledgers.values()
        ]
        return "; ".join([*counts, str(dict(self.done))])


async def _get(broker: NodeProcess, path: str) -> Any:
    async with broker.rest() as http:
        return (await http.get(path)).raise_for_status().json()


async def _holds(
    fault: Callable[[], Awaitable[str]], deadline_s: float = 15.0, say: Callable[[str], object] = str
) -> None:
    """Wait until there is no fault; fails with one that has been there for so long."""
    clock = asyncio.get_running_loop().time
    before, deadline = "", 0.0
    while found := await fault():
        if found != before:
            say(found[:300])
            before, deadline = found, clock() + patient(deadline_s)
        assert clock() < deadline, found
        await asyncio.sleep(0.1)


@asynccontextmanager
async def networked(nodes: Nodes, number: int) -> AsyncIterator[tuple[list[NodeProcess], list[Proxy]]]:
    """A cluster of brokers that reach each other through proxies, one before each."""
    ports = reserve_ports(number)
    async with AsyncExitStack() as opened:
        proxies = [await opened.enter_async_context(proxy(port)) for port in ports]
        addresses = tuple(f"127.0.0.1:{one.port}" for one in proxies)
        brokers = [
            nodes.node(
                f"b{at}",
                cluster_port=port,
                cluster_host=f"127.0.0.1:{one.port}",
                cluster=addresses,
                cluster_secret=SECRET,
            )
            for at, (port, one) in enumerate(zip(ports, proxies, strict=True), 1)
        ]
        for broker in brokers:
            await asyncio.to_thread(broker.start)
        yield brokers, proxies


async def storm(seed: int, folder: Path, number: int, ways: list[str], *, trace: bool = False) -> Storm:
    """Blow storm number `seed` over so many brokers."""
    with nodes_in(folder) as nodes:
        async with networked(nodes, number) as (brokers, proxies):
            made = Storm(seed, brokers, proxies, trace)
            await made.make_subscriptions()
            async with working(*made.producers(), *made.consumers()):
                await made.blow(ways)
            await made.settle()
            made.check()
            return made


#: what happens in one storm, in `make test` and with SOAK
FEW = ["kill", "kill", "stop", "cut", "away"]
MANY = ["kill"] * 30 + ["stop", "stop_long"] * 5 + ["cut", "away", "silence"] * 6 + ["silence_long"] * 2

if __name__ == "__main__":
    number, ways = (5, MANY) if "SOAK" in os.environ else (3, FEW)
    with tempfile.TemporaryDirectory() as made:
        blown = asyncio.run(storm(int(sys.argv[1]), Path(made), number, ways, trace=True))
        print(blown.summary())
