"""The log is read in a thread while it is written: only what is durable, and never what a file has later."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import Busy, JournalDamaged, NoSuchPosition
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.port import LogRun
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from tests.support.memory_journal import MemoryJournal
from tests.support.patience import patient

from .stage import Life, QuickSystem, batch_of, batches_of, log_now, published, quick_journal, whole_log


class SlowDisk(QuickSystem):
    """`os` whose reads in the log's thread wait until `gate` is set, and whose syncs do until `synced` is."""

    def __init__(self) -> None:
        self.gate, self.synced, self.reading = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()
        self.synced.set()

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        if threading.current_thread().name == "journal-log":
            self.reading.set()
            assert self.gate.wait(20)
        return os.pread(fd, size, offset)

    def fdatasync(self, fd: int) -> None:
        assert self.synced.wait(20)


class Answer:
    """Takes the frames of one read."""

    def __init__(
        self, journal: SegmentJournal | SharedJournal, position: int, max_bytes: int = 1 << 20
    ) -> None:
        self._future: asyncio.Future[LogRun] = asyncio.get_running_loop().create_future()
        journal.read_log(position, max_bytes, self._found)

    def _found(self, run: LogRun | None, error: Exception | None) -> None:
        if run is not None:
            self._future.set_result(run)
        else:
            assert error is not None
            self._future.set_exception(error)

    async def run(self) -> LogRun:
        async with asyncio.timeout(patient(20)):
            return await self._future


async def commit(journal: SegmentJournal, batch: Any) -> None:
    durable: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    journal.commit(batch, durable.set_result)
    assert await durable is None


async def fill(journal: SegmentJournal, position: int, count: int) -> int:
    """Publish and settle messages; the next position."""
    for _ in range(count):
        records = [published(b"%d " % position * 60), published(b"%d" % (position + 1))]
        await commit(journal, batch_of(position, records, keep=[position], free=[position]))
        position += 2
    return position


async def snapshot(journal: SegmentJournal, position: int) -> None:
    stored: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    journal.snapshot(position, [b"state"], stored.set_result)
    assert await stored is None


def threaded(directory: Path, system: SlowDisk) -> SegmentJournal:
    call_soon = asyncio.get_running_loop().call_soon_threadsafe
    journal = quick_journal(directory, call_soon_threadsafe=call_soon, files=Files(directory, system))
    Life(journal).restore()
    return journal


async def test_a_batch_is_in_the_log_when_it_is_synced_and_not_before(tmp_path: Path) -> None:
    system = SlowDisk()
    journal = threaded(tmp_path, system)
    await commit(journal, batch_of(1, [published(b"first")]))
    system.synced.clear()
    second = asyncio.create_task(commit(journal, batch_of(2, [published(bytes(5000))])))
    await asyncio.sleep(0)
    assert journal.span() == (1, 2)
    assert [batch.first_position for batch in batches_of(await Answer(journal, 1).run())] == [1]
    with pytest.raises(NoSuchPosition):
        await Answer(journal, 3).run()
    system.synced.set()
    await second
    assert journal.span() == (1, 3)
    assert [batch.first_position for batch in batches_of(await Answer(journal, 1).run())] == [1, 2]
    journal.close()


async def test_a_batch_that_is_not_stored_yet_is_not_in_the_log_of_a_store(tmp_path: Path) -> None:
    class SlowStore(FileStore):
        gate = threading.Event()

        def append(self, *batch: Any) -> None:
            assert self.gate.wait(20)
            super().append(*batch)

    store = SlowStore(tmp_path, "B1")
    loop = asyncio.get_running_loop()
    journal = SharedJournal(store, Holder("one:8000"), call_soon_threadsafe=loop.call_soon_threadsafe)
    Life(journal).restore()
    durable: asyncio.Future[BaseException | None] = loop.create_future()
    journal.commit(batch_of(1, [published(b"first")]), durable.set_result)
    assert journal.span() == (1, 1)
    store.gate.set()
    assert await durable is None
    assert journal.span() == (1, 2)
    assert len(batches_of(await Answer(journal, 1).run())) == 1
    journal.close()
    await asyncio.sleep(0)


def test_a_batch_that_a_journal_in_memory_holds_is_not_in_its_log() -> None:
    journal = MemoryJournal(hold=True)
    Life(journal).restore()
    journal.commit(batch_of(1, [published(b"x")]), lambda error: None)
    assert journal.span() == (1, 1)
    journal.release()
    assert journal.span() == (1, 2)
    assert len(whole_log(journal)) == 1


async def test_the_loop_goes_on_while_the_log_is_read(tmp_path: Path) -> None:
    system = SlowDisk()
    journal = threaded(tmp_path, system)
    await commit(journal, batch_of(1, [published(b"first")]))
    system.gate.clear()
    answer = Answer(journal, 1)
    await asyncio.to_thread(system.reading.wait, 20)
    await commit(journal, batch_of(2, [published(b"second")]))
    system.gate.set()
    (batch,) = batches_of(await answer.run())
    assert batch.records == published(b"first"), "what the span had when it was asked for"
    journal.close()


async def test_a_segment_that_was_used_again_while_it_was_read_is_reported_as_gone(tmp_path: Path) -> None:
    system = SlowDisk()
    journal = threaded(tmp_path, system)
    position = await fill(journal, 1, 30)
    system.gate.clear()
    answer = Answer(journal, 1)
    await asyncio.to_thread(system.reading.wait, 20)
    recycled = journal.statistics()["segments_recycled"]
    async with asyncio.timeout(patient(20)):
        while journal.statistics()["segments_recycled"] < recycled + 8:
            position = await fill(journal, position, 20)
            await snapshot(journal, position)
    system.gate.set()
    with pytest.raises(NoSuchPosition, match=r"position 1 .* let go while it was being read"):
        await answer.run()
    low = journal.span().low
    assert low > 1
    assert batches_of(await Answer(journal, low).run())[0].first_position == low
    journal.close()


async def test_closing_answers_the_read_in_progress(tmp_path: Path) -> None:
    system = SlowDisk()
    journal = threaded(tmp_path, system)
    await fill(journal, 1, 3)
    answer = Answer(journal, 1)
    journal.close()
    assert len(batches_of(await answer.run())) == 3
    with pytest.raises(ValueError, match="not open"):
        journal.read_log(1, 1, lambda run, error: None)


def test_a_damaged_place_is_named(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    for number in range(3):
        life.publish(b"%d" % number)
    (path,) = tmp_path.glob("log-*.seg")
    second = log_now(life.journal, 1, 1).frames
    with path.open("r+b") as file:
        file.seek(64 + len(second))
        file.write(b"damage")
    with pytest.raises(
        JournalDamaged, match=r"log-\d+.seg: the batch at offset \d+ \(position 2\) is damaged"
    ):
        log_now(life.journal, 2)
    path.unlink()
    with pytest.raises(Exception, match="No such file"):
        log_now(life.journal, 1)
    life.close()


def test_a_batch_that_a_store_does_not_have_may_be_there_no_longer(tmp_path: Path) -> None:
    store = FileStore(tmp_path, "B1")
    life = Life(SharedJournal(store, Holder("one:8000"), segment_bytes=500))
    life.restore()
    for _ in range(4):
        life.publish(bytes(400))
    store.delete([1])
    with pytest.raises(Busy, match="position 1 is being deleted, or the store has lost it"):
        log_now(life.journal, 1)
    life.close()
