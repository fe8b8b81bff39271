"""A broker whose PostgreSQL fails over to a streaming replica."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.account import client
from tests.support.mirrors import is_followed, mirrors_in, serves, status, wait_until_serving
from tests.support.polling import poll
from tests.support.postgres import Postgres, postgres_pair, postgres_server

pytestmark = pytest.mark.process

#: longer than the promotion of a replica takes
LEASE_S = 10.0


def both(one: Postgres, other: Postgres) -> str:
    """The connection string of two servers, of which the one that takes writes is used."""
    return f"postgresql://postgres@127.0.0.1:{one.port},127.0.0.1:{other.port}/postgres"


async def test_a_broker_carries_on_while_its_database_fails_over(processes: None, tmp_path: Path) -> None:
    with (
        postgres_pair(synchronous_standby_names="r1") as (primary, replica),
        mirrors_in(tmp_path, "B", both(primary, replica), LEASE_S) as mirrors,
    ):
        broker = mirrors.make()
        await asyncio.to_thread(broker.start)
        async with client(broker) as mom:
            promised = []
            for number in range(300):
                if number == 100:
                    await asyncio.to_thread(primary.kill)
                    promotion = asyncio.create_task(asyncio.to_thread(replica.promote))
                await mom.send("/queue/orders", str(number))
                promised.append(number)
            await promotion
            async with mom.subscribe("/queue/orders", ack="auto") as messages:
                found = [int((await messages.get(10)).body) for _ in promised]
        assert found == promised


async def test_a_broker_says_so_when_its_database_has_lost_what_it_confirmed(
    processes: None, tmp_path: Path
) -> None:
    with (
        postgres_pair() as (primary, replica),
        mirrors_in(tmp_path, "B", both(primary, replica), LEASE_S) as mirrors,
    ):
        broker = mirrors.make()
        await asyncio.to_thread(broker.start)
        async with client(broker) as mom:
            await mom.send("/queue/orders", "replicated")
            position = "SELECT pg_current_wal_lsn() <= replay_lsn FROM pg_stat_replication"
            await asyncio.to_thread(poll, lambda: primary.execute(position) == [(True,)])
            await asyncio.to_thread(replica.kill)
            for _ in range(5):
                await mom.send("/queue/orders", "on the primary alone")
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(replica.start)
            await asyncio.to_thread(replica.promote)
            mom.send_nowait("/queue/orders", "after the failover").cancel()
            await asyncio.to_thread(poll, lambda: not broker.running)
        assert "has lost batches before position" in broker.log
        assert "a replica that is not synchronous; start this broker again" in broker.log
        await asyncio.to_thread(broker.start)
        poll(lambda: serves(broker))
        async with client(broker) as mom, mom.subscribe("/queue/orders") as messages:
            assert (await messages.get(10)).body == b"replicated"


def test_a_mirror_serves_on_when_the_store_has_lost_what_it_had_applied(
    processes: None, tmp_path: Path
) -> None:
    lease_s = 1.0
    with postgres_server() as server, mirrors_in(tmp_path, "B", server.url, lease_s) as mirrors:
        main, mirror = mirrors.pair()
        for body in (b"first", b"second"):
            main.request("POST", "/api/v1/queues/orders/messages", body, content_type="text/plain")
        poll(lambda: is_followed(main))
        main.kill()
        # What a promoted replica shows that was not synchronous: the last batch is missing.
        server.execute(
            'DELETE FROM "mom_journal_B".batch WHERE first_position = '
            '(SELECT max(first_position) FROM "mom_journal_B".batch)'
        )
        wait_until_serving(mirror)
        assert status(mirror)["takeovers"][0]["records_lost"] > 0
        assert "records of the journal that its store had confirmed" in mirror.log
        assert mirror.request("GET", "/api/v1/queues/orders").json()["depth"] == 1
        until = time.monotonic() + 3 * lease_s
        while time.monotonic() < until:  # its lease is renewed
            sent = mirror.request("POST", "/api/v1/queues/orders/messages", b"x", content_type="text/plain")
            assert sent.status in (201, 202), sent.body
