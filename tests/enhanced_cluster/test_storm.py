"""Faults of members in a row under load: what is promised is there, repeats are marked, one takes over.

Each member has clients that send with receipts, receive and acknowledge, and come back to it. Two members at
a time are killed, paused beyond their lease and resumed, cut off from the store, or have a silent network to
it. A probe asks who serves which journal meanwhile. Other queues have no consumer while members fail, and are
drained over one connection after that: so what was taken over has to come in its order.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

import mom_client
from broker_app.features.cluster.report import TakeoverReport
from broker_app.features.enhanced_cluster.registry import Registry, registry_name
from broker_app.storage.factory import store_at
from tests.enhanced_cluster.members import LEASE_S, MemberProcess, Members
from tests.enhanced_cluster.owners import OwnersProbe
from tests.enhanced_cluster.storm_ledger import Backlog, StormLedger
from tests.support.account import working
from tests.support.broker_process import BrokerFailed
from tests.support.patience import patient
from tests.support.proxy import Proxy, proxy
from tests.support.samples import sample
from tests.support.stores import STORES, Stores

pytestmark = pytest.mark.process

FAULTS = int(os.environ.get("FAULTS", "4"))
#: of nine faults
_WAYS = ("kill", "pause", "cut", "kill", "silence", "kill", "pause", "kill", "kill")
_MEMBERS = 3
#: stores that are reached over a network
_SERVERS = ("postgres", "redis")
#: members that fail at a time
_AT_ONCE = 2
#: a short detection, and a lease that a busy machine renews in time
_TIMING = (
    *("--lease-s", str(min(6.0, patient(LEASE_S)))),
    *("--cluster-heartbeat-interval", "0.3", "--cluster-heartbeat-threshold", "2"),
    *("--cluster-monitor-interval", "0.2", "--cluster-monitor-threshold", "2"),
)


class Home:
    """The clients of one member."""

    def __init__(self, arena: Arena, number: int) -> None:
        self._arena = arena
        self._number = number

    def client(self) -> mom_client.Client:
        return self._arena.client_of(self._number)


class Arena:
    """Members that have a way of their own to the store each, and the registry."""

    def __init__(
        self, members: Members, proxies: list[Proxy], registry: Registry, probe: OwnersProbe
    ) -> None:
        self.brokers = list(members)
        self.probe = probe
        self._proxies = proxies
        self._registry = registry
        #: of each client, whether it is connected to its member
        self._at_home: list[Callable[[], bool]] = []
        #: all takeovers so far by journal and epoch; the registry keeps the newest alone
        self._takeovers: dict[tuple[str, int], TakeoverReport] = {}

    def client_of(self, number: int) -> mom_client.Client:
        """A client of one member: it goes to another when that fails, and comes back to it."""
        addresses = [f"stomp://{one.host}:{one.stomp_port}" for one in self.brokers]
        home = addresses.pop(number)
        options = "maxReconnectDelay=100&randomize=false&priorityBackup=true"
        uri = f"failover:({','.join([home, *addresses])})?{options}"
        broker = self.brokers[number]
        client = mom_client.connect(uri, login=broker.user, passcode=broker.password)
        self._at_home.append(lambda: client.connected and client.address == home)
        return client

    @asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        """All members run for the length of a `with` block, and their clients are connected to them at its
        beginning."""
        async with working(self._keep(self.brokers)):
            await _until(lambda: all(is_at_home() for is_at_home in self._at_home))
            yield

    async def fail(self, ways: Sequence[str]) -> None:
        """Have as many members fail as there are ways, each with its clients, wait until others have taken
        over, and bring them back."""
        async with self.settled():
            pass
        numbers = random.sample(range(_MEMBERS), len(ways))
        others = [self.brokers[one] for one in range(_MEMBERS) if one not in numbers]
        async with working(self._keep(others)):
            await asyncio.gather(*map(self._fail, numbers, ways))
        await self.start_all()

    async def _keep(self, brokers: Sequence[MemberProcess]) -> None:
        """Bring back at once those that were too slow to renew their lease: or none might be left that could
        take over."""
        while True:
            await self._start(brokers)
            await asyncio.sleep(0.1)

    async def _fail(self, number: int, way: str) -> None:
        broker, network = self.brokers[number], self._proxies[number]
        journal = self._journal_of(broker)
        before = self._last_takeover_of(journal)
        if way == "kill":
            broker.kill()
        elif way == "pause":
            os.kill(broker.pid, signal.SIGSTOP)
        elif way == "silence":
            network.out.hold()
            network.back.hold()
        else:
            network.accepts = False
            network.cut()
        # Not just any journal of this member: another one may still have served an older one.
        await _until(lambda: self._last_takeover_of(journal) > before)
        if way == "pause":
            os.kill(broker.pid, signal.SIGCONT)
        await _until(lambda: not broker.running)
        network.heal()

    async def start_all(self) -> None:
        """Start those that have ended."""
        await self._start(self.brokers)

    async def _start(self, brokers: Sequence[MemberProcess]) -> None:
        """Start those that have ended, again if one was too slow to renew its lease while it started."""
        for broker in brokers:
            while not broker.running:
                try:
                    await asyncio.to_thread(broker.start)
                except BrokerFailed as failed:
                    if "the lease of the journal expired" not in str(failed):
                        raise
                else:
                    await asyncio.to_thread(self.probe.started, broker)

    def _journal_of(self, broker: MemberProcess) -> str:
        """The journal that a member serves as its own."""
        notes = [one.note for one in self._registry.read().journals if one.note.member == broker.data.name]
        return max(notes, key=lambda note: note.generation).journal

    def _last_takeover_of(self, journal: str) -> int:
        """The epoch that began with the last takeover of a journal, 0 without one."""
        done = [one.takeover for one in self._registry.read().takeovers if one.takeover.result == "complete"]
        self._takeovers.update(((one.journal, one.epoch), one) for one in done)
        return max((epoch for one, epoch in self._takeovers if one == journal), default=0)

    def of_messages(self) -> int:
        """The number of takeovers of journals that had messages."""
        return sum(one.messages > 0 for one in self._takeovers.values())

    def took_s(self) -> list[float]:
        """Seconds from the suspicion to the end of each takeover."""
        found = self._takeovers.values()
        return [one.began + one.took_s - one.suspected for one in found if one.suspected is not None]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(60)):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def arena(folder: Path, stores: Stores) -> AsyncIterator[Arena]:
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(proxy(stores.port)) for _ in range(_MEMBERS)]
        urls = [stores.url(one.port) for one in proxies]
        members = Members(folder, urls, _MEMBERS, *_TIMING)
        registry = Registry(store_at(stores.url(), registry_name("shop")))
        stack.callback(registry.close)
        probe = OwnersProbe(list(members), registry, partial(store_at, stores.url()))
        stack.callback(probe.close)
        found = Arena(members, proxies, registry, probe)
        for broker in members:
            stack.callback(_end, broker)
        await found.start_all()
        yield found


def _end(broker: MemberProcess) -> None:
    if broker.running:
        os.kill(broker.pid, signal.SIGCONT)
    broker.kill()


@asynccontextmanager
async def backlogs_of(homes: Sequence[Home]) -> AsyncIterator[list[Backlog]]:
    """A queue of each member that no consumer takes from for a while, with a client."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(home.client()) for home in homes]
        yield [Backlog(f"/queue/backlog-{number}", mom=client) for number, client in enumerate(clients)]


@asynccontextmanager
async def filled(backlogs: Sequence[Backlog]) -> AsyncIterator[None]:
    """Send to these queues for the length of a `with` block: each has some messages at its beginning, and all
    receipts at its end."""
    enough = asyncio.Event()
    await asyncio.gather(*(one.send_window(one.mom) for one in backlogs))
    async with asyncio.TaskGroup() as group:
        for one in backlogs:
            group.create_task(one.fill(enough))
        try:
            yield
        finally:
            enough.set()


@pytest.mark.slow
@pytest.mark.timeout(patient(180 + 90 * FAULTS))
@pytest.mark.parametrize("kind", sample(_SERVERS, 1))
async def test_members_that_fail_in_a_row_lose_nothing_and_have_one_taker_each(
    kind: str, tmp_path: Path
) -> None:
    ways = random.sample(_WAYS * (1 + FAULTS // len(_WAYS)), FAULTS)
    with STORES[kind]() as stores:
        async with arena(tmp_path, stores) as found:
            homes = [Home(found, number) for number in range(_MEMBERS)]
            ledgers = [StormLedger(f"/queue/storm-{number}") for number in range(_MEMBERS)]
            pairs = list(zip(ledgers, homes, strict=True))
            async with (
                backlogs_of(homes) as backlogs,
                working(found.probe.run(), *(one.receive(home) for one, home in pairs)),
            ):
                async with working(*(one.send(home) for one, home in pairs)):
                    for at in range(0, len(ways), _AT_ONCE):
                        async with filled(backlogs):
                            await asyncio.sleep(random.uniform(0.1, 0.6))
                            await found.fail(ways[at : at + _AT_ONCE])
                        async with found.settled():
                            await asyncio.gather(*(one.drain() for one in backlogs))
                await _until(lambda: all(one.promised <= one.seen for one in ledgers))
            took_s, of_messages, probe = found.took_s(), found.of_messages(), found.probe
    print(f"{kind}: {len(ways)} faults; suspicion to service {statistics.median(took_s):.2f} s (median), "
          f"{max(took_s):.2f} s at most; {len(probe.takers)} takeovers seen by the probe, "
          f"{of_messages} of journals with messages")  # fmt: skip
    assert probe.faults() == []
    assert len(probe.takers) >= len(ways)
    assert 3 * of_messages >= len(ways), "too few journals had messages to show anything"
    for one in (*ledgers, *backlogs):
        assert one.all_faults() == []
    for one in ledgers:
        assert len(one.unmarked) > len(one.promised) / 4, "too few were in order to show anything"
        assert len(one.promised) > 10 * len(ways)
        assert len(one.settled) > 2 * len(ways)
    in_order = sum(one.in_order for one in backlogs)
    assert in_order > 10 * len(ways), "too few of those that were taken over came over one connection"
