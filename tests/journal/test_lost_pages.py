"""A sync that failed leaves pages that are clean in the cache and not on the disk: they are written again."""

import errno
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal

from .stage import Life, QuickSystem, batch_of, published


class PageCache(QuickSystem):
    """`os` over a disk of its own: the files are what the cache holds, `disk` is what outlives the power.

    As with Linux, a sync that fails drops the marks of what was to be written: the next one writes nothing.
    """

    def __init__(self) -> None:
        self.disk: dict[int, bytearray] = {}
        self.fail = False
        self._dirty: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def pwritev(self, fd: int, pieces: Any, offset: int) -> int:
        written = os.pwritev(fd, pieces, offset)
        self._dirty[os.fstat(fd).st_ino].append((offset, offset + written))
        return written

    def fdatasync(self, fd: int) -> None:
        found = os.fstat(fd)
        dirty = self._dirty.pop(found.st_ino, [])
        if self.fail:
            self.fail = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        content = self.disk.setdefault(found.st_ino, bytearray())
        content[:] = content[: found.st_size].ljust(found.st_size, b"\0")
        for start, end in dirty:
            content[start:end] = os.pread(fd, end - start, start)

    def lose_power(self, directory: Path) -> None:
        """Let the files be what is on the disk."""
        for path in directory.iterdir():
            path.write_bytes(self.disk.get(path.stat().st_ino, b""))


def journal_on(cache: PageCache, directory: Path) -> SegmentJournal:
    return SegmentJournal(directory, segment_bytes=8192, files=Files(directory, cache))


def fail_a_commit(life: Life) -> None:
    answers: list[BaseException | None] = []
    life.journal.commit(batch_of(life.next, [published(b"never synced")], keep=[life.next]), answers.append)
    (answer,) = answers
    assert isinstance(answer, JournalFailed)


@pytest.mark.parametrize("snapshot", [False, True])
def test_batches_after_a_failed_sync_survive_a_power_failure(tmp_path: Path, snapshot: bool) -> None:
    cache = PageCache()
    directory = tmp_path / "journal"
    life = Life(journal_on(cache, directory))
    life.restore()
    life.publish(b"first")
    if snapshot:
        life.snapshot()
    life.publish(b"second")
    cache.fail = True
    fail_a_commit(life)
    life.close()

    life = Life(journal_on(cache, directory))
    assert life.recovery.next_position == 4, "it is there, in the cache"
    life.restore([1, 2, 3])
    life.publish(b"confirmed")
    life.close()
    cache.lose_power(directory)

    life = Life(journal_on(cache, directory))
    assert life.recovery.report == []
    life.restore([1, 2, 3, 4])
    assert life.read([1, 2, 3, 4]) == [
        published(body) for body in (b"first", b"second", b"never synced", b"confirmed")
    ]
    life.close()


def test_a_start_whose_own_sync_fails_confirms_nothing(tmp_path: Path) -> None:
    cache = PageCache()
    directory = tmp_path / "journal"
    life = Life(journal_on(cache, directory))
    life.restore()
    life.publish(b"first")
    cache.fail = True
    fail_a_commit(life)
    life.close()
    cache.fail = True
    with pytest.raises(JournalFailed):
        journal_on(cache, directory).open()
    cache.lose_power(directory)
    life = Life(journal_on(cache, directory))
    assert life.recovery.next_position == 2
    life.restore([1])
    assert life.read([1]) == [published(b"first")]
    life.close()
