"""Records of a journal are found whenever they are read: while its upkeep replaces and deletes segments, and
while another broker takes it over.

In an order, a broker publishes, reads, settles and writes snapshots until another one has taken its journal
over, or, of a journal of its own, until it is killed. The threads of both go on in steps (`Steps`). The taker
has to find what was confirmed, and to read what waits, while the threads of the former one still go on.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from broker_app.journal import codec
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.port import Damaged, Journal, OpenResult, StoredBatch
from broker_app.journal.shared import frame_reader
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Fenced, Holder, Store
from broker_app.journal.stores.directory.store import FileStore
from tests.support.chance import FIRST_SEED, rounds
from tests.support.temporary import temporary_directory

from .killed import encode_state
from .stage import SERVERS, SETTLED, Answer, Life, batch_of, published
from .steps import Flaky, Loop, PostgresJournals, RedisJournals, Steps, Stopped

#: of each journal and store
ORDERS = {
    "own files": rounds(50, 4_250),
    "files": rounds(150, 20_000),
    "redis": rounds(10, 2_000),
    "postgres": rounds(5, 2_000),
}
#: one position in so many is not settled: mostly dead segments are what is copied
_KEPT = 9
Records = dict[int, bytes]


class Batch(NamedTuple):
    """A batch whose commit was not answered yet."""

    waiting: Records
    next: int


class Broker:
    """A small broker. Its snapshots are positions of what waits, and a record frees the positions in it."""

    def __init__(self, name: str, journal: Journal, steps: Steps, loop: Loop) -> None:
        self.journal = journal
        self.waiting: Records = {}
        self.next = 0
        self.is_open = False
        #: where it is, if the batch that is on its way is stored
        self.pending: Batch | None = None
        self.asked: list[tuple[Answer[list[bytes | Damaged]], list[bytes]]] = []
        self._name = name.encode()
        self._steps = steps
        self._chance = steps.chance
        self._opener = steps.worker("opener", loop.call_soon_threadsafe)
        self._snapshot: Answer[None] | None = None
        self._error: Exception | None = None

    # ---------------------------------------------------------------------- opening

    def open(self) -> None:
        """Take the journal, in a thread, from whichever broker has it."""
        self._opener.submit(self._take, self._taken)

    def wait_until_open(self) -> None:
        """Raise what opening has raised."""
        self._steps.wait(lambda: self.is_open or self._error is not None)
        if self._error is not None:
            raise self._error

    def _take(self) -> tuple[OpenResult, list[StoredBatch]]:
        journal = self.journal
        opened = journal.open(force=True) if isinstance(journal, SharedJournal) else journal.open()
        return opened, list(self.journal.replay())

    def _taken(self, found: tuple[OpenResult, list[StoredBatch]] | None, error: Exception | None) -> None:
        self._error = error
        if found is None:
            return
        opened, batches = found
        wanted = {int(word): b"" for word in (opened.snapshot or b"").split()}
        for batch in batches:
            records = codec.iterate_records(batch.records)
            for position, (kind, record) in enumerate(records, batch.first_position):
                if kind == codec.PUBLISHED:
                    wanted[position] = record
                else:
                    for word in record[codec.RECORD_HEADER_BYTES :].split():
                        del wanted[int(word)]
        self.journal.set_live_positions([array("Q", sorted(wanted))])
        self.waiting, self.next, self.is_open = wanted, opened.next_position, True

    # ------------------------------------------------------------------------- work

    def work(self, turns: int) -> bool:
        """Work for so many turns; False when a commit was refused, since the journal is another one's."""
        return all(self._turn() for _ in range(turns))

    def _turn(self) -> bool:
        if not self._publish():
            return False
        kept = [one for one in self.waiting if one % _KEPT == 0 or self._chance.random() < 0.4]
        for _ in range(self._chance.randint(0, 2)):
            if kept:
                self.ask(sorted(self._chance.sample(kept, min(len(kept), self._chance.randint(1, 4)))))
        # What is asked for is settled when it was answered, as the broker does it.
        self._steps.wait(lambda: not self._unanswered or self._chance.random() < 0.05)
        if not self._settle(kept):
            return False
        if self._chance.random() < 0.4 and (self._snapshot is None or self._snapshot.is_there()):
            self._snapshot = Answer()
            self.journal.snapshot(self.next, [encode_state(self.waiting)], self._snapshot.done)
        return True

    def _publish(self) -> bool:
        records = [
            published(b"%s:%d:%d" % (self._name, self.next, one) * 5)
            for one in range(self._chance.randint(1, 5))
        ]
        positions = range(self.next, self.next + len(records))
        new = dict(zip(positions, records, strict=True))
        return self._commit(batch_of(self.next, records, keep=positions), self.waiting | new)

    def _settle(self, kept: list[int]) -> bool:
        unanswered = {record for _, records in self._unanswered for record in records}
        settled = [
            one for one, record in self.waiting.items() if one not in kept and record not in unanswered
        ]
        if not settled:
            return True
        record = codec.encode_record(SETTLED, encode_state(settled))
        left = {one: record for one, record in self.waiting.items() if one not in settled}
        return self._commit(batch_of(self.next, [record], free=settled), left)

    def _commit(self, batch: Any, waiting: Records) -> bool:
        self.pending = Batch(waiting, self.next + batch.count)
        answer = Answer[None]()
        self.journal.commit(batch, answer.done)
        self._steps.wait(answer.is_there)
        if answer.error is not None:
            assert isinstance(answer.error, Fenced)
            return False
        self.waiting, self.next = self.pending
        self.pending = None
        return True

    # ---------------------------------------------------------------------- reading

    def ask(self, positions: list[int]) -> None:
        """Ask for what waits at these positions."""
        answer = Answer[list[bytes | Damaged]]()
        self.journal.read(positions, answer.found)
        self.asked.append((answer, [self.waiting[position] for position in positions]))

    def check(self, *, is_taken: bool = False) -> None:
        """Check the answers that are there, and forget them. If the journal `is_taken`, it may refuse."""
        for answer, records in self.asked:
            if answer.is_there() and not (is_taken and isinstance(answer.error, Fenced)):
                assert answer.result == records
        self.asked = self._unanswered

    def check_as_former(self) -> None:
        """Check the last answers to a broker whose journal another one has: nothing that was settled there is
        shown as something else."""
        for answer, records in self.asked:
            assert answer.is_there()
            if not isinstance(answer.error, Fenced):
                found = zip(answer.result, records, strict=True)
                assert all(isinstance(one, Damaged) or one == record for one, record in found)

    @property
    def _unanswered(self) -> list[tuple[Answer[list[bytes | Damaged]], list[bytes]]]:
        return [(answer, records) for answer, records in self.asked if not answer.is_there()]

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()
        self._opener.close()


class Site:
    """The journal of an order, and the brokers that have it one after the other."""

    def __init__(self, steps: Steps, make: Callable[[Loop, str], Journal]) -> None:
        self.steps = steps
        self._make = make
        self._brokers: list[Broker] = []

    def broker(self, name: str) -> Broker:
        """A broker that is going to have the journal."""
        loop = self.steps.loop()
        made = Broker(name, self._make(loop, name), self.steps, loop)
        self._brokers.append(made)
        made.open()
        return made

    @property
    def segments_copied(self) -> int:
        """How many segments of any broker were replaced, because most of what was in them was settled."""
        return sum(one.journal.statistics()["segments_copied"] for one in self._brokers)

    def close(self) -> None:
        """Close all, however far they are."""
        for one in self._brokers:
            one.close()


def _succeed(former: Broker, taker: Broker) -> None:
    """Check that the taker has what the former one was promised, and reads it."""
    states = [(former.waiting, former.next), *([former.pending] if former.pending is not None else [])]
    found = [
        waiting for waiting, end in states if end == taker.next and waiting.keys() == taker.waiting.keys()
    ]
    assert found, f"{sorted(taker.waiting)} before {taker.next} is none of {states}"
    for position, record in taker.waiting.items():
        assert record in (b"", found[0][position])
    taker.waiting = dict(found[0])


def _order_of_a_takeover(site: Site) -> None:
    """One broker works until another one has taken its journal over, and a third one from that."""
    one = site.broker("one")
    one.wait_until_open()
    assert one.work(site.steps.chance.randint(2, 5))
    # Half of them begin while the upkeep replaces or deletes something.
    awaited = site.steps.chance.randint(0, 1) * 6
    while awaited and not site.steps.works("journal-upkeep"):
        assert one.work(1)
        awaited -= 1
    two = site.broker("two")
    if site.steps.chance.random() < 0.3:  # the first one was paused
        two.wait_until_open()
    while one.work(1):
        one.check(is_taken=True)
    two.wait_until_open()
    _go_on(site.steps, one, two)
    one.check_as_former()
    three = site.broker("three")
    three.wait_until_open()
    _succeed(two, three)


def _order_of_a_kill(site: Site, folder: Path) -> None:
    """One broker works until it is killed at some step, and starts again."""
    one = site.broker("one")
    one.wait_until_open()
    site.steps.stop_in = site.steps.chance.randint(50, 350)
    with suppress(Stopped):
        while one.work(1):
            one.check()
    site.steps.stop_in = -1
    shutil.copytree(folder / "one", folder / "two")  # as the kill leaves it, while the first one is going on
    two = site.broker("two")
    two.wait_until_open()
    _go_on(site.steps, one, two)
    one.check()


def _go_on(steps: Steps, former: Broker, taker: Broker) -> None:
    """Check what the taker has, and what it reads, until the threads of both have come to their ends."""
    _succeed(former, taker)
    for _ in range(steps.chance.randint(1, 3)):
        assert taker.work(1)
        taker.check()
    taker.ask(sorted(taker.waiting))
    steps.finish()
    taker.check()
    assert not taker.asked


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory: a file system of a disk takes several times as long."""
    with temporary_directory("orders", in_memory=True) as directory:
        yield Path(directory)


@pytest.fixture
def stores(request: pytest.FixtureRequest, memory: Path, kind: str) -> Iterator[Callable[[str], Store]]:
    """Makes a store of the journal of a name."""
    if kind == "postgres":
        with closing(PostgresJournals(request.getfixturevalue(kind).url, memory.name)) as journals:
            yield journals.store
    elif kind == "redis":
        with closing(RedisJournals(request.getfixturevalue(kind).url)) as journals:
            yield journals.store
    else:
        yield lambda name: FileStore(memory / name, "j")


@pytest.fixture
def journals(
    memory: Path, kind: str, stores: Callable[[str], Store]
) -> Callable[[Steps, str, Loop, str], Journal]:
    """Makes the journal of a name, as a broker has it."""

    def make(steps: Steps, name: str, loop: Loop, broker: str) -> Journal:
        options: dict[str, Any] = {"cache_bytes": 1, "call_soon_threadsafe": loop.call_soon_threadsafe}
        if kind == "own files":
            directory = memory / name / broker
            return SegmentJournal(directory, segment_bytes=1024, inline_sync_bytes=0, **options)
        flaky = cast(Store, Flaky(stores(name), steps.chance))
        return SharedJournal(flaky, Holder(broker), lease_s=3_600, segment_bytes=512, **options)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own files", "files", *SERVERS])
def test_what_waits_is_read_in_whatever_order_threads_loops_and_takers_go_on(
    kind: str, journals: Callable[..., Journal], memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = 0
    for number in ORDERS[kind]:
        name = f"{memory.name}-{number}"
        steps = Steps(FIRST_SEED + number)
        with monkeypatch.context() as patch:
            steps.patch(patch)
            site = Site(steps, partial(journals, steps, name))
            try:
                if kind == "own files":
                    _order_of_a_kill(site, memory / name)
                else:
                    _order_of_a_takeover(site)
                copied += site.segments_copied
            except BaseException as error:
                error.add_note(f"the order of the seed {FIRST_SEED + number}")
                raise
            finally:
                site.close()
        shutil.rmtree(memory / name, ignore_errors=True)
    assert copied > len(ORDERS[kind]) // 2, "the orders were too mild to show anything"


class Noting:
    """A store that notes the bytes of each query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queries: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def load(self, keys: Any) -> Any:
        frames = self._store.load(keys)
        self.queries.append(sum(map(len, frames.values())))
        return frames


def test_what_many_ask_for_at_once_is_fetched_in_queries_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(0)
    steps.patch(monkeypatch)
    monkeypatch.setattr(frame_reader, "QUERY_BYTES", 3_500)
    store = Noting(FileStore(tmp_path, "j"))
    journal = SharedJournal(
        cast(Store, store),
        Holder("one:8000", "stomp://one:61613"),
        segment_bytes=100_000,
        cache_bytes=1,
        call_soon_threadsafe=steps.loop().call_soon_threadsafe,
    )
    life = Life(journal, steps.wait)
    life.restore()
    bodies = [b"%d" % number * 1_000 for number in range(10)]
    positions = [position for body in bodies for position in life.publish(body)]
    for body in (b"x" * 5_000, b"the last one, which is kept"):
        positions += life.publish(body)
        bodies.append(body)
    store.queries.clear()
    asked = [life.ask([position]) for position in positions]
    steps.wait(lambda: all(answer.is_there() for answer in asked))
    assert [answer.result for answer in asked] == [[published(body)] for body in bodies]
    *others, largest = sorted(store.queries)  # one that is larger is fetched alone
    assert max(others) <= 3_500 and 5_000 < largest < 5_300 and len(others) < 7


def test_who_reads_again_when_an_answer_comes_is_answered_once(tmp_path: Path) -> None:
    journal = SharedJournal(FileStore(tmp_path, "j"), Holder("one:8000", "stomp://one:61613"))
    life = Life(journal)
    life.restore()
    first, second = (life.publish(body)[0] for body in (b"1", b"2"))
    answers: list[object] = []

    def found(records: object, error: Exception | None) -> None:
        answers.append(records or error)
        if len(answers) == 1:
            journal.read([second], found)

    journal.read([first], found)
    assert answers == [[published(b"1")], [published(b"2")]]
