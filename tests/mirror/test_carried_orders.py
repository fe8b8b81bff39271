"""The configuration, with orders of operators in it, on its way from a broker that hands over to the one that
takes over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_app.base.audit_actions import MIRRORS_SWITCHED_OVER
from broker_app.config import Config
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Grant, Holder
from broker_app.journal.stores.directory.store import FileStore
from broker_app.management.shared_broker import SharedBroker
from broker_app.members.membership import Member
from broker_app.net.auth.login import Logins
from broker_app.net.operator_audit import API, Operator, OperatorActions
from broker_app.net.rest.node.mirror_status import STANDBY
from broker_app.net.server.listeners import bound
from broker_app.node.process import Process, Site
from tests.support.patience import patient
from tests.support.small_node import policy_of


class Running(NamedTuple):
    """A process that runs until the end of the block, and what it has reached."""

    process: Process
    stands_by: asyncio.Event
    serves: asyncio.Event


@asynccontextmanager
async def running(place: Path, role: int, **site: Any) -> AsyncIterator[Running]:
    """A broker whose journal is in a directory, with these parts of its site."""
    config = Config(data=place / "data", name="B1", role=role, journal=f"file:{place}", port=0, stomp_port=0)
    logins = Logins(policy_of(users={"anna": ()}), lambda given, expected: given == expected)
    stands_by, serves = asyncio.Event(), asyncio.Event()
    parts = {"app": lambda _: no_site, "follow": for_ever, "keep": for_ever, **site}
    with bound(config) as listeners:
        shared = SharedBroker.of(config, listeners)
        assert shared is not None
        process = Process(*(config, logins, Site(**parts)), lambda _: serves.set(), lambda _: stands_by.set())
        async with asyncio.timeout(patient(20)), asyncio.TaskGroup() as group:
            group.create_task(process.run_shared(listeners, shared.mirror, shared.replicator()))
            yield Running(process, stands_by, serves)
            process._stop.set()
        process.stop_watch.finish()


async def no_site(scope: object, receive: object, send: object) -> None:
    """Answer nothing."""


async def for_ever(_: object) -> None:
    await asyncio.Event().wait()


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


async def test_it_is_read_while_the_journal_is_taken_over_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path, "B1")
    active = SharedJournal(store, Holder("main"), lease_s=60.0, call_soon_threadsafe=at_once)
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
    async with running(tmp_path, -1, refresh=refresh) as mirror:
        await mirror.stands_by.wait()
        active.close()
        await mirror.serves.wait()
    assert len(times) == 1


async def test_orders_are_written_when_the_broker_begins_to_hand_over(tmp_path: Path) -> None:
    #: whether the engine ran, and the keys of the orders
    written: list[tuple[bool, list[str]]] = []
    served = asyncio.get_running_loop().create_future()

    async def keep(actions: OperatorActions) -> None:
        node = await served
        try:
            await asyncio.Event().wait()
        finally:
            keys = [action.key for action in actions.take(last=True)]
            written.append((node.engine.ended is None, keys))

    async with running(tmp_path, 1, keep=keep) as broker:
        await broker.serves.wait()
        node = broker.process._node
        assert node is not None
        served.set_result(node)
        await asyncio.sleep(0)
        node.actions.note(Operator("anna", None, API, None), MIRRORS_SWITCHED_OVER, "B1")
        node.hand_over(Member("mirror", -1, STANDBY, "", ()))
        while not written:
            await asyncio.sleep(0)
    assert written == [(True, ["B1"]), (False, [])]
