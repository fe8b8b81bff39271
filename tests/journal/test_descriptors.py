"""Files cannot be opened, mostly for want of descriptors: the journal has some of its own, and nothing ends
or is given up when those are gone, too."""

import asyncio
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import Envelope
from broker_app.engine import Engine
from broker_app.journal.errors import Busy
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from tests.support.listener import Listener
from tests.support.patience import patient

from .stage import Life, QuickSystem, published, quick_journal


class Crowded(QuickSystem):
    """`os` where others have taken all descriptors but `free`; closing one of the journal's makes another."""

    def __init__(self) -> None:
        self.free: int | None = None

    def open(self, *arguments: Any, **options: Any) -> int:
        if self.free is not None:
            if not self.free:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.free -= 1
        return os.open(*arguments, **options)

    def close(self, fd: int) -> None:
        if self.free is not None:
            self.free += 1
        os.close(fd)


def filled(directory: Path, system: QuickSystem) -> Life:
    """Six messages in as many segments, none of which is open, after a restart."""
    life = Life(quick_journal(directory, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.snapshot()
    life.close()
    again = Life(SegmentJournal(directory, segment_bytes=512, files=Files(directory, system)))
    again.restore(range(1, 7))
    return again


def test_when_no_file_can_be_opened_one_that_is_open_is_closed_for_it(tmp_path: Path) -> None:
    system = Crowded()
    life = filled(tmp_path, system)
    life.read([1])
    system.free = 0
    assert life.read([1, 2, 3, 4, 5, 6]) == [published(bytes(300))] * 6
    system.free = None
    life.close()


def test_reading_without_any_descriptor_is_to_be_tried_again(tmp_path: Path) -> None:
    system = Crowded()
    life = filled(tmp_path, system)
    system.free = 0
    life.journal._files.release_spare_descriptors()  # type: ignore[attr-defined]
    with pytest.raises(Busy, match="ulimit"):
        life.read([1])
    system.free = 1
    assert life.read([1]) == [published(bytes(300))]
    system.free = None
    life.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Others hold all that the system gives this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 32, before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in taken:
            os.close(fd)


class Refusing(QuickSystem):
    """`os` that opens nothing while `error` is set."""

    error = 0

    def open(self, *arguments: Any, **options: Any) -> int:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return os.open(*arguments, **options)


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EACCES, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE])
def test_a_file_that_cannot_be_read_now_is_not_taken_for_damaged(tmp_path: Path, error: int) -> None:
    system = Refusing()
    life = filled(tmp_path, system)
    system.error = error
    with pytest.raises(Busy):
        life.read(range(1, 7))
    system.error = 0
    assert life.read(range(1, 7)) == [published(bytes(300))] * 6
    life.close()


def test_a_directory_that_is_away_is_not_taken_for_damaged(tmp_path: Path) -> None:
    life = filled(tmp_path / "journal", QuickSystem())
    (tmp_path / "journal").rename(tmp_path / "away")
    with pytest.raises(Busy):
        life.read(range(1, 7))
    (tmp_path / "away").rename(tmp_path / "journal")
    assert life.read(range(1, 7)) == [published(bytes(300))] * 6
    life.close()


class Exhausted(QuickSystem):
    """`os` that opens nothing while `exhausted`, whatever is closed."""

    def __init__(self) -> None:
        self.exhausted = False

    def open(self, *arguments: Any, **options: Any) -> int:
        if self.exhausted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return os.open(*arguments, **options)


def node(directory: Path, system: Any = os) -> tuple[SegmentJournal, Engine]:
    call_soon = asyncio.get_running_loop().call_soon_threadsafe
    journal = SegmentJournal(
        directory, segment_bytes=64 * 1024, call_soon_threadsafe=call_soon, files=Files(directory, system)
    )
    engine = Engine(Broker(), journal)
    engine.recover()
    return journal, engine


async def backlog(directory: Path) -> None:
    """Messages of several segments that wait in a broker that was stopped."""
    journal, engine = node(directory)
    peer = Listener().peer
    for number in range(400):
        engine.submit(c.Publish(peer, [(Envelope("/queue/a"), b"%d " % number * 300, None)]))
        await engine.wait_idle()
    await engine.stop()
    journal.close()


async def taken_by(engine: Engine, client: Listener, count: int) -> None:
    async with asyncio.timeout(patient(60)):
        while len(client.bodies) < count:
            assert engine.ended is None
            await asyncio.sleep(0.01)


@pytest.mark.process
async def test_a_broker_whose_clients_hold_every_descriptor_goes_on(tmp_path: Path) -> None:
    await backlog(tmp_path)
    journal, engine = node(tmp_path)
    client = Listener()
    with no_descriptor_left():
        engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.AUTO))
        await taken_by(engine, client, 400)
        for number in range(200):
            engine.submit(c.Publish(client.peer, [(Envelope("/queue/b"), bytes(2000), number)]))
            await engine.wait_idle()
        engine.snapshot()
        await engine.wait_idle()
        assert len(client.receipts) == 200
    assert engine.ended is None
    assert journal.statistics()["background_failures"] == 0
    await engine.stop()
    journal.close()


async def test_messages_are_read_as_soon_as_a_descriptor_is_free(tmp_path: Path) -> None:
    await backlog(tmp_path)
    system = Exhausted()
    journal, engine = node(tmp_path, system)
    client = Listener()
    system.exhausted = True
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.AUTO))
    await engine.wait_idle()
    assert engine.ended is None
    assert len(client.bodies) < 400
    with pytest.raises(Refused, match="cannot read its files now"):
        engine.records([1])
    system.exhausted = False
    await taken_by(engine, client, 400)
    await engine.stop()
    journal.close()
