"""Cursors keep log up to a limit and a time, yield when space is short, and go where the journal goes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import JournalDamaged, JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.log import cursors
from broker_app.journal.log.cursors import Cursor, Cursors, FileDocument, decode, encode
from broker_app.journal.port import Journal, Span
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, StoreFull
from broker_app.journal.stores.directory.store import FileStore
from tests.support.patience import patient

from .stage import Life, QuickSystem, batch_of, published, quick_journal, set_now, whole_log

ONE, TWO = Holder("one:8000"), Holder("two:8001")
KEPT = 30_000
DAY_S = 24 * 3600.0

MakeLife = Callable[..., Life]


@pytest.fixture(params=["files", "store"])
def make_life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeLife]:
    """Opens the same journal each time, which keeps 30,000 bytes for cursors."""
    made: list[Journal] = []

    def make(**options: Any) -> Life:
        options = {"cursor_bytes": KEPT, **options}
        if request.param == "files":
            made.append(quick_journal(tmp_path / "journal", **options))
        else:
            made.append(SharedJournal(FileStore(tmp_path, "B1"), ONE, segment_bytes=8192, **options))
        return Life(made[-1])

    yield make
    for journal in made:
        journal.close()


def test_a_cursor_keeps_no_more_than_its_limit_and_then_shows_what_is_lost(make_life: MakeLife) -> None:
    life = make_life()
    life.restore()
    set_now(life.journal, "stopped", 1)
    life.settle_much(40)
    assert life.journal.span().low == 1
    life.settle_much(400)
    low, end = life.journal.span()
    assert 1 < low < end
    state = life.journal.cursors()["stopped"]
    assert (state.position, state.lost, state.keeps_log) == (1, Span(1, low), True)
    stored = life.journal.statistics()["bytes_stored"]
    assert KEPT - 8192 < stored < 3 * KEPT
    assert sum(batch.count for batch in whole_log(life.journal)) == end - low
    life.close()
    again = make_life()
    again.restore()
    low = again.journal.span().low
    assert again.journal.cursors()["stopped"].lost == Span(1, low)
    set_now(again.journal, "stopped", low)
    assert again.journal.cursors()["stopped"].lost is None


def test_a_cursor_that_is_not_reported_any_more_keeps_nothing(make_life: MakeLife) -> None:
    life = make_life(cursor_s=0.0)
    life.restore()
    set_now(life.journal, "gone", 1)
    life.settle_much(64)
    low = life.journal.span().low
    assert low > 1
    state = life.journal.cursors()["gone"]
    assert (state.position, state.lost, state.keeps_log) == (1, Span(1, low), False)


def test_without_bytes_for_cursors_none_keeps_anything(make_life: MakeLife) -> None:
    life = make_life(cursor_bytes=0)
    life.restore()
    set_now(life.journal, "archive", 1)
    life.settle_much(64)
    assert life.journal.span().low > 1


def test_history_is_kept_beside_cursors(make_life: MakeLife) -> None:
    life = make_life(retention_bytes=2 * KEPT)
    life.restore()
    set_now(life.journal, "archive", 1)
    life.settle_much(400)
    set_now(life.journal, "archive", life.next)
    low, end = life.journal.span()
    stored = sum(len(batch.records) for batch in whole_log(life.journal))
    assert 1 < low < end and stored > KEPT


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Pages:
    """A document in memory; writing waits for `gate`, and fails with `error`."""

    def __init__(self) -> None:
        self.written: list[dict[str, Cursor]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def read(self) -> bytes | None:
        return encode(self.written[-1]) if self.written else None

    def write(self, content: bytes) -> None:
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        self.written.append(decode(content))


def test_the_smallest_cursor_that_is_reported_counts() -> None:
    clock, moves = Clock(), list[str]()
    known = Cursors(Pages(), None, kept_s=7 * DAY_S, moved=lambda: moves.append("moved"), clock=clock)
    span, errors = Span(1, 100), list[BaseException | None]()
    assert (known.first, len(moves)) == (None, 0)
    known.set("slow", 10, span, errors.append)
    clock.now += 5 * DAY_S
    known.set("fast", 50, span, errors.append)
    assert (known.first, len(moves)) == (10, 1)
    known.set("fast", 60, span, errors.append)
    assert len(moves) == 1, "nothing can be let go by that"
    clock.now += 3 * DAY_S
    assert known.first == 60, "the slow one was not reported for eight days"
    assert [state.keeps_log for state in known.states(1).values()] == [True, False]
    known.set("slow", 10, span, errors.append)
    assert known.first == 10
    known.drop("slow", errors.append)
    assert known.first == 60
    assert set(errors) == {None}


async def test_cursors_that_are_set_while_others_are_written_are_written_together() -> None:
    pages, loop = Pages(), asyncio.get_running_loop()
    known = Cursors(pages, loop.call_soon_threadsafe, moved=lambda: None)
    pages.gate.clear()
    stored = [loop.create_future() for _ in range(20)]
    for number, future in enumerate(stored):
        known.set(f"reader-{number % 10}", number, Span(0, 100), future.set_result)
    assert len(known.states(0)) == 10
    assert not any(future.done() for future in stored)
    pages.gate.set()
    async with asyncio.timeout(patient(20)):
        assert set(await asyncio.gather(*stored)) == {None}
    assert len(pages.written) == 2
    assert {name: cursor.position for name, cursor in pages.written[-1].items()} == {
        f"reader-{number}": 10 + number for number in range(10)
    }
    known.close()


def test_a_cursor_that_cannot_be_stored_is_an_error() -> None:
    pages, answers = Pages(), list[BaseException | None]()
    pages.error = JournalFailed("no space")
    known = Cursors(pages, None, moved=lambda: None)
    known.set("archive", 1, Span(1, 2), answers.append)
    pages.error = None
    known.set("archive", 2, Span(1, 2), answers.append)
    assert [str(error) for error in answers] == ["no space", "None"]
    assert pages.written[-1]["archive"].position == 2


OTHER_CHECKSUM = encode({"a": Cursor(1, 2)}).replace(b"[1, 2]", b"[1, 3]")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", bytes(40), OTHER_CHECKSUM])
def test_a_damaged_document_is_reported_and_the_broker_starts(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(JournalDamaged):
        decode(content)
    life = Life(quick_journal(tmp_path))
    set_now(life.journal, "archive", 1)
    life.close()
    (tmp_path / cursors.FILE).write_bytes(content)
    again = Life(quick_journal(tmp_path))
    (line,) = again.recovery.report
    assert "the cursors of the journal's readers are forgotten" in line
    assert again.journal.cursors() == {}
    set_now(again.journal, "archive", 1)
    again.close()


class Syncs(QuickSystem):
    """Notes what is synced and renamed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def fdatasync(self, fd: int) -> None:
        self.calls.append("sync")

    def fsync(self, fd: int) -> None:
        self.calls.append("sync directory")

    def rename(self, old: Path, new: Path) -> None:
        self.calls.append(f"rename to {new.name}")
        Path(old).rename(new)


def test_a_file_of_cursors_is_replaced_when_it_is_on_the_disk(tmp_path: Path) -> None:
    system = Syncs()
    document = FileDocument(Files(tmp_path, system))
    document.write(encode({"archive": Cursor(5, 6)}))
    assert system.calls == ["sync", "rename to cursors.json", "sync directory"]
    content = document.read()
    assert content is not None and decode(content) == {"archive": Cursor(5, 6)}


def test_the_next_holder_of_a_shared_journal_knows_the_cursors(tmp_path: Path) -> None:
    one = Life(SharedJournal(FileStore(tmp_path, "B1"), ONE, segment_bytes=8192))
    one.restore()
    set_now(one.journal, "archive", 1)
    one.settle_much(64)
    other = SharedJournal(FileStore(tmp_path, "B1"), TWO, segment_bytes=8192)
    opened = other.take_over(one.next, force=True)
    assert opened.report == []
    list(other.replay())
    other.set_live_positions([])
    assert other.cursors()["archive"] == one.journal.cursors()["archive"]
    assert other.span() == (1, one.next)
    with pytest.raises(JournalFailed, match="has taken over"):
        set_now(one.journal, "archive", one.next)
    assert other.cursors()["archive"].position == 1
    other.close()


class SmallStore(FileStore):
    """A store with space for so many frames, as far as they are not deleted."""

    def __init__(self, directory: Path, frames: int) -> None:
        super().__init__(directory, "B1")
        self._most = frames
        self._stored: dict[int, int] = {}

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        if sum(self._stored.values()) >= self._most:
            raise StoreFull("no space")
        super().append(segment, first_position, count, frame)
        self._stored[segment] = self._stored.get(segment, 0) + 1

    def delete(self, segments: Any) -> None:
        super().delete(segments)
        for segment in segments:
            self._stored.pop(segment, None)


async def test_a_full_store_lets_go_what_is_kept_for_cursors(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    store = SmallStore(tmp_path, 100)
    journal = SharedJournal(
        store, ONE, lease_s=30, segment_bytes=2000, call_soon_threadsafe=loop.call_soon_threadsafe
    )
    Life(journal).restore()
    reported = loop.create_future()
    journal.set_cursor("archive", 1, reported.set_result)
    assert await reported is None
    async with asyncio.timeout(patient(30)):
        for position in range(1, 300):
            stored = loop.create_future()
            batch = batch_of(position, [published(bytes(300))], keep=[position], free=[position])
            journal.commit(batch, stored.set_result)
            assert await stored is None
            if position % 20 == 0:
                written = loop.create_future()
                journal.snapshot(position + 1, [b"state"], written.set_result)
                assert await written is None
    state = journal.cursors()["archive"]
    assert state.lost is not None and state.lost.low == 1
    journal.close()
