"""A journal that was copied to another backend is the same journal: positions, ids, order, state."""

from __future__ import annotations

import itertools
import tracemalloc
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import live_positions
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, JournalInUse
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.port import Damaged, Journal
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.tools import copy
from broker_app.journal.tools.content import FilesContent
from broker_app.journal.tools.copy import Copied
from broker_app.journal.tools.copy_target import FilesTarget, JournalExists, StoredFrame
from broker_app.storage.copying import NoJournal, copy_journal, live_records
from broker_app.storage.factory import is_address, store_at
from broker_app.storage.offline import compact
from broker_app.storage.recovery import rebuild
from tests.core.stage import Stage
from tests.core.storm import Storm
from tests.support.chance import rounds
from tests.support.postgres import Postgres
from tests.support.redis import Redis

from .stage import Life, batch_of, quick_journal, set_now, whole_log

NUMBERS = itertools.count()
ONE = Holder("one:8000", "stomp://one:61613")


class Places:
    """A data directory, and an empty place in each backend."""

    def __init__(self, folder: Path, postgres: str, redis: str) -> None:
        self.name = f"copy{next(NUMBERS)}"
        self.data = folder / "data"
        self.others = {
            "postgres": postgres,
            "redis": redis,
            "file": f"file:{folder}/shared",
            "files": str(folder / "other"),
        }

    def copy(self, source: str, target: str) -> Copied:
        return copy_journal(source, target, self.name, lambda done, total: None)

    def open(self, place: str) -> Journal:
        """The journal at a place, not open yet."""
        if is_address(place):
            return SharedJournal(store_at(place, self.name), ONE, lease_s=30)
        return SegmentJournal(Path(place) / "journal")


@pytest.fixture
def places(tmp_path: Path, postgres: Postgres, redis: Redis) -> Places:
    return Places(tmp_path, postgres.url, redis.url)


def fill(data: Path, seed: int) -> None:
    """Write the journal of a broker that has been through a storm, with a snapshot and carry files."""
    storm = Storm(seed)
    storm.blow(400, drain=False)
    batches = storm.stage.batches
    life = Life(quick_journal(data / "journal", segment_bytes=2048))
    life.restore()
    for number, stored in enumerate(batches):
        if number == 3 * len(batches) // 4:
            life.close()
            compact(data / "journal", lambda sentence: None)
            life = Life(quick_journal(data / "journal", segment_bytes=2048))
        records = [record for _, record in codec.iterate_records(stored.records)]
        batch = batch_of(stored.first_position, records)
        batch.destinations = stored.destinations
        life.commit(batch)
    life.close()


def publish(life: Life, *bodies: bytes) -> list[bytes]:
    """Commit messages, one a batch; their records."""
    stage = Stage()
    stage.broker.turn.next_position = life.next
    client = stage.client()
    for body in bodies:
        client.publish("/queue/q", body)
    for stored in stage.batches:
        batch = batch_of(stored.first_position, [stored.records], keep=[stored.first_position])
        batch.destinations = stored.destinations
        life.commit(batch)
    return [stored.records for stored in stage.batches]


class State:
    """The state of a broker that starts with a journal, and the records that it can read."""

    def __init__(self, journal: Journal) -> None:
        broker = Broker()
        rebuild(broker, journal)
        self.snapshot = take_snapshot(broker)
        self.tag, self.epoch = journal.tag, journal.epoch
        positions = array("Q", sorted(position for chunk in live_positions(broker) for position in chunk))
        journal.set_live_positions([positions])
        answers: list[list[bytes | Damaged] | None] = []
        journal.read(positions, lambda found, error: answers.append(found))
        (self.records,) = answers
        self.live = len(positions)
        journal.close()


@pytest.mark.parametrize("seed", rounds(3, 8))
def test_a_broker_is_the_same_after_a_journey_through_all_backends(places: Places, seed: int) -> None:
    fill(places.data, seed)
    route = [str(places.data), *places.others.values()]
    for source, target in itertools.pairwise(route):
        copied = places.copy(source, target)
    before, after = (State(places.open(place)) for place in (route[0], route[-1]))
    assert before.live == copied.live_records
    assert after.tag == before.tag
    assert after.epoch >= before.epoch
    assert after.snapshot == before.snapshot
    assert after.records == before.records


def test_cursors_and_the_log_behind_them_go_through_all_backends(places: Places) -> None:
    fill(places.data, 1)
    life = Life(quick_journal(places.data / "journal", segment_bytes=2048))
    span = life.journal.span()
    assert span.low < span.end
    set_now(life.journal, "archive", span.low)
    expected, log = life.journal.cursors(), [batch.records for batch in whole_log(life.journal)]
    life.close()
    route = [str(places.data), *places.others.values()]
    for source, target in itertools.pairwise(route):
        copied = places.copy(source, target)
        assert (copied.notes, copied.notes_left_out) == (1, 0)
        journal = places.open(target)
        again = Life(journal)
        assert journal.cursors() == expected
        assert journal.span() == span
        assert [batch.records for batch in whole_log(journal)] == log
        again.close()


def test_the_storms_leave_something_to_copy(tmp_path: Path) -> None:
    kinds, live = set[str](), 0
    for seed in range(8):
        fill(tmp_path / str(seed), seed)
        kinds |= {path.name.partition("-")[0] for path in (tmp_path / str(seed)).glob("journal/*-*")}
        live += State(SegmentJournal(tmp_path / str(seed) / "journal")).live
    assert {"log", "carry", "snapshot"} <= kinds
    assert live > 50


@pytest.mark.parametrize("kind", ["postgres", "redis", "file", "files"])
def test_a_broker_goes_on_with_the_copy(places: Places, kind: str) -> None:
    place = places.others[kind]
    life = Life(quick_journal(places.data / "journal"))
    life.restore()
    records = publish(life, b"one", b"two")
    life.close()
    places.copy(str(places.data), place)
    again = Life(places.open(place))
    assert [batch.first_position for batch in again.restore([1, 2])] == [1, 2]
    records += publish(again, b"three")
    assert again.read([1, 2, 3]) == records
    again.close()


def test_notes_go_from_store_to_store_and_are_counted_when_files_cannot_keep_them(places: Places) -> None:
    source = places.others["file"]
    life = Life(places.open(source))
    life.restore()
    publish(life, b"one")
    life.close()
    store = store_at(source, places.name)
    store.put_note("configuration", b"{}")
    store.put_note("takeover/1", b"\0")
    store.release()
    copied = places.copy(source, places.others["redis"])
    assert (copied.notes, copied.notes_left_out) == (2, 0)
    store = store_at(places.others["redis"], places.name)
    assert {key: note.content for key, note in store.notes("").items()} == {
        "configuration": b"{}",
        "takeover/1": b"\0",
    }
    store.release()
    left_out = places.copy(source, places.others["files"])
    assert (left_out.notes, left_out.notes_left_out) == (0, 2)


@pytest.mark.parametrize("kind", ["postgres", "redis", "file", "files"])
def test_a_journal_in_use_is_neither_read_nor_written(places: Places, kind: str) -> None:
    life = Life(quick_journal(places.data / "journal"))
    life.restore()
    publish(life, b"one")
    life.close()
    place = places.others[kind]
    if not is_address(place):
        Path(place).mkdir()
    held = Life(places.open(place))
    with pytest.raises(JournalInUse, match=r"the journal is in use by (one:8000 at stomp|process \d+)"):
        places.copy(str(places.data), place)
    held.restore()
    publish(held, b"other")
    with pytest.raises(JournalInUse, match="the journal is in use by"):
        places.copy(place, str(places.data.parent / "third"))
    held.close()


@pytest.mark.parametrize("kind", ["postgres", "redis", "file", "files"])
def test_a_journal_is_never_overwritten(places: Places, kind: str) -> None:
    place = places.others[kind]
    other = Life(places.open(place))
    other.restore()
    precious = publish(other, b"precious")
    other.close()
    life = Life(quick_journal(places.data / "journal"))
    life.restore()
    publish(life, b"one")
    life.close()
    with pytest.raises(JournalExists, match=r"contains a journal.*name another"):
        places.copy(str(places.data), place)
    again = Life(places.open(place))
    assert [batch.count for batch in again.restore([1])] == [1]
    assert again.read([1]) == precious
    again.close()


@pytest.mark.parametrize("kind", ["postgres", "redis", "file", "files"])
def test_an_interrupted_copy_is_served_by_no_broker_and_completed_by_a_repetition(
    places: Places, kind: str
) -> None:
    place = places.others[kind]
    life = Life(quick_journal(places.data / "journal", segment_bytes=2048))
    life.restore()
    publish(life, *(b"%d" % number * 100 for number in range(100)))
    life.close()

    def interrupt(done: int, total: int) -> None:
        assert total == 100
        if done == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_journal(str(places.data), place, places.name, interrupt)
    with pytest.raises(JournalFailed, match=r"the copy of .*data/journal was interrupted"):
        places.open(place).open()
    with pytest.raises(JournalFailed, match="was interrupted, so this journal is incomplete"):
        places.copy(place, str(places.data.parent / "third"))
    third = Life(quick_journal(places.data.parent / "fourth" / "journal"))
    third.restore()
    publish(third, b"of another broker")
    third.close()
    with pytest.raises(JournalExists, match="an interrupted copy of another journal"):
        places.copy(str(places.data.parent / "fourth"), place)
    assert places.copy(str(places.data), place).records == 100
    again = Life(places.open(place))
    assert again.next == 101
    assert len(again.restore(range(1, 101))) == 100
    again.close()


def test_a_damaged_journal_is_not_copied(places: Places) -> None:
    life = Life(quick_journal(places.data / "journal"))
    life.restore()
    publish(life, b"one", b"two", b"three")
    life.close()
    (log,) = (places.data / "journal").glob("log-*.seg")
    content = bytearray(log.read_bytes())
    content[content.index(b"two")] ^= 1
    log.write_bytes(content)
    with pytest.raises(JournalDamaged, match="mom journal repair"):
        places.copy(str(places.data), places.others["file"])


def test_a_place_without_a_journal_is_named_with_what_to_name_instead(places: Places) -> None:
    for place in places.others.values():
        with pytest.raises(NoJournal, match="name the"):
            places.copy(place, str(places.data))
    life = Life(quick_journal(places.data / "journal"))
    life.close()
    with pytest.raises(NoJournal, match="is the journal itself; name the data directory that it is in"):
        places.copy(str(places.data / "journal"), places.others["file"])


class LosingTarget(FilesTarget):
    """Loses the last frame of each segment."""

    def write(self, segment: int, frames: Iterator[StoredFrame]) -> None:
        super().write(segment, iter(list(frames)[:-1]))


def test_a_copy_that_lacks_something_stays_marked_as_incomplete(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path / "journal"))
    life.restore()
    publish(life, b"one", b"two")
    life.close()
    files = Files(tmp_path / "copy")
    files.create_directory()
    source = FilesContent(Files(tmp_path / "journal"))
    with pytest.raises(JournalFailed, match="the copy differs from position 2 on"):
        copy.copy(source, LosingTarget(files), live_records, lambda done, total: None)
    with pytest.raises(JournalFailed, match="was interrupted"):
        SegmentJournal(tmp_path / "copy").open()


@pytest.mark.parametrize("kind", ["postgres", "redis", "file", "files"])
def test_memory_does_not_grow_with_the_journal(places: Places, kind: str) -> None:
    mib = 1024 * 1024
    life = Life(quick_journal(places.data / "journal", segment_bytes=4 * mib))
    life.restore()
    for _ in range(64):
        publish(life, b"." * mib)
    life.close()
    tracemalloc.start()
    places.copy(str(places.data), places.others[kind])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * mib
