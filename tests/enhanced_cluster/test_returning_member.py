"""Members that come back: to a journal that another has taken over, and after they died as takers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from broker_app.features.cluster.report import TakeoverReport
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, registry_name
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.members import QUEUE, Members, running
from tests.support.awaiting import until
from tests.support.broker_process import ROOT, BrokerFailed
from tests.support.forked import Forked
from tests.support.patience import patient
from tests.support.redis import redis_server

pytestmark = pytest.mark.process


async def test_a_member_whose_journal_is_taken_over_while_it_starts_begins_with_the_next_one(
    tmp_path: Path,
) -> None:
    brokers = ("--cluster", "127.0.0.1:1,127.0.0.1:2")
    with redis_server() as server, running(Members(tmp_path, server.url, 1, *brokers)) as members:
        (b1,) = members
        assert "the list of brokers 127.0.0.1:1,127.0.0.1:2 (cluster) is ignored" in b1.log
        b1.kill()
        store = store_at(server.url, "shop.b1")
        registry = Registry(store_at(server.url, registry_name("shop")))
        try:
            store.acquire(Holder("a member that takes over"), 600.0, force=True)
            b1.start(standby=True)
            registry.set_generation("b1", 1)
            await until(lambda: "begins with a new journal" in b1.log, 30.0)
            await until(lambda: " serves as the active one" in b1.log, 30.0)
            assert {seen.note.journal for seen in registry.read().journals} == {"shop.b1", "shop.b1.1"}
        finally:
            store.release()
            registry.close()


async def test_a_member_waits_for_its_taker_for_a_bounded_time_and_goes_on_when_the_takeover_was_aborted(
    tmp_path: Path,
) -> None:
    url = f"file:{tmp_path / 'shared'}"
    with running(Members(tmp_path, url, 1, "--cluster-takeover-wait", "3")) as members:
        (b1,) = members
        async with b1.stomp() as producer:
            await producer.send(QUEUE, b"1")
        b1.kill()
        store = store_at(url, "shop.b1")
        registry = Registry(store_at(url, registry_name("shop")))
        try:
            registry.write(a_note("b2", "b2"))
            store.acquire(Holder("b2"), 600.0, force=True)
            gave_up = "b2 has been taking over the journal of this broker for 3 s"
            with pytest.raises(BrokerFailed, match=gave_up):
                await asyncio.to_thread(b1.start)
            starting = asyncio.create_task(asyncio.to_thread(b1.start))
            waits = "this broker is being taken over by b2"
            await until(lambda: b1.log_file.read_text().count(waits) == 2)
            store.release()
            await starting
            assert b1.log_file.read_text().count(waits) == 2, "once at each start"
            # It need not wait longer: the lease is its own again, and a taker that went on would be refused.
            assert {seen.note.journal for seen in registry.journals()} == {"shop.b1", "shop.b2"}
            assert registry.generation("b1") == 0
            async with b1.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
                assert bodies(await take(messages, 1)) == [b"1"]
        finally:
            store.release()
            registry.close()


def a_note(member: str, holder: str) -> JournalNote:
    """A note about the first journal of a member."""
    return JournalNote(
        journal=f"shop.{member}",
        member=member,
        generation=0,
        holder=holder,
        address=f"{holder}:7676",
        state="serving",
    )


def test_journals_that_a_broker_held_when_it_died_are_given_back_by_reset(tmp_path: Path) -> None:
    with redis_server() as server:
        registry = Registry(store_at(server.url, registry_name("shop")))
        own, other = (store_at(server.url, f"shop.{name}") for name in ("b1", "b2"))
        try:
            for store in (own, other):
                store.acquire(Holder("b1"), 600.0)
            registry.write(a_note("b2", "b1"))
            registry.write_takeover(
                TakeoverReport(member="b2", journal="shop.b2", taker="b1", epoch=1, why="", began=1.0)
            )
            command = [
                *(sys.executable, "-m", "broker_app.cli", "up", "-reset", "takeover-then-exit"),
                *("--name", "b1", "--cluster-id", "shop", "--cluster-port", "0", "--port", "0"),
                *("--stomp-port", "0", "--journal", server.url, "--data", str(tmp_path / "b1")),
            ]
            environment = {"MOM_CLUSTER_SECRET": "a secret of the cluster in this test", "PATH": "/usr/bin"}
            pipe = subprocess.PIPE
            with Forked(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as done:
                out, err = done.communicate(timeout=patient(60))
            assert (done.returncode, out) == (0, "shop.b2 is free: another member takes it over\n"), err
            freed, kept = other.lease(), own.lease()
            assert freed is not None
            assert freed.is_released
            assert kept is not None
            assert not kept.is_released, "its own journal is no other's"
            content = registry.read()
            assert [seen.note.state for seen in content.journals] == ["stopped"]
            assert [seen.takeover.result for seen in content.takeovers] == ["failed"]
        finally:
            own.release()
            other.release()
            registry.close()
