"""Every call to the operating system failing once: nothing confirmed is lost, and the error is precise."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.errors import JournalError, JournalFailed, JournalInUse
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.tools.inspect import verify

from .stage import Life, QuickSystem, batch_of, published, quick_journal, read_now

CHANGING = (
    "open", "pwritev", "fdatasync", "fsync", "posix_fallocate", "ftruncate", "rename", "unlink", "pread",
)  # fmt: skip


class FailingSystem(QuickSystem):
    """`os` whose n-th call of one of the functions in `names` fails; a failing write leaves half behind."""

    def __init__(self, nth: int, error: int, names: tuple[str, ...] = CHANGING) -> None:
        self.nth = nth
        self.error = error
        self.names = names
        self.calls = 0
        self.failed_in = ""

    def __getattribute__(self, name: str) -> Any:
        if name in CHANGING and name in object.__getattribute__(self, "names"):
            return lambda *arguments, **options: self._call(name, *arguments, **options)
        return object.__getattribute__(self, name)

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.nth:
            self.failed_in = name
            if name == "pwritev":
                fd, pieces, offset = arguments
                content = b"".join(pieces)
                os.pwrite(fd, content[: len(content) // 2], offset)
            raise OSError(self.error, os.strerror(self.error))
        if name in ("fdatasync", "fsync"):
            return None
        return getattr(os, name)(*arguments, **options)


class Play:
    """A life with every kind of work in it, that remembers what was confirmed."""

    def __init__(self, system: Any, directory: Path) -> None:
        self.files = Files(directory, system)
        self.wanted: dict[int, bytes] = {}
        self.next = 1
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Ends early when the journal fails."""
        for round_ in range(2):
            journal = SegmentJournal(self.files.directory, segment_bytes=1024, files=self.files)
            try:
                self._live(journal, round_)
            except JournalError as error:
                self.failed = error
                return
            finally:
                journal.close()

    def _live(self, journal: SegmentJournal, round_: int) -> None:
        life = Life(journal)
        life.restore(list(self.wanted))
        for number in range(8):
            body = published(b"%d " % number * 80)
            free = list(self.wanted)[:-1] if number % 3 == 2 else []
            self._commit(journal, batch_of(self.next, [body], keep=[self.next], free=free))
            self.wanted[self.next] = body
            self.next += 1
            for position in free:
                del self.wanted[position]
            if number % 4 == 3:
                journal.snapshot(self.next, [b"%d" % round_], lambda error: None)
        assert read_now(journal, list(self.wanted)) == list(self.wanted.values())

    def _commit(self, journal: SegmentJournal, batch: Any) -> None:
        answers: list[BaseException | None] = []
        journal.commit(batch, answers.append)
        if not answers:  # there was no space: it is tried again
            journal.tick()
        (answer,) = answers
        if answer is not None:
            journal.commit(batch, answers.append)
            assert isinstance(answers[1], JournalFailed)
            assert "since it failed" in str(answers[1])
            raise answer

    def check(self) -> None:
        """With a healthy system, everything confirmed is there; the unconfirmed batch may be, whole."""
        life = Life(quick_journal(self.files.directory, segment_bytes=1024))
        assert life.recovery.next_position in (self.next, self.next + 1)
        life.restore(list(self.wanted))
        assert life.read(list(self.wanted)) == list(self.wanted.values())
        life.publish(b"and on")
        life.close()
        assert not [finding for finding in verify(self.files.directory) if finding.damage]


@pytest.mark.slow
def test_each_call_failing_once_loses_nothing_confirmed(tmp_path: Path) -> None:
    seen = set()
    nth = 0
    while True:
        nth += 1
        error = errno.ENOSPC if nth % 2 else errno.EIO
        system = FailingSystem(nth, error)
        play = Play(system, tmp_path / str(nth))
        play.run()
        if not system.failed_in:
            break
        seen.add(system.failed_in)
        if play.failed is not None:
            assert str(tmp_path) in str(play.failed)
            assert os.strerror(error) in str(play.failed)
        play.check()
    assert seen == set(CHANGING)


def test_an_error_names_file_place_and_remedy(tmp_path: Path) -> None:
    system = FailingSystem(0, errno.EIO, ("pwritev",))
    journal = quick_journal(tmp_path, files=Files(tmp_path, system))
    journal.open()
    system.nth = system.calls + 1
    answers: list[BaseException | None] = []
    journal.commit(batch_of(1, [published(b"x")]), answers.append)
    journal.close()
    assert (
        "log-000000000001.seg: writing 102 bytes at offset 64 failed: Input/output error; the disk reports"
        in str(answers[0])
    )


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    class ShortWrites(QuickSystem):
        def pwritev(self, fd: int, pieces: Any, offset: int) -> int:
            return os.pwrite(fd, b"".join(pieces)[:50], offset)

    life = Life(quick_journal(tmp_path, files=Files(tmp_path, ShortWrites())))
    life.restore()
    life.publish(bytes(1000))
    life.close()
    again = Life(quick_journal(tmp_path))
    again.restore([1])
    assert again.read([1]) == [published(bytes(1000))]
    again.close()


def test_a_failed_snapshot_is_reported_and_the_former_one_is_kept(tmp_path: Path) -> None:
    system = FailingSystem(0, errno.EIO, ("rename",))
    life = Life(quick_journal(tmp_path, files=Files(tmp_path, system)))
    life.restore()
    life.snapshot(b"former")
    life.publish(b"x")
    system.nth = system.calls + 1
    answers: list[BaseException | None] = []
    life.journal.snapshot(2, [b"new", b"er"], answers.append)
    assert isinstance(answers[0], JournalFailed)
    life.publish(b"y")
    life.close()
    again = Life(quick_journal(tmp_path))
    assert again.recovery.snapshot == b"former"
    again.close()


def test_without_room_for_a_next_segment_the_present_one_grows(tmp_path: Path) -> None:
    system = FailingSystem(0, errno.ENOSPC, ("posix_fallocate",))
    journal = quick_journal(tmp_path, segment_bytes=2048, files=Files(tmp_path, system))
    life = Life(journal)
    life.restore()
    system.nth = system.calls + 1
    for _ in range(10):
        life.publish(bytes(300))
    assert isinstance(journal.background_error, JournalFailed)
    assert journal.statistics()["background_failures"] == 1
    assert len(read_now(journal, range(1, 11))) == 10
    life.close()


@pytest.mark.process
def test_another_process_is_refused_with_the_holder_of_the_journal(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    program = (
        "import sys; from broker_app.journal.log.segments import SegmentJournal\n"
        "try: SegmentJournal(sys.argv[1]).open()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(JournalInUse.__name__)
    assert f"in use by process {os.getpid()}" in run.stdout
    life.close()
