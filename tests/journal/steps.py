"""Threads of journals that go on one step at a time, in an order that chance chooses: greenlets.

A thread pauses before each call of its store, or of the system. So whatever another one does, or another
broker, may come between any two of them. A transaction of PostgreSQL is one step, since it holds
locks for which others would wait.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import greenlet
import psycopg
import pytest
import redis
from psycopg.pq import TransactionStatus

from broker_app.journal.files import Files
from broker_app.journal.log import (
    compaction,
    cursors,
    log_reader,
    log_writer,
    reader,
    segment_pool,
    snapshot_writer,
)
from broker_app.journal.shared import frame_reader, shared_journal, upkeep
from broker_app.journal.store import Store, Unreachable
from broker_app.journal.stores.postgres import PostgresStore
from broker_app.journal.stores.redis import RedisStore
from broker_app.journal.worker import CallSoon

from .stage import QuickSystem

_WITH_WORKERS = (
    compaction,
    cursors,
    frame_reader,
    log_reader,
    log_writer,
    reader,
    segment_pool,
    shared_journal,
    snapshot_writer,
    upkeep,
)
#: calls of the system that others may come before; the rest changes nothing that they see
_SEEN = ("fdatasync", "open", "pread", "pwritev", "rename", "unlink")
_Report = Callable[[Any, Exception | None], None]
#: connections of PostgreSQL that none has now, by the kind of their work
Kept = defaultdict[str, list[psycopg.Connection[Any]]]
_EMPTY = """
DELETE FROM batch;
DELETE FROM snapshot;
DELETE FROM note;
UPDATE lease SET epoch = 0, holder = '', address = '', expires_at = '-infinity';
"""


def pause() -> None:
    """Let others go on, in a thread of a `Worker`; elsewhere nothing happens."""
    loop = greenlet.getcurrent().parent
    if loop is not None:
        loop.switch()


class Stopped(Exception):
    """Raised in place of the step at which everything was to stop."""


class Steps:
    """Loops and threads, of which one goes one step further at a time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        #: steps until `Stopped` is raised
        self.stop_in = -1
        self._going: list[Loop | Worker] = []
        self._left = 20_000

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Have the threads of journals that are made from now on go on in steps."""
        for module in _WITH_WORKERS:
            patch.setattr(module, "Worker", self.worker)
        patch.setattr(upkeep, "COPY_INTERVAL_S", 0.0)
        patch.setattr(reader, "AT_ONCE_BYTES", 0)
        patch.setattr(Files.__init__, "__defaults__", (SteppedSystem(),))

    def loop(self) -> Loop:
        """The loop of another broker."""
        loop = Loop()
        self._going.append(loop)
        return loop

    def worker(self, name: str, call_soon_threadsafe: CallSoon | None) -> Worker:
        """Stand in for `journal.worker.Worker`."""
        assert call_soon_threadsafe is not None
        worker = Worker(name, call_soon_threadsafe)
        self._going.append(worker)
        return worker

    def works(self, name: str) -> bool:
        """Return whether a thread of this name has something to do."""
        return any(isinstance(one, Worker) and one.name == name and one.is_busy for one in self._going)

    def step(self) -> bool:
        """Let one of them do what it has to do next; False when none has anything to do."""
        self._left -= 1
        assert self._left, "they go on for ever"
        if not self.stop_in:
            raise Stopped
        self.stop_in -= 1
        going = self.chance.choice(self._going)
        if not going.is_busy:
            busy = [one for one in self._going if one.is_busy]
            if not busy:
                return False
            going = self.chance.choice(busy)
        going.step()
        return True

    def wait(self, condition: Callable[[], bool]) -> None:
        """Go on until a condition is true."""
        while not condition():
            assert self.step(), "none goes on, and what is waited for never comes"

    def finish(self) -> None:
        """Go on until none has anything to do."""
        while self.step():
            pass


class Loop:
    """The loop of a broker; each report of its threads is a step."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()

    def call_soon_threadsafe(self, report: Callable[..., object], *arguments: object) -> None:
        """Have `report` called."""
        self._due.append(partial(report, *arguments))

    @property
    def is_busy(self) -> bool:
        return bool(self._due)

    def step(self) -> None:
        """Call what was reported first."""
        self._due.popleft()()


class Worker:
    """A thread that goes on to its next pause, or to the end of its job, when it is asked to."""

    def __init__(self, name: str, call_soon: CallSoon) -> None:
        self.name = name
        self._call_soon = call_soon
        self._jobs: deque[tuple[Callable[[], Any], _Report]] = deque()
        self._thread: greenlet.greenlet | None = None

    def submit(self, job: Callable[[], Any], report: _Report) -> None:
        """See `journal.worker.Worker.submit`."""
        self._jobs.append((job, report))

    @property
    def is_busy(self) -> bool:
        return self._thread is not None or bool(self._jobs)

    def step(self) -> None:
        """Let the thread go on."""
        thread = self._thread or greenlet.greenlet(self._run)
        thread.parent = greenlet.getcurrent()  # where it pauses to
        thread.switch()
        self._thread = None if thread.dead else thread

    def close(self) -> None:
        """See `journal.worker.Worker.close`."""
        while self.is_busy:
            self.step()

    def _run(self) -> None:
        job, report = self._jobs.popleft()
        try:
            outcome: tuple[Any, Exception | None] = job(), None
        except Exception as error:
            outcome = None, error
        self._call_soon(report, *outcome)


class SteppedSystem(QuickSystem):
    """`os`, with a pause before each call that others could see, and without the waiting for disks."""

    def __getattr__(self, name: str) -> Any:
        call = super().__getattr__(name)
        return partial(_after_pause, call) if name in _SEEN else call

    def fdatasync(self, fd: int) -> None:
        pause()


def _after_pause(call: Callable[..., Any], *arguments: Any) -> Any:
    pause()
    return call(*arguments)


class SteppedRedis(RedisStore):
    """A store that pauses before each command. It has the connections of `clients`, for long commands and for
    short ones."""

    def __init__(self, url: str, journal: str, clients: tuple[redis.Redis, redis.Redis]) -> None:
        super().__init__(url, journal)
        self._client, self._short = clients

    @contextmanager
    def _answering(self) -> Iterator[None]:
        pause()
        with super()._answering():
            yield


class RedisJournals:
    """Journals in Redis, each with keys of its own, over the same connections: to make these, and to ask for
    the settings of the server, takes half as many requests as an order."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}?durability=unchecked"
        self._pools = [redis.ConnectionPool.from_url(url) for _ in range(2)]

    def store(self, journal: str) -> SteppedRedis:
        """A store of the journal of this name."""
        long, short = (redis.Redis(connection_pool=pool) for pool in self._pools)
        return SteppedRedis(self._url, journal, (long, short))

    def close(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            pool.disconnect()


class SteppedPostgres(PostgresStore):
    """A store that pauses before each transaction. Its connections come from `kept`, and go back there."""

    def __init__(self, url: str, journal: str, kept: Kept) -> None:
        super().__init__(url, journal)
        self._kept = kept

    @contextmanager
    def _connected(self, work: str) -> Iterator[psycopg.Connection[Any]]:
        pause()
        with super()._connected(work) as connection:
            yield connection

    def _connect(self, work: str) -> psycopg.Connection[Any]:
        kept = self._kept[work]
        return kept.pop() if kept else super()._connect(work)

    def _drop(self, work: str) -> None:
        connection = self._connections.get(work)
        if connection is not None and connection.info.transaction_status is TransactionStatus.IDLE:
            self._kept[work].append(self._connections.pop(work))
        super()._drop(work)


class PostgresJournals:
    """Journals in PostgreSQL, one after the other in the same tables and over the same connections: to make
    these costs ten times what an order does. `schema` is the name of the tables."""

    def __init__(self, url: str, schema: str) -> None:
        self._url = url
        self._schema = schema
        self._kept = Kept(list)
        self._journal = ""

    def store(self, journal: str) -> SteppedPostgres:
        """A store of the journal of this name. That of another name before it is gone; it is closed."""
        if journal != self._journal:
            self._journal = journal
            for connection in self._kept["lease"][:1]:  # none before the first journal
                connection.execute(_EMPTY)
        return SteppedPostgres(self._url, self._schema, self._kept)

    def close(self) -> None:
        """Close the connections."""
        for kept in self._kept.values():
            for connection in kept:
                connection.close()


class Flaky:
    """A store whose answers get lost now and then, when what was asked for is done."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def carry(self, *replaced: Any) -> None:
        """Carry, and fail in three of ten times."""
        self._store.carry(*replaced)
        if self._chance.random() < 0.3:
            raise Unreachable("the answer was lost")
