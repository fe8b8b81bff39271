"""The tasks of a standby are supervised: one that fails is counted, and begins again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker_app.base.internal_errors import internal_errors
from broker_app.config import Config
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.management.shared_broker import SharedBroker
from broker_app.net.auth.login import Logins
from broker_app.net.server.listeners import bound
from broker_app.node.process import Process, Site
from tests.support.patience import patient
from tests.support.small_node import policy_of


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


async def test_a_task_of_a_standby_that_fails_is_counted_and_begins_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path, "B1")
    active = SharedJournal(store, Holder("main"), lease_s=60.0, call_soon_threadsafe=at_once)
    active.open()
    config = Config(
        data=tmp_path / "data", name="B1", role=-1, journal=f"file:{tmp_path}", port=0, stomp_port=0
    )
    starts: asyncio.Queue[None] = asyncio.Queue()
    stands_by = asyncio.Event()

    async def follow(adopt: Callable[..., object]) -> None:
        starts.put_nowait(None)
        if starts.qsize() < 2:
            raise LookupError("a fault of a standby")
        await asyncio.Event().wait()

    async def keep(actions: object) -> None:
        await asyncio.Event().wait()

    def nothing_serves(node: object) -> Any:
        raise AssertionError("the standby serves")

    logins = Logins(policy_of(users={"anna": ()}), lambda given, expected: given == expected)
    before = internal_errors.of("a background task")
    with bound(config) as listeners:
        shared = SharedBroker.of(config, listeners)
        assert shared is not None
        process = Process(
            config,
            logins,
            Site(app=nothing_serves, follow=follow, keep=keep),
            print,
            lambda ports: stands_by.set(),
        )
        running = asyncio.create_task(process.run_shared(listeners, shared.mirror, None))
        async with asyncio.timeout(patient(20)):
            await stands_by.wait()
            while starts.qsize() < 2:
                await asyncio.sleep(0.01)
        process._stop.set()
        await running
    assert internal_errors.of("a background task") == before + 1
    active.close()
