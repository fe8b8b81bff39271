"""Faults of members in a row under load: what is promised is there, repeats are marked, one takes over.

Clients of all members send with receipts, receive and acknowledge. Two members at a time are killed, paused
beyond their lease and resumed, or cut off from the store.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.features.cluster.report import TakeoverReport
from broker_app.features.enhanced_cluster.registry import Registry, registry_name
from broker_app.storage.factory import store_at
from tests.enhanced_cluster.members import LEASE_S, MemberProcess, Members
from tests.mirror.test_takeover_storm import Ledger
from tests.support.account import working
from tests.support.patience import patient
from tests.support.proxy import Proxy, proxy
from tests.support.stores import STORES, Stores

pytestmark = pytest.mark.process

#: with each store; of them a third is of each way
FAULTS = int(os.environ.get("FAULTS", "5"))
_WAYS = ("kill", "pause", "cut")
_MEMBERS = 3
#: members that fail at a time
_AT_ONCE = 2
#: a short detection, and a lease that a busy machine renews in time
_TIMING = (
    *("--lease-s", str(min(6.0, patient(LEASE_S)))),
    *("--cluster-heartbeat-interval", "0.3", "--cluster-heartbeat-threshold", "2"),
    *("--cluster-monitor-interval", "0.2", "--cluster-monitor-threshold", "2"),
)


class Arena:
    """Members that have a way of their own to the store each, and the registry."""

    def __init__(self, members: Members, proxies: list[Proxy], registry: Registry) -> None:
        self.brokers = list(members)
        self._proxies = proxies
        self._registry = registry
        #: all takeovers so far by journal and epoch; the registry keeps the newest alone
        self._takeovers: dict[tuple[str, int], TakeoverReport] = {}

    def client(self, **options: Any) -> mom_client.Client:
        """A client of one member, that goes to another when that fails."""
        addresses = [f"stomp://{one.host}:{one.stomp_port}" for one in self.brokers]
        random.shuffle(addresses)
        broker = self.brokers[0]
        uri = f"failover:({','.join(addresses)})?maxReconnectDelay=100"
        return mom_client.connect(uri, login=broker.user, passcode=broker.password, **options)

    async def fail(self, ways: Sequence[str]) -> None:
        """Have as many members fail as there are ways, wait until others have taken over, and bring them
        back."""
        await self.start_all()
        numbers = random.sample(range(_MEMBERS), len(ways))
        others = [self.brokers[one] for one in range(_MEMBERS) if one not in numbers]
        async with working(self._keep(others)):
            await asyncio.gather(*map(self._fail, numbers, ways))
        await self.start_all()

    async def _keep(self, brokers: Sequence[MemberProcess]) -> None:
        """Bring back at once those that were too slow to renew their lease: or none would be left that could
        take over."""
        while True:
            await _start(brokers)
            await asyncio.sleep(0.1)

    async def _fail(self, number: int, way: str) -> None:
        broker, network = self.brokers[number], self._proxies[number]
        journal = self._journal_of(broker)
        before = self._last_takeover_of(journal)
        if way == "kill":
            broker.kill()
        elif way == "pause":
            os.kill(broker.pid, signal.SIGSTOP)
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
        await _start(self.brokers)

    def _journal_of(self, broker: MemberProcess) -> str:
        """The journal that a member serves as its own."""
        notes = [one.note for one in self._registry.read().journals if one.note.member == broker.data.name]
        return max(notes, key=lambda note: note.generation).journal

    def _last_takeover_of(self, journal: str) -> int:
        """The epoch that began with the last takeover of a journal, 0 without one."""
        done = [one.takeover for one in self._registry.read().takeovers if one.takeover.result == "complete"]
        self._takeovers.update(((one.journal, one.epoch), one) for one in done)
        return max((epoch for one, epoch in self._takeovers if one == journal), default=0)

    def took_s(self) -> list[float]:
        """Seconds from the suspicion to the end of each takeover."""
        found = self._takeovers.values()
        return [one.began + one.took_s - one.suspected for one in found if one.suspected is not None]

    def owners(self) -> Counter[str]:
        """The journals with their epochs that members have taken over, by their logs."""
        logs = "".join(broker.log_file.read_text() for broker in self.brokers)
        return Counter(" ".join(one) for one in re.findall(r"serves its journal (\S+) .* (epoch \d+)", logs))


async def _start(brokers: Sequence[MemberProcess]) -> None:
    for broker in brokers:
        if not broker.running:
            await asyncio.to_thread(broker.start)


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
        for broker in members:
            stack.callback(_end, broker)
            await asyncio.to_thread(broker.start)
        yield Arena(members, proxies, registry)


def _end(broker: MemberProcess) -> None:
    if broker.running:
        os.kill(broker.pid, signal.SIGCONT)
    broker.kill()


@pytest.mark.slow
@pytest.mark.timeout(patient(180 + 90 * FAULTS))
@pytest.mark.parametrize("kind", ["postgres", "redis"])
async def test_members_that_fail_in_a_row_lose_nothing_and_have_one_taker_each(
    kind: str, tmp_path: Path
) -> None:
    ways = [_WAYS[number % len(_WAYS)] for number in range(FAULTS)]
    random.shuffle(ways)
    ledgers = [Ledger(f"/queue/storm-{number}") for number in range(_MEMBERS)]
    with STORES[kind]() as stores:
        async with arena(tmp_path, stores) as field:
            async with working(*(one.receive(field) for one in ledgers)):
                async with working(*(one.send(field) for one in ledgers)):
                    for at in range(0, len(ways), _AT_ONCE):
                        await asyncio.sleep(random.uniform(0.1, 0.6))
                        await field.fail(ways[at : at + _AT_ONCE])
                await _until(lambda: all(one.promised <= one.seen for one in ledgers))
            took_s, owners = field.took_s(), field.owners()
    print(f"{kind}: {len(ways)} faults; suspicion to service {statistics.median(took_s):.2f} s (median), "
          f"{max(took_s):.2f} s at most")  # fmt: skip
    assert [journal for journal, number in owners.items() if number > 1] == []
    for one in ledgers:
        # A producer that has gone to another member has its messages in two journals, without a common order.
        # One that it has sent again is in both, and comes from the other one after its acknowledgement.
        assert [fault for fault in one.faults if "was not marked" in fault] == []
        assert len(one.promised) > 10 * len(ways)
        assert len(one.settled) > 2 * len(ways)
