"""Stores that fail in the middle of a commit: answers lost, connections cut, servers killed and restarted."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from broker_app.core.outcome import Outcome
from broker_app.journal.errors import JournalFailed
from broker_app.journal.shared.shared_journal import SharedJournal, stored_batch
from broker_app.journal.store import Fenced, Holder, Store
from broker_app.journal.stores.postgres import PostgresStore
from broker_app.journal.stores.redis import RedisStore
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.postgres import Postgres, postgres_pair, postgres_server
from tests.support.proxy import Proxy, proxy
from tests.support.redis import Redis, redis_pair, redis_server

HOLDER = Holder("one:8000", "stomp://one:61613")
NUMBERS = itertools.count()
pytestmark = pytest.mark.process
KINDS = ("postgres", "redis")


def store_at(kind: str, port: int, name: str, sessions: str = "read-write") -> Store:
    if kind == "postgres":
        options = f"target_session_attrs={sessions}"
        return PostgresStore(f"postgresql://postgres@127.0.0.1:{port}/postgres?{options}", name)
    return RedisStore(f"redis://127.0.0.1:{port}", name)


class Committer:
    """Commits batches with one record each, and remembers which were confirmed."""

    def __init__(self, journal: SharedJournal) -> None:
        self.journal = journal
        self.confirmed: list[bytes] = []
        self._position = 0

    async def open(self) -> None:
        """Open the journal, which is empty."""
        # In a thread: the proxy to the store is in the loop.
        self._position = (await asyncio.to_thread(self.journal.open)).next_position
        assert await asyncio.to_thread(list, self.journal.replay()) == []
        self.journal.set_live_positions([])

    async def run(self) -> None:
        """Commit until cancelled."""
        for number in itertools.count():
            await self.commit(b"%d" % number)

    async def more(self, count: int) -> None:
        """Wait until so many more commits are confirmed."""
        goal = len(self.confirmed) + count
        await until(lambda: len(self.confirmed) >= goal)

    async def commit(self, record: bytes) -> None:
        batch = Outcome(self._position, time.time_ns() // 1000)
        batch.parts, batch.count, batch.published = [record], 1, [self._position]
        self._position += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def confirm(error: BaseException | None) -> None:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.journal.commit(batch, confirm)
        await done
        self.confirmed.append(record)


class Site:
    """A journal that reaches its server through a proxy, and a direct store that checks what is there."""

    def __init__(self, kind: str, server: Postgres | Redis, between: Proxy, lease_s: float) -> None:
        self.name = f"f{next(NUMBERS)}"
        self.kind = kind
        self.proxy = between
        self.direct = store_at(kind, server.port, self.name)
        loop = asyncio.get_running_loop()
        journal = SharedJournal(
            store_at(kind, between.port, self.name),
            HOLDER,
            lease_s=lease_s,
            segment_bytes=100_000,
            call_soon_threadsafe=loop.call_soon_threadsafe,
        )
        self.committer = Committer(journal)

    def redirect(self, server: Postgres | Redis) -> None:
        """Have another server answer at the address of the first."""
        self.proxy.target_port = server.port
        self.direct.release()
        self.direct = store_at(self.kind, server.port, self.name)

    def stored(self) -> list[bytes]:
        """The records in the server, in order; each frame must be whole."""
        found = []
        for frame in self.direct.frames(1):
            batch = stored_batch(frame)
            assert batch is not None
            found.append(batch.records)
        return found


@pytest.fixture(params=KINDS)
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    server: Postgres | Redis = request.getfixturevalue(request.param)
    async with site_at(request.param, server) as made:
        yield made


@asynccontextmanager
async def site_at(kind: str, server: Postgres | Redis, lease_s: float = 60.0) -> AsyncIterator[Site]:
    async with proxy(server.port) as between:
        made = Site(kind, server, between, lease_s)
        try:
            await made.committer.open()
            yield made
        finally:
            between.heal()
            await asyncio.to_thread(made.committer.journal.close)
            made.direct.release()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patient(30)):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


def has_batches(replica: Store) -> bool:
    try:
        return any(replica.frames(1))
    except JournalFailed:  # it has not received the tables yet
        return False


async def test_a_commit_whose_answer_is_lost_is_stored_once_and_confirmed(site: Site) -> None:
    await site.committer.commit(b"before")
    site.proxy.back.drops = True
    commit = asyncio.create_task(site.committer.commit(b"answer lost"))
    await until(lambda: len(site.stored()) == 2)
    await asyncio.sleep(0)
    assert not commit.done()
    site.proxy.back.drops = False
    site.proxy.cut()
    await commit
    await site.committer.commit(b"after")
    assert site.stored() == [b"before", b"answer lost", b"after"]


async def test_a_commit_that_is_cut_off_halfway_is_stored_whole(site: Site) -> None:
    await site.committer.commit(b"before")
    large = random.randbytes(3_000_000)
    site.proxy.out.rate = 2_000_000
    start = site.proxy.out.passed
    commit = asyncio.create_task(site.committer.commit(large))
    await until(lambda: site.proxy.out.passed > start + 500_000)
    site.proxy.cut()
    site.proxy.out.rate = 0
    await commit
    assert site.stored() == [b"before", large]


async def test_commits_through_a_bad_network_are_stored_once_and_in_order(site: Site) -> None:
    async def spoil() -> None:
        while True:
            await asyncio.sleep(random.uniform(0.01, 0.1))
            direction = random.choice((site.proxy.out, site.proxy.back))
            direction.drops = random.random() < 0.5
            await asyncio.sleep(random.uniform(0, 0.05))
            site.proxy.cut()
            direction.drops = False

    network = asyncio.create_task(spoil())
    try:
        async with asyncio.timeout(patient(60)):
            for number in range(300):
                await site.committer.commit(b"%d" % number * random.randrange(1, 2000))
    finally:
        network.cancel()
    site.proxy.heal()
    assert site.stored() == site.committer.confirmed
    statistics = site.committer.journal.statistics()
    assert (statistics["commits"], statistics["live_records"]) == (300, 300)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_killed_and_restarted_has_all_that_it_confirmed(kind: str) -> None:
    with postgres_server() if kind == "postgres" else redis_server() as server:
        async with site_at(kind, server) as site:
            commits = asyncio.create_task(site.committer.run())
            for _ in range(3):
                await site.committer.more(30)
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(random.uniform(0, 0.2))
                await asyncio.to_thread(server.start)
            await site.committer.more(30)
            commits.cancel()
            stored = await asyncio.to_thread(site.stored)
            assert stored[: len(site.committer.confirmed)] == site.committer.confirmed
            assert len(stored) <= len(site.committer.confirmed) + 1
            assert site.committer.journal.is_held


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["cut", "silence"])
async def test_a_store_that_is_lost_for_longer_than_the_lease_ends_the_journal(
    kind: str, fault: str, request: pytest.FixtureRequest
) -> None:
    async with site_at(kind, request.getfixturevalue(kind), lease_s=0.5) as site:
        await site.committer.commit(b"before")
        journal = site.committer.journal
        lost: list[JournalFailed] = []
        journal.on_lease_lost(lost.append)
        if fault == "cut":
            site.proxy.accepts = False
            site.proxy.cut()
        else:
            site.proxy.out.hold()
        commit = asyncio.create_task(site.committer.commit(b"too late"))
        await until(lambda: not journal.is_held)
        if fault == "cut":
            await until(lambda: lost)
            assert "the lease of the journal expired before it could be renewed" in str(lost[0])
        began = time.monotonic()
        await asyncio.to_thread(journal.close)
        assert time.monotonic() - began < 3
        with pytest.raises(JournalFailed, match="could not be stored while the lease lasted"):
            await commit
        site.proxy.cut()
        site.proxy.heal()
        assert site.stored() == [b"before"]


def set_read_only(server: Postgres, value: str) -> None:
    """Have transactions write nothing, as when a provider's disk is full."""
    server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    server.execute("SELECT pg_reload_conf()")
    poll(lambda: server.execute("SHOW default_transaction_read_only") == [(value,)])


async def test_a_postgres_that_takes_no_writes_for_a_while_is_waited_for() -> None:
    with postgres_server() as server:
        async with site_at("postgres", server) as site:
            await site.committer.commit(b"before")
            await asyncio.to_thread(set_read_only, server, "on")
            statistics = site.committer.journal.statistics
            before = statistics()["store_reconnects"]
            commit = asyncio.create_task(site.committer.commit(b"later"))
            await until(lambda: statistics()["store_reconnects"] > before)
            assert not commit.done()
            await asyncio.to_thread(set_read_only, server, "off")
            await commit
            assert site.stored() == [b"before", b"later"]


@pytest.mark.process
async def test_a_promoted_replica_that_is_synchronous_continues_where_its_primary_ended() -> None:
    with postgres_pair(synchronous_standby_names="r1") as (primary, replica):
        async with site_at("postgres", primary) as site:
            commits = asyncio.create_task(site.committer.run())
            await site.committer.more(50)
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(replica.promote)
            site.redirect(replica)
            await site.committer.more(50)
            commits.cancel()
            stored = await asyncio.to_thread(site.stored)
            assert stored[: len(site.committer.confirmed)] == site.committer.confirmed


@pytest.mark.parametrize("kind", KINDS)
async def test_a_promoted_replica_without_the_last_batches_is_noticed_at_once(kind: str) -> None:
    with postgres_pair() if kind == "postgres" else redis_pair() as (primary, replica):
        async with site_at(kind, primary) as site:
            await site.committer.commit(b"replicated")
            other = store_at(kind, replica.port, site.name, "any")
            await until(partial(has_batches, other))
            other.release()
            await asyncio.to_thread(replica.kill)
            await site.committer.commit(b"on the primary alone")
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(replica.start)
            await asyncio.to_thread(replica.promote)
            site.redirect(replica)
            with pytest.raises(
                JournalFailed, match="has lost batches before position 3, which the store had"
            ):
                await site.committer.commit(b"after the failover")
            assert site.stored() == [b"replicated"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_replica_that_grants_an_epoch_again_does_not_accept_the_former_holder(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    former, other = (store_at(kind, server.port, f"again-{kind}") for _ in range(2))
    epoch = former.acquire(HOLDER, 30).epoch
    # What a replica shows that has not received this grant.
    if kind == "postgres":
        server.execute(f'UPDATE "mom_journal_again-{kind}".lease SET epoch = {epoch - 1}')
    else:
        server.client.hset(f"{{mom:journal:again-{kind}}}:lease", "epoch", epoch - 1)
    assert other.acquire(Holder("two:8000"), 30, force=True).epoch == epoch
    with pytest.raises(Fenced, match="two:8000"):
        former.append(1, 1, 1, b"late")
    former.release()
    other.append(1, 1, 1, b"in time")
    other.release()
