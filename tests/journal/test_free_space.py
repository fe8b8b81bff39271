"""A disk that fills up: new messages are refused in time, the rest goes on, and space is found again."""

import errno
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_app.journal.errors import NoSpace
from broker_app.journal.files import Files
from broker_app.journal.log.reserve import RESERVE
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.tools.inspect import verify

from .stage import Life, QuickSystem, batch_of, published, quick_journal, read_now, set_now

SEGMENT = 8192
BODY = bytes(300)


class FreeSpace(NamedTuple):
    f_bavail: int
    f_frsize: int = 1


class SmallDisk(QuickSystem):
    """`os` on a file system of `capacity` bytes, of which others take `others`."""

    def __init__(self, directory: Path, capacity: int) -> None:
        self.directory = directory
        self.capacity = capacity
        self.others = 0

    @property
    def free(self) -> int:
        return self.capacity - self.others - sum(path.stat().st_size for path in self.directory.iterdir())

    def statvfs(self, path: Path) -> FreeSpace:
        return FreeSpace(max(0, self.free))

    def pwritev(self, fd: int, pieces: Any, offset: int) -> int:
        self._take(fd, offset + sum(map(len, pieces)))
        return os.pwritev(fd, pieces, offset)

    def posix_fallocate(self, fd: int, offset: int, size: int) -> None:
        self._take(fd, offset + size)
        os.posix_fallocate(fd, offset, size)

    def _take(self, fd: int, end: int) -> None:
        if end - os.fstat(fd).st_size > max(0, self.free):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    directory = tmp_path / "journal"
    directory.mkdir()
    return SmallDisk(directory, 10 * SEGMENT)


def journal_on(disk: SmallDisk) -> SegmentJournal:
    return quick_journal(disk.directory, files=Files(disk.directory, disk), segment_bytes=SEGMENT)


def publish_until_refused(life: Life) -> list[int]:
    kept = []
    assert isinstance(life.journal, SegmentJournal)
    while life.journal.available_bytes():
        kept += life.publish(BODY)
        life.journal.tick()
    return kept


def test_new_messages_are_refused_while_settling_and_snapshots_go_on(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    kept = publish_until_refused(life)
    assert len(kept) > 5 * SEGMENT // len(BODY), "most of the disk can be used"
    assert journal.statistics()["short_of_space"] == 1
    while kept:
        life.settle(kept.pop(0))
        if len(kept) % 20 == 0:
            life.snapshot(bytes(8 * len(kept)))
    assert journal.statistics()["postponed"] == 0, "nothing had to wait for space"
    journal.tick()
    assert journal.available_bytes() > 0, "it is found out by itself that there is space again"
    kept = publish_until_refused(life)
    assert len(kept) > 4 * SEGMENT // len(BODY)
    assert read_now(journal, kept) == [published(BODY)] * len(kept)
    life.close()


def test_when_others_take_all_the_space_what_is_allocated_still_serves(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    kept = life.publish(BODY)
    disk.others += disk.free
    journal.tick()
    assert 0 < journal.available_bytes() < SEGMENT
    kept += publish_until_refused(life)
    for position in kept:
        life.settle(position)
    life.snapshot(bytes(1000))
    assert journal.statistics()["postponed"] == 0
    disk.others = 0
    journal.tick()
    assert journal.available_bytes() > 0
    life.close()


def test_a_worn_segment_is_left_for_a_small_one_when_there_is_no_space_for_another(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    (old,) = life.publish(b"kept")
    disk.others += disk.free
    journal.tick()
    for position in publish_until_refused(life):
        life.settle(position)
    assert journal.available_bytes() == 0
    for _ in range(2):  # another segment, out of the reserve, is made ready and gone on in
        journal.tick()
    for _ in range(2):  # what the older one needs goes with it
        assert journal.wants_snapshot
        life.snapshot(bytes(100))
        journal.tick()
    assert journal.available_bytes() > 0
    assert read_now(journal, [old]) == [published(b"kept")]
    assert journal.statistics()["postponed"] == 0
    life.close()


def test_the_level_does_not_flutter(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    publish_until_refused(life)
    disk.others -= 16
    journal.tick()
    assert journal.available_bytes() == 0
    disk.others -= 2 * SEGMENT
    journal.tick()
    assert journal.available_bytes() > 0
    life.close()


def test_a_batch_without_space_waits_for_it_and_is_written_whole(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    first = life.publish(b"first")
    disk.others += disk.free
    large = published(bytes(3 * SEGMENT))
    answers: list[BaseException | None] = []
    journal.commit(batch_of(life.next, [large], keep=[life.next]), answers.append)
    journal.tick()
    assert answers == []
    assert journal.available_bytes() == 0
    with pytest.raises(ValueError, match="in flight"):
        journal.commit(batch_of(life.next + 1, [large]), answers.append)
    disk.others = 0
    journal.tick()
    assert answers == [None]
    assert journal.statistics()["postponed"] > 0
    assert read_now(journal, [*first, life.next]) == [published(b"first"), large]
    life.close()
    again = Life(quick_journal(disk.directory))
    assert again.recovery.report == []
    assert again.recovery.next_position == 3
    again.close()


def test_a_batch_that_waited_in_vain_was_never_there(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    life.publish(b"first")
    disk.others += disk.free
    answers: list[BaseException | None] = []
    journal.commit(batch_of(life.next, [published(bytes(3 * SEGMENT))]), answers.append)
    life.close()
    assert answers == []
    assert quick_journal(disk.directory).open().next_position == 2


def test_a_journal_on_a_full_disk_starts_and_can_be_emptied(disk: SmallDisk) -> None:
    life = Life(journal_on(disk))
    life.restore()
    kept = publish_until_refused(life)
    life.close()
    disk.others += max(0, disk.free)

    journal = journal_on(disk)
    again = Life(journal)
    assert journal.available_bytes() < 2 * SEGMENT
    again.restore(kept)
    assert again.read(kept) == [published(BODY)] * len(kept)
    for number, position in enumerate(kept):
        again.settle(position)
        if number % 20 == 0:
            again.snapshot()
    journal.tick()
    assert journal.available_bytes() > 0
    again.close()
    assert not [finding for finding in verify(disk.directory) if finding.damage]


def test_the_reserve_is_given_up_for_a_snapshot_and_filled_again(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    journal.tick()
    reserve = disk.directory / RESERVE
    assert reserve.stat().st_size == SEGMENT // 4
    disk.others += disk.free
    life.snapshot(bytes(SEGMENT // 16))
    assert reserve.stat().st_size < SEGMENT // 4
    answers: list[BaseException | None] = []
    journal.snapshot(life.next, [bytes(SEGMENT)], answers.append)
    assert isinstance(answers[0], NoSpace)
    assert "free space on that file system" in str(answers[0])
    disk.others = 0
    journal.tick()
    assert reserve.stat().st_size == SEGMENT // 4
    life.close()


def test_log_that_is_kept_for_a_cursor_does_not_take_the_space_of_messages(disk: SmallDisk) -> None:
    journal = journal_on(disk)
    life = Life(journal)
    life.restore()
    set_now(journal, "stopped", 1)
    for number in range(600):
        for _ in range(3):  # seconds
            if not journal.available_bytes():
                journal.tick()
        assert journal.available_bytes() > 0, number
        life.settle(*life.publish(BODY))
        if number % 16 == 15:
            life.snapshot()
            journal.tick()
    state = journal.cursors()["stopped"]
    assert state.lost is not None and state.lost.end > 1
    life.close()
