"""A private journal is a copy of the shared one, and never holds up the broker."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from broker_app.config import ConfigError, load
from broker_app.journal.copy_mark import NOTE
from broker_app.journal.errors import JournalFailed, JournalInUse
from broker_app.journal.shared.private_journal import COPYING, FAILED, IN_STEP
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Carried, Holder, LogBatch, Store, StoreFull
from broker_app.journal.stores.directory.store import FileStore
from broker_app.storage.factory import store_at
from broker_app.storage.private_journal import (
    NoPrivateJournal,
    StalePrivateJournal,
    compare,
    refuse_replacement,
    refuse_stale,
    replace,
)
from tests.support.chance import FIRST_SEED, rounds
from tests.support.polling import poll
from tests.support.postgres import Postgres

from .stage import SERVERS, Life, content_of

ONE = Holder("one:8000", "stomp://one:61613")
TWO = Holder("two:8000", "stomp://two:61613")
NAME = "B1"
NUMBERS = itertools.count()


class FailingStore(FileStore):
    """Has no space after so many writes, until it is opened again."""

    writes_left = 1_000_000

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        self._count()
        super().append_all(segment, batches)

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        self._count()
        super().carry(segment, carried, sources)

    def _count(self) -> None:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise StoreFull(f"{self.description}: no space left")


class PairedLife(Life):
    """One holder of a shared journal, with a private one."""

    journal: SharedJournal

    def __init__(self, shared: Store, private: Store, holder: Holder, wanted: Sequence[int]) -> None:
        self.shared, self.private = shared, private
        super().__init__(SharedJournal(shared, holder, lease_s=30, segment_bytes=512, private=private))
        self.restore(wanted)

    @property
    def state(self) -> str:
        assert self.journal.private is not None
        return self.journal.private.state

    def wait_until_copied(self) -> None:
        poll(lambda: self.state != COPYING)

    def wait_until_in_step(self) -> None:
        self.wait_until_copied()
        assert self.state == IN_STEP, self.journal.private

    def assert_equal(self) -> None:
        """The private journal has the same frames in the same segments, and the same snapshot."""
        assert content_of(self.private) == content_of(self.shared)


@pytest.fixture(params=["file", SERVERS[0]])
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "file":
        return lambda: FileStore(tmp_path / "shared", NAME)
    server: Postgres = request.getfixturevalue("postgres")
    name = f"private{next(NUMBERS)}"
    return lambda: store_at(server.url, name)


def storm(life: PairedLife, chance: random.Random, live: list[int]) -> None:
    """Publish, settle and write snapshots, so that segments are carried over and deleted."""
    for _ in range(chance.randrange(60)):
        match chance.randrange(8):
            case 0:
                life.snapshot(chance.randbytes(20))
            case 1 | 2 | 3 if live:
                chosen = chance.sample(live, chance.randint(1, len(live)))
                life.settle(*chosen)
                live[:] = [position for position in live if position not in chosen]
            case _:
                bodies = [chance.randbytes(chance.randrange(200)) for _ in range(chance.randint(1, 4))]
                live += life.publish(*bodies)


@pytest.mark.parametrize("number", rounds(2, 200))
def test_it_equals_the_shared_journal_whoever_served_meanwhile(
    shared_store: Callable[[], Store], tmp_path: Path, number: int
) -> None:
    chance = random.Random(FIRST_SEED + number)
    live: list[int] = []
    for _ in range(6):
        holder = chance.choice((ONE, TWO))
        private = FailingStore(tmp_path / holder.name, NAME)
        if chance.random() < 0.3:
            private.writes_left = chance.randrange(10)
        life = PairedLife(shared_store(), private, holder, live)
        storm(life, chance, live)
        life.wait_until_copied()
        storm(life, chance, live)
        if life.state == IN_STEP:
            life.assert_equal()
        else:
            assert private.writes_left < 0
            assert NOTE in private.notes(NOTE)
        life.close()


def test_the_storms_carry_segments_over_and_delete_them(tmp_path: Path) -> None:
    chance, live = random.Random(0), list[int]()
    life = PairedLife(FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / "own", NAME), ONE, live)
    life.wait_until_in_step()
    for _ in range(6):
        storm(life, chance, live)
    counted = life.journal.statistics()
    assert counted["segments_copied"] > 1
    assert counted["segments_deleted"] > 1
    life.assert_equal()
    life.close()


def test_a_broker_starts_with_the_private_journal_when_the_shared_one_is_lost(tmp_path: Path) -> None:
    life = PairedLife(FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / "own", NAME), ONE, [])
    positions = life.publish(b"one", b"two")
    life.wait_until_in_step()
    positions += life.publish(b"three")
    records = life.read(positions)
    life.close()
    alone = Life(SharedJournal(FileStore(tmp_path / "own", NAME), ONE, lease_s=30))
    alone.restore(positions)
    assert alone.read(positions) == records
    alone.close()


def test_a_private_journal_without_space_is_given_up_and_completed_at_the_next_start(tmp_path: Path) -> None:
    private = FailingStore(tmp_path / "own", NAME)
    life = PairedLife(FileStore(tmp_path / "shared", NAME), private, ONE, [])
    positions = life.publish(b"one")
    life.wait_until_in_step()
    private.writes_left = 0
    positions += life.publish(b"two")
    assert life.journal.private is not None
    assert (life.state, life.journal.private.pending_frames) == (FAILED, 0)
    assert "no space left" in life.journal.private.error
    positions += life.publish(b"three")
    life.close()
    with pytest.raises(JournalFailed, match="incomplete"):
        SharedJournal(FileStore(tmp_path / "own", NAME), ONE).open()
    again = PairedLife(
        FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / "own", NAME), ONE, positions
    )
    again.wait_until_in_step()
    again.assert_equal()
    again.close()


def test_the_private_journal_of_another_broker_is_left_as_it_is(tmp_path: Path) -> None:
    other = PairedLife(FileStore(tmp_path / "other", NAME), FileStore(tmp_path / "own", NAME), ONE, [])
    positions = other.publish(b"precious")
    other.wait_until_in_step()
    records = other.read(positions)
    other.close()
    life = PairedLife(FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / "own", NAME), ONE, [])
    assert life.journal.private is not None
    assert life.state == FAILED
    assert "mom journal replace-private" in life.journal.private.error
    life.publish(b"other")
    life.close()
    alone = Life(SharedJournal(FileStore(tmp_path / "own", NAME), ONE, lease_s=30))
    alone.restore(positions)
    assert alone.read(positions) == records
    alone.close()


def serve(tmp_path: Path, holder: Holder, live: Sequence[int] = ()) -> list[int]:
    """Serve for a moment, with a private journal; the positions of what was published."""
    private = FileStore(tmp_path / holder.name, NAME)
    life = PairedLife(FileStore(tmp_path / "shared", NAME), private, holder, live)
    positions = life.publish(b"of " + holder.name.encode())
    life.wait_until_in_step()
    life.close()
    return positions


def test_a_private_journal_is_refused_after_another_broker_has_served(tmp_path: Path) -> None:
    shared, private = FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / ONE.name, NAME)
    refuse_stale(shared, private, ONE.name)  # neither was ever used
    positions = serve(tmp_path, ONE)
    refuse_stale(shared, private, ONE.name)
    serve(tmp_path, TWO, positions)
    with pytest.raises(StalePrivateJournal) as refused:
        refuse_stale(shared, private, ONE.name)
    for part in (str(tmp_path / "shared"), str(tmp_path / ONE.name), "epoch 1.", "epoch 2 of two:8000"):
        assert part in str(refused.value).replace("epoch 1;", "epoch 1.")
    refuse_stale(shared, FileStore(tmp_path / TWO.name, NAME), TWO.name)


def test_a_private_journal_beside_an_empty_shared_one_is_refused(tmp_path: Path) -> None:
    serve(tmp_path, ONE)
    with pytest.raises(StalePrivateJournal, match=r"empty.*MOM_JOURNAL.*mom journal copy"):
        refuse_stale(FileStore(tmp_path / "empty", NAME), FileStore(tmp_path / ONE.name, NAME), ONE.name)


def test_a_replaced_private_journal_is_kept_under_another_name(tmp_path: Path) -> None:
    shared = f"file:{tmp_path}/shared"
    positions = serve(tmp_path, ONE)
    positions += serve(tmp_path, TWO, positions)
    found = compare(shared, tmp_path / ONE.name, NAME)
    assert [(side.epoch, side.holder, side.position) for side in found] == [
        (1, ONE.name, 2),
        (2, TWO.name, 3),
    ]
    refuse_replacement(found)
    kept = replace(tmp_path / ONE.name, NAME)
    assert kept.is_dir()
    assert kept.parent == tmp_path / ONE.name
    with pytest.raises(NoPrivateJournal, match="nothing has to be replaced"):
        refuse_replacement(compare(shared, tmp_path / ONE.name, NAME))
    again = PairedLife(
        FileStore(tmp_path / "shared", NAME), FileStore(tmp_path / ONE.name, NAME), ONE, positions
    )
    again.wait_until_in_step()
    again.assert_equal()
    with pytest.raises(JournalInUse, match="one:8000 serves with this private journal"):
        refuse_replacement(compare(shared, tmp_path / ONE.name, NAME))
    again.close()


def test_a_private_journal_needs_a_shared_one_in_another_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"copy of a shared journal: set --journal"):
        load({"MOM_PRIVATE_JOURNAL": str(tmp_path)})
    with pytest.raises(ConfigError, match="it is the directory of the shared journal itself"):
        load({"MOM_PRIVATE_JOURNAL": str(tmp_path), "MOM_JOURNAL": f"file:{tmp_path}"})
