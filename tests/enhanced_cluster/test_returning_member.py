"""Members that come back: to a journal that another has taken over, and after they died as takers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker_app.features.cluster.report import TakeoverReport
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, registry_name
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at
from tests.enhanced_cluster.members import Members, running
from tests.support.awaiting import until
from tests.support.broker_process import ROOT
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


def test_journals_that_a_broker_held_when_it_died_are_given_back_by_reset(tmp_path: Path) -> None:
    with redis_server() as server:
        registry = Registry(store_at(server.url, registry_name("shop")))
        own, other = (store_at(server.url, f"shop.{name}") for name in ("b1", "b2"))
        try:
            for store in (own, other):
                store.acquire(Holder("b1"), 600.0)
            registry.write(
                JournalNote(
                    journal="shop.b2",
                    member="b2",
                    generation=0,
                    holder="b1",
                    address="b1:7676",
                    state="serving",
                )
            )
            registry.write_takeover(
                TakeoverReport(member="b2", journal="shop.b2", taker="b1", epoch=1, why="", began=1.0)
            )
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "broker_app.cli", "up", "-reset", "takeover-then-exit"),
                    *("--name", "b1", "--cluster-id", "shop", "--cluster-port", "0", "--port", "0"),
                    *("--stomp-port", "0", "--journal", server.url, "--data", str(tmp_path / "b1")),
                ],
                cwd=ROOT,
                env={"MOM_CLUSTER_SECRET": "a secret of the cluster in this test", "PATH": "/usr/bin"},
                capture_output=True,
                text=True,
                timeout=patient(60),
            )
            assert (done.returncode, done.stdout.strip()) == (
                0,
                "shop.b2 is free: another member takes it over",
            ), done.stderr
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
