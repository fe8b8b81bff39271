"""A directory that brokers share keeps what was confirmed, whatever a former holder still does to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import JournalDamaged, JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.store import Carried, Fenced, Holder, LeaseHeld, StoreFull, Unreachable
from broker_app.journal.stores.directory import layout as file_layout
from broker_app.journal.stores.directory import store as file_store
from broker_app.journal.stores.directory.layout import epoch_name
from broker_app.journal.stores.directory.store import FileStore
from tests.support.polling import poll

from .stage import QuickSystem

ONE, TWO = Holder("one:8000", "stomp://one:61613"), Holder("two:8000", "stomp://two:61613")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[FileStore, FileStore]]:
    both = FileStore(tmp_path, "j"), FileStore(tmp_path, "j")
    yield both
    for store in both:
        store.release()


def log_of(directory: Path, segment: int = 1) -> Path:
    (path,) = directory.glob(f"*/epoch-*/{segment:020d}.log")
    return path


def test_an_append_of_a_former_holder_is_refused_and_stays_out_of_the_log(
    stores: tuple[FileStore, FileStore],
) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 1, b"first")
    two.acquire(TWO, 30, force=True)
    with pytest.raises(Fenced, match="two:8000 at stomp://two:61613 has taken over"):
        one.append(1, 2, 1, b"late")  # to the file that it has open
    two.append(2, 2, 1, b"second")
    assert list(two.frames(1)) == [b"first", b"second"]


class Deleting(QuickSystem):
    """`os`, in which something happens just before the next file is opened, as other threads do it."""

    def __init__(self) -> None:
        self.before_opening: list[Callable[[], object]] = []

    def open(self, *arguments: Any) -> int:
        while self.before_opening:
            self.before_opening.pop()()
        return os.open(*arguments)


def test_a_segment_that_goes_while_it_is_looked_for_is_left_out_of_what_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would end the broker, since it was not one that passes."""
    system = Deleting()
    monkeypatch.setattr(Files.__init__, "__defaults__", (system,))
    one, two = FileStore(tmp_path, "j"), FileStore(tmp_path, "j")
    one.acquire(ONE, 30)
    one.append(1, 1, 1, b"first")
    one.append(2, 2, 1, b"second")
    one.append(3, 3, 1, b"third")
    system.before_opening.append(partial(one.delete, [1]))
    assert one.load([(1, 1), (2, 2)]) == {(2, 2): b"second"}
    system.before_opening.append(partial(two.acquire, TWO, 30, force=True))
    with pytest.raises(Fenced):
        one.load([(2, 2)])
    one.release()
    two.release()


def test_a_standby_never_reads_what_a_former_holder_appends(stores: tuple[FileStore, FileStore]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 1, b"first")
    assert list(two.frames(1)) == [b"first"]
    three = FileStore(Path(two.description.removeprefix("directory ")).parent, "j")
    three.acquire(Holder("three:8000"), 30, force=True)
    with pytest.raises(Fenced):
        one.append(1, 2, 1, b"late")
    assert list(two.frames(2)) == []
    three.append(2, 2, 1, b"second")
    assert list(two.frames(2)) == [b"second"]
    three.release()


@pytest.mark.parametrize("kept", [1, 30, 33, 40])
def test_a_torn_last_batch_is_dropped_at_the_next_takeover(
    kept: int, stores: tuple[FileStore, FileStore], tmp_path: Path
) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 1, b"first")
    whole = log_of(tmp_path).stat().st_size
    one.append(1, 2, 1, b"second, not whole")
    os.truncate(log_of(tmp_path), whole + kept)
    assert list(two.frames(1)) == [b"first"]
    two.acquire(TWO, 30, force=True)
    assert log_of(tmp_path).stat().st_size == whole
    assert [(row.first_position, row.size) for row in two.rows()] == [(1, 5)]


def test_damage_before_the_end_is_not_taken_for_a_torn_batch(
    stores: tuple[FileStore, FileStore], tmp_path: Path
) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    for position in (1, 2, 3):
        one.append(1, position, 1, b"frame %d" % position)
    content = bytearray(log_of(tmp_path).read_bytes())
    content[content.index(b"frame 2")] ^= 1
    log_of(tmp_path).write_bytes(content)
    with pytest.raises(JournalDamaged, match="damaged at offset 35; restore the directory from a backup"):
        two.acquire(TWO, 30, force=True)


def test_segments_that_a_carry_segment_replaces_are_deleted_after_a_crash(
    stores: tuple[FileStore, FileStore], tmp_path: Path
) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 2, b"one and two")
    one.append(2, 3, 1, b"three")
    before = log_of(tmp_path).read_bytes()
    one.carry(3, [Carried(1, [2], b"two")], [1])
    (log_of(tmp_path, 2).parent / f"{1:020d}.log").write_bytes(before)  # as if it had ended before
    two.acquire(TWO, 30, force=True)
    assert [(row.segment, row.first_position, row.positions) for row in two.rows()] == [
        (2, 3, None),
        (3, 1, pytest.approx([2])),
    ]
    assert two.load([(3, 1), (2, 3), (1, 1)]) == {(3, 1): b"two", (2, 3): b"three"}


class FullDisk:
    """`os`, but for writes that find no space."""

    def __init__(self) -> None:
        self.full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwritev(self, fd: int, pieces: Any, offset: int) -> int:
        if self.full:
            os.pwritev(fd, [b"".join(pieces)[:7]], offset)
            raise OSError(28, "No space left on device")
        return os.pwritev(fd, pieces, offset)


def test_a_full_disk_leaves_no_trace_of_a_batch_and_takes_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    monkeypatch.setattr(Files.__init__, "__defaults__", (disk,))
    store = FileStore(tmp_path, "j")
    store.acquire(ONE, 30)
    store.append(1, 1, 1, b"first")
    size = log_of(tmp_path).stat().st_size
    disk.full = True
    with pytest.raises(StoreFull, match="free space on that file system"):
        store.append(1, 2, 1, b"second")
    assert log_of(tmp_path).stat().st_size == size
    disk.full = False
    store.append(1, 2, 1, b"second")
    assert list(store.frames(1)) == [b"first", b"second"]
    store.release()


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mom_journal_j").mkdir()
    (tmp_path / "mom_journal_j" / "journal.json").write_text('{"format": 9, "tag": 1, "created_us": 1}')
    with pytest.raises(JournalFailed, match="has format 9; this version of MOM needs 1"):
        FileStore(tmp_path, "j").acquire(ONE, 30)


def test_a_broker_that_ends_while_it_takes_the_lease_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.journal.stores.directory.store._TAKING_S", 0.5)
    FileStore(tmp_path, "B").acquire(ONE, 0)
    # It has renamed the directory, and has not written its lease.
    (tmp_path / "mom_journal_B" / epoch_name(1)).rename(tmp_path / "mom_journal_B" / epoch_name(2))
    other = FileStore(tmp_path, "B")
    with pytest.raises(LeaseHeld, match="another broker holds this journal"):
        other.acquire(TWO, 30)
    poll(lambda: (state := other.lease()) is not None and state.left_s <= 0)
    assert other.acquire(TWO, 30).epoch == 3
    other.release()


@pytest.mark.parametrize("work", ["renew", "lease", "notes"])
def test_errors_of_a_network_file_system_are_a_store_that_cannot_be_reached(
    stores: tuple[FileStore, FileStore], monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    one, _ = stores
    one.acquire(ONE, 30)
    one.put_note("broker", b"here")
    calls: dict[str, Callable[[], object]] = {
        "renew": lambda: one.renew(30),
        "lease": one.lease,
        "notes": lambda: one.notes(""),
    }
    with monkeypatch.context() as broken:
        broken.setattr(os, "utime", fail)
        with pytest.raises(Unreachable, match="Input/output error"):
            calls[work]()
    calls[work]()


def test_a_broker_whose_first_directory_came_late_is_told_who_holds_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two brokers that find no journal, one may have taken the lease before the other one's is there."""
    holder, late = FileStore(tmp_path, "B1"), FileStore(tmp_path, "B1")
    holder.acquire(Holder("one"), 30)
    late._first()
    first = Files(late.directory / epoch_name(0))
    assert first.directory.exists()
    found = [first]  # as the list of a directory is that changes meanwhile

    def newest(files: Files) -> Files | None:
        return found.pop() if found else file_layout.newest_epoch(files)

    monkeypatch.setattr(file_store, "newest_epoch", newest)
    with pytest.raises(LeaseHeld):
        late.acquire(Holder("two"), 30)
    holder.release()
