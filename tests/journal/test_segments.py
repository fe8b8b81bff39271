"""The journal in segment files keeps the contract."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal

from .contract import JournalContract
from .stage import Broken, Life, Open, Reports


class BrokenSystem:
    """`os` whose functions in `broken` fail."""

    def __init__(self) -> None:
        self.broken: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return self._fail if name in self.broken else getattr(os, name)

    def _fail(self, *_: Any) -> Any:
        (number,) = self.broken.values()
        raise OSError(number, os.strerror(number))


@pytest.fixture
def system() -> BrokenSystem:
    return BrokenSystem()


@pytest.fixture
def open_life(tmp_path: Path, system: BrokenSystem, reports: Reports | None) -> Iterator[Open]:
    journals = []

    def open_again() -> Life:
        options: dict[str, Any] = {"segment_bytes": 8192, "files": Files(tmp_path / "journal", system)}
        if reports is None:
            journals.append(SegmentJournal(tmp_path / "journal", **options))
            return Life(journals[-1])
        # Without inline syncs, or small batches would not reach the thread.
        options |= {"inline_sync_bytes": 0, "call_soon_threadsafe": reports.call_soon_threadsafe}
        journals.append(SegmentJournal(tmp_path / "journal", **options))
        return Life(journals[-1], reports.wait)

    yield open_again
    for journal in journals:
        journal.close()


@pytest.fixture
def broken(system: BrokenSystem) -> Broken:
    errors = {
        "commits": {"fdatasync": errno.EIO},
        "snapshots": {"fdatasync": errno.EIO},
        "reads": {"pread": errno.ENOMEM},
    }

    @contextmanager
    def fail(_: Life, work: str) -> Iterator[None]:
        system.broken = errors[work]
        yield
        system.broken = {}

    return fail


class TestSegmentJournal(JournalContract):
    pass
