"""With an event loop, syncing, preparing, copying and snapshots happen in threads and report to the loop."""

import asyncio
import errno
import os
import threading
from array import array
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import JournalFailed, NoSuchPosition
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from tests.support.patience import patient

from .stage import Life, QuickSystem, batch_of, published, quick_journal, read_now


class GatedSystem(QuickSystem):
    """`os` whose `fdatasync` waits until `gate` is set, and notes the thread it was called in."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.sync_threads: list[str] = []
        self.error: OSError | None = None

        self.reading: list[str] = []

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.reading.append(threading.current_thread().name)
        return os.pread(fd, size, offset)

    def fdatasync(self, fd: int) -> None:
        self.sync_threads.append(threading.current_thread().name)
        self.gate.wait()
        if self.error is not None:
            raise self.error


async def commit(journal: SegmentJournal, batch: Any) -> None:
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    loop_thread = threading.current_thread()

    def done(error: BaseException | None) -> None:
        assert threading.current_thread() is loop_thread
        if error is None:
            durable.set_result(None)
        else:
            durable.set_exception(error)

    journal.commit(batch, done)
    await durable


def threaded(directory: Path, **options: Any) -> SegmentJournal:
    call_soon = asyncio.get_running_loop().call_soon_threadsafe
    return quick_journal(directory, call_soon_threadsafe=call_soon, **options)


async def test_small_batches_are_synced_inline_and_large_ones_in_the_thread(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), inline_sync_bytes=500, segment_bytes=1 << 20)
    journal.open()
    system.sync_threads.clear()
    await commit(journal, batch_of(1, [published(b"small")]))
    await commit(journal, batch_of(2, [published(bytes(500))]))
    assert system.sync_threads == ["MainThread", "journal-sync"]
    journal.close()


async def test_a_commit_is_not_done_and_not_readable_before_its_sync(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), inline_sync_bytes=0)
    life = Life(journal)
    life.restore()
    system.gate.clear()
    task = asyncio.create_task(commit(journal, batch_of(1, [published(b"x")], keep=[1])))
    while "journal-sync" not in system.sync_threads:
        await asyncio.sleep(0)
    assert not task.done()
    assert journal.statistics()["next_position"] == 1
    system.gate.set()
    await task
    assert read_now(journal, [1]) == [published(b"x")]
    journal.close()


async def read(journal: SegmentJournal, *positions: int) -> list[bytes]:
    answer: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
    loop_thread = threading.current_thread()

    def found(records: list[Any] | None, error: Exception | None) -> None:
        assert threading.current_thread() is loop_thread
        if records is None:
            answer.set_exception(error or AssertionError("neither records nor an error"))
        else:
            answer.set_result(records)

    journal.read(positions, found)
    return await answer


async def test_small_records_are_read_at_once_and_large_ones_in_the_thread(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), segment_bytes=1 << 20)
    journal.open()
    small, large = published(b"small"), published(bytes(100_000))
    await commit(journal, batch_of(1, [small]))
    await commit(journal, batch_of(2, [large]))
    system.reading.clear()
    assert await read(journal, 1) == [small]
    assert await read(journal, 2, 1) == [large, small]
    assert system.reading == ["MainThread", "journal-read", "journal-read"]
    journal.close()


async def test_what_was_moved_while_it_was_read_is_read_where_it_is_now(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), segment_bytes=300_000)
    journal.open()
    list(journal.replay())
    journal.set_live_positions([])
    large = published(bytes(100_000))
    for position in range(1, 9):
        await commit(journal, batch_of(position, [large]))
    reading = asyncio.ensure_future(read(journal, 2))
    await asyncio.sleep(0)
    segment = journal._index.find(2)
    assert segment is not None
    journal._index.remove(segment)  # as when what is left of it was copied elsewhere
    with pytest.raises(NoSuchPosition):
        await reading
    journal._index.add(segment)
    assert await read(journal, 2) == [large]
    journal.close()


async def test_a_failing_sync_in_the_thread_ends_the_journal(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), inline_sync_bytes=0)
    journal.open()
    system.error = OSError(errno.EIO, "Input/output error")
    for _ in range(2):
        try:
            await commit(journal, batch_of(1, [published(b"x")]))
        except JournalFailed as error:
            assert "Input/output error" in str(error)  # noqa: PT017 — both attempts are looked at
        else:
            raise AssertionError("the commit succeeded")
    journal.close()


async def test_closing_finishes_the_batch_in_flight(tmp_path: Path) -> None:
    journal = threaded(tmp_path, inline_sync_bytes=0)
    journal.open()
    task = asyncio.create_task(commit(journal, batch_of(1, [published(b"x")])))
    await asyncio.sleep(0)
    journal.close()
    await task
    again = quick_journal(tmp_path)
    assert again.open().next_position == 2
    again.close()


async def test_a_long_life_with_threads_loses_nothing_and_needs_little_space(tmp_path: Path) -> None:
    journal = threaded(tmp_path, inline_sync_bytes=600)
    position = journal.open().next_position
    list(journal.replay())
    journal.set_live_positions([])
    kept: dict[int, bytes] = {}
    snapshots: list[BaseException | None] = []
    asked = 0
    for number in range(600):
        records = [published(b"%d " % (position + i) * 30) for i in range(4)]
        positions = list(range(position, position + 4))
        await commit(journal, batch_of(position, records, keep=positions, free=positions[1:]))
        if number % 20 == 0:
            kept[position] = records[0]
        else:
            await commit(journal, batch_of(position + 4, [published(b"-")], free=[position]))
            position += 1
        position += 4
        if number % 50 == 49 and asked == len(snapshots):
            asked += 1
            journal.snapshot(position, [b"state"], snapshots.append)
    async with asyncio.timeout(patient(20)):
        while asked != len(snapshots):
            await asyncio.sleep(0.001)
    assert journal.background_error is None
    assert read_now(journal, list(kept)) == list(kept.values())
    statistics = journal.statistics()
    assert statistics["segments_recycled"] > 1
    assert statistics["live_records"] == len(kept)
    journal.close()

    again = threaded(tmp_path)
    assert again.open().next_position == position
    list(again.replay())
    again.set_live_positions([array("Q", kept)])
    assert read_now(again, list(kept)) == list(kept.values())
    again.close()
    await asyncio.sleep(0)


async def test_the_next_segment_is_ready_before_it_is_needed(tmp_path: Path) -> None:
    system = GatedSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system), segment_bytes=4096, inline_sync_bytes=1 << 20)
    life = Life(journal)
    life.restore()
    life.publish(bytes(1500))
    async with asyncio.timeout(patient(20)):
        for number in range(1, 5):
            while number % 2 and not journal.statistics()["next_segment_ready"]:
                await asyncio.sleep(0.001)
            before = system.sync_threads.count("MainThread")
            life.publish(bytes(1500))
            assert system.sync_threads.count("MainThread") == before + 1, "rolling needs no other sync here"
    assert journal.statistics()["segments"] >= 2
    journal.close()


class NotingSystem(QuickSystem):
    """`os` that notes the threads that write, and the sizes of what they write. The disk is full `full` times
    then."""

    def __init__(self) -> None:
        self.writes: list[tuple[bool, list[int]]] = []
        self.full = 0

    def pwritev(self, fd: int, pieces: Any, offset: int) -> int:
        in_loop = threading.current_thread() is threading.main_thread()
        self.writes.append((in_loop, [len(piece) for piece in pieces]))
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwritev(fd, pieces, offset)


async def test_a_large_batch_is_written_in_the_thread_without_a_copy(tmp_path: Path) -> None:
    system = NotingSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system))
    journal.open()
    large = published(bytes(5 << 20))
    system.writes.clear()
    await commit(journal, batch_of(1, [published(b"a"), large, published(b"b")]))
    await commit(journal, batch_of(4, [published(b"c")]))
    # Another thread may prepare the next segment meanwhile.
    [(in_loop, pieces)] = [write for write in system.writes if len(large) in write[1]]
    assert (in_loop, len(pieces)) == (False, 4)
    assert [len(pieces) for in_loop, pieces in system.writes if in_loop] == [2], "the small one"
    assert await read(journal, 1, 2, 3, 4) == [published(b"a"), large, published(b"b"), published(b"c")]
    journal.close()


async def test_a_large_batch_that_finds_no_space_is_written_when_there_is_some(tmp_path: Path) -> None:
    system = NotingSystem()
    journal = threaded(tmp_path, files=Files(tmp_path, system))
    journal.open()
    system.full = 1
    large = published(bytes(5 << 20))
    committing = asyncio.ensure_future(commit(journal, batch_of(1, [large])))
    async with asyncio.timeout(patient(10)):
        while not committing.done():
            await asyncio.sleep(0.01)
            journal.tick()
    await committing
    assert await read(journal, 1) == [large]
    journal.close()
