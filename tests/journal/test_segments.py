"""The journal in segment files keeps the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.journal.segments import SegmentJournal

from .contract import JournalContract
from .stage import Life, Open


@pytest.fixture
def open_life(tmp_path: Path) -> Iterator[Open]:
    journals = []

    def open_again() -> Life:
        journals.append(SegmentJournal(tmp_path / "journal", segment_bytes=8192))
        return Life(journals[-1])

    yield open_again
    for journal in journals:
        journal.close()


class TestSegmentJournal(JournalContract):
    pass
