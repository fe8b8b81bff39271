"""An enhanced cluster whose PostgreSQL fails over to a streaming replica under load: its members go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import mom_client
from broker_app.features.enhanced_cluster.registry import Registry, registry_name
from broker_app.storage.factory import store_at
from tests.enhanced_cluster.members import MemberProcess, Members, linked, running
from tests.mirror.test_takeover_storm import Ledger
from tests.support.account import working
from tests.support.awaiting import becomes
from tests.support.patience import patient
from tests.support.postgres import Postgres, postgres_pair

pytestmark = pytest.mark.process

#: longer than the promotion takes: a member that cannot renew its lease for so long stops
LEASE_S = patient(10.0)


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    with postgres_pair(synchronous_standby_names="r1") as servers:
        yield servers


class Clients:
    """The clients of one member."""

    def __init__(self, broker: MemberProcess) -> None:
        self._broker = broker

    def client(self) -> mom_client.Client:
        return self._broker.stomp()


async def _grown(ledgers: list[Ledger], by: int) -> None:
    """Wait until each has so many more receipts."""
    wanted = [len(one.promised) + by for one in ledgers]
    async with asyncio.timeout(patient(60)):
        while any(len(one.promised) < number for one, number in zip(ledgers, wanted, strict=True)):
            await asyncio.sleep(0.02)


async def test_members_go_on_while_their_database_fails_over(
    pair: tuple[Postgres, Postgres], tmp_path: Path
) -> None:
    primary, replica = pair
    url = (
        f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{replica.port}/postgres"
        "?target_session_attrs=read-write"
    )
    with running(Members(tmp_path, url, 2, "--lease-s", str(LEASE_S))) as members:
        b1, b2 = members
        await becomes(lambda: linked(b1), ["b2"])
        ledgers = [Ledger(f"/queue/failover-{at}") for at in range(2)]
        # Each queue has its producer at one member and its consumer at the other.
        async with working(ledgers[0].receive(Clients(b2)), ledgers[1].receive(Clients(b1))):
            async with working(ledgers[0].send(Clients(b1)), ledgers[1].send(Clients(b2))):
                await _grown(ledgers, 100)
                began = time.monotonic()
                await asyncio.to_thread(primary.kill)
                await asyncio.to_thread(replica.promote)
                promoted = time.monotonic()
                # More than what was confirmed before the end of the primary, and is on its way.
                await _grown(ledgers, 100)
                served = time.monotonic()
            async with asyncio.timeout(patient(60)):
                while any(one.promised - one.seen for one in ledgers):
                    await asyncio.sleep(0.02)
        registry = Registry(store_at(url, registry_name("shop")))
        try:
            takeovers = registry.read().takeovers
        finally:
            registry.close()
        assert (takeovers, b1.running, b2.running) == ([], True, True)
    print(
        f"from the end of the primary: promoted after {promoted - began:.2f} s, each member has confirmed "
        f"100 more messages after {served - began:.2f} s"
    )
    assert served - promoted < patient(5.0)
    for one in ledgers:
        assert one.faults == []
