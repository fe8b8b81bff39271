"""The configuration of the broker that served before, read by one that takes over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_app.config import Config
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Grant, Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.management.shared_broker import SharedBroker
from broker_app.net.auth.login import Logins
from broker_app.net.server.listeners import bound
from broker_app.node.process import Process, Site
from tests.support.patience import patient
from tests.support.small_node import policy_of


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


async def for_ever(_: object) -> None:
    await asyncio.Event().wait()


async def test_it_is_read_while_the_journal_is_taken_over_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = SharedJournal(
        FileStore(tmp_path, "B1"), Holder("main"), lease_s=60.0, call_soon_threadsafe=at_once
    )
    active.open()
    active.set_live_positions([])
    read, acquire = threading.Event(), FileStore.acquire
    times: list[None] = []

    def acquire_when_it_is_read(store: FileStore, *arguments: Any, **options: Any) -> Grant:
        assert read.wait(patient(10))
        return acquire(store, *arguments, **options)

    def refresh() -> None:
        times.append(None)
        read.set()

    monkeypatch.setattr(FileStore, "acquire", acquire_when_it_is_read)
    config = Config(
        data=tmp_path / "data", name="B1", role=-1, journal=f"file:{tmp_path}", port=0, stomp_port=0
    )
    logins = Logins(policy_of(users={"anna": ()}), lambda given, expected: given == expected)
    stands_by, serves = asyncio.Event(), asyncio.Event()
    with bound(config) as listeners:
        shared = SharedBroker.of(config, listeners)
        assert shared is not None
        process = Process(
            *(config, logins, Site(app=lambda _: no_site, follow=for_ever, keep=for_ever, refresh=refresh)),
            *(_setting(serves), _setting(stands_by)),
        )
        running = asyncio.create_task(process.run_shared(listeners, shared.mirror, shared.replicator()))
        async with asyncio.timeout(patient(20)):
            await stands_by.wait()
            active.close()
            await asyncio.wait(
                {running, asyncio.create_task(serves.wait())}, return_when=asyncio.FIRST_COMPLETED
            )
            process._stop.set()
            await running
    assert len(times) == 1


async def no_site(scope: object, receive: object, send: object) -> None:
    """Answer nothing."""


def _setting(event: asyncio.Event) -> Callable[[object], None]:
    return lambda _: event.set()
