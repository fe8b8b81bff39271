"""The in-memory journal keeps the contract, and can fail and wait when told to."""

import pytest

from broker_app.journal.errors import JournalFailed
from broker_app.journal.memory import MemoryJournal, MemoryStorage
from broker_app.journal.port import Damaged

from .contract import JournalContract
from .stage import Life, Open, batch_of, published


@pytest.fixture
def open_life() -> Open:
    storage = MemoryStorage()
    return lambda: Life(MemoryJournal(storage))


class TestMemoryJournal(JournalContract):
    pass


def test_a_damaged_record_is_named_and_the_others_are_read() -> None:
    storage = MemoryStorage()
    life = Life(MemoryJournal(storage))
    life.restore()
    life.publish(b"one", b"two", b"three")
    storage.damaged[2] = "as the test wants"
    assert life.read([1, 2, 3]) == [published(b"one"), Damaged(2, "as the test wants"), published(b"three")]


def test_a_commit_waits_when_held_and_is_lost_when_the_journal_closes_before() -> None:
    storage = MemoryStorage()
    journal = MemoryJournal(storage, hold=True)
    journal.open()
    answers: list[BaseException | None] = []
    journal.commit(batch_of(1, [published(b"x")]), answers.append)
    with pytest.raises(ValueError, match="in flight"):
        journal.commit(batch_of(2, [published(b"y")]), answers.append)
    assert answers == []
    journal.release()
    assert answers == [None]
    journal.commit(batch_of(2, [published(b"y")]), answers.append)
    journal.close()
    assert MemoryJournal(storage).open().next_position == 2


def test_after_a_failure_every_commit_fails() -> None:
    journal = MemoryJournal()
    journal.open()
    journal.failure = OSError("no space")
    answers: list[BaseException | None] = []
    for _ in range(2):
        journal.commit(batch_of(1, [published(b"x")]), answers.append)
    assert all(isinstance(answer, JournalFailed) for answer in answers)
    assert len(answers) == 2
