"""The in-memory journal keeps the contract, and can fail and wait when told to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker_app.journal.errors import Busy
from broker_app.journal.port import Damaged
from tests.support.memory_journal import MemoryJournal, MemoryStorage

from .contract import JournalContract
from .stage import Broken, Life, Open, batch_of, published


@pytest.fixture(params=["at once", "held"])
def open_life(request: pytest.FixtureRequest) -> Open:
    storage = MemoryStorage()
    if request.param == "at once":
        return lambda: Life(MemoryJournal(storage))

    def open_held() -> Life:
        journal = MemoryJournal(storage, hold=True)
        journal.hold_reads = True

        def wait(condition: Callable[[], bool]) -> None:
            journal.release_reads()
            if not condition():
                journal.release()

        return Life(journal, wait)

    return open_held


@pytest.fixture
def broken() -> Broken:
    @contextmanager
    def fail(life: Life, work: str) -> Iterator[None]:
        journal = life.journal
        assert isinstance(journal, MemoryJournal)
        if work == "commits":
            journal.failure = OSError("the test wants it")
        elif work == "snapshots":
            journal.snapshot_failure = OSError("the test wants it")
        else:
            journal.read_failure = Busy("the test wants it")
        yield

    return fail


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
