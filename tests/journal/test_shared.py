"""Journals in shared stores keep the contract, and grant it to one broker at a time."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import psycopg
import pytest

from broker_app.journal.errors import JournalDamaged, JournalError, JournalFailed
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import (
    Carried,
    ErasableStore,
    Fenced,
    Grant,
    Holder,
    LeaseHeld,
    LogBatch,
    Store,
    StoreFull,
    Unreachable,
)
from broker_app.journal.stores.directory.store import FileStore
from broker_app.journal.stores.postgres import PostgresStore
from broker_app.journal.stores.redis import RedisStore
from tests.support.chance import rounds
from tests.support.polling import poll
from tests.support.postgres import Postgres
from tests.support.redis import Redis, redis_server

from .contract import JournalContract
from .stage import OLDER_SERVERS, SERVERS, Answer, Broken, Life, Open, Reports, batch_of, published

NUMBERS = itertools.count()
ONE, TWO = Holder("one:8000", "stomp://one:61613"), Holder("two:8000", "stomp://two:61613")


def store_of(kind: str, request: pytest.FixtureRequest, name: str) -> ErasableStore:
    """A store with connections of its own."""
    if kind == "files":
        return FileStore(request.getfixturevalue("tmp_path"), name)
    server: Postgres | Redis = request.getfixturevalue(kind)
    return (PostgresStore if isinstance(server, Postgres) else RedisStore)(server.url, name)


@pytest.fixture(params=[*SERVERS, *OLDER_SERVERS, "files"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class BrokenStore:
    """A store whose methods in `broken` fail."""

    def __init__(self, store: Store, broken: dict[str, JournalError]) -> None:
        self._store = store
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        return self._fail if name in self._broken else getattr(self._store, name)

    def _fail(self, *_: Any) -> Any:
        (error,) = self._broken.values()
        raise error


class Site:
    """A journal that is opened again and again, by one broker or another."""

    def __init__(self, make_store: Callable[[], Store], reports: Reports | None) -> None:
        #: the errors of methods of the store
        self.broken: dict[str, JournalError] = {}
        self.journals: list[SharedJournal] = []
        self._make_store = make_store
        self._reports = reports

    def journal(self, holder: Holder = ONE, lease_s: float = 30) -> SharedJournal:
        """The journal, not open yet."""
        made = SharedJournal(
            cast(Store, BrokenStore(self._make_store(), self.broken)),
            holder,
            lease_s=lease_s,
            segment_bytes=8192,
            call_soon_threadsafe=self._reports.call_soon_threadsafe if self._reports is not None else None,
        )
        self.journals.append(made)
        return made

    def life(self, holder: Holder = ONE, lease_s: float = 30) -> Life:
        """The journal, opened by a broker."""
        journal = self.journal(holder, lease_s)
        return Life(journal) if self._reports is None else Life(journal, self._reports.wait)


@pytest.fixture
def site(request: pytest.FixtureRequest, kind: str, reports: Reports | None) -> Iterator[Site]:
    name = f"j{next(NUMBERS)}"
    made = Site(lambda: store_of(kind, request, name), reports)
    yield made
    for one in made.journals:
        one.close()


@pytest.fixture
def open_life(site: Site) -> Open:
    return site.life


@pytest.fixture
def broken(site: Site) -> Broken:
    errors: dict[str, dict[str, JournalError]] = {
        "commits": {"append": JournalFailed("the test wants it")},
        "snapshots": {"put_snapshot": Unreachable("the test wants it")},
        "reads": {"load": Unreachable("the test wants it")},
    }

    @contextmanager
    def fail(_: Life, work: str) -> Iterator[None]:
        site.broken.update(errors[work])
        yield
        site.broken.clear()

    return fail


class TestSharedJournal(JournalContract):
    pass


def test_a_standby_opens_where_it_has_come_to(site: Site) -> None:
    one = site.life()
    one.restore()
    for body in (b"one", b"two", b"three"):
        one.publish(body)
    one.snapshot(position=2)
    standby = site.journal(TWO)
    with pytest.raises(LeaseHeld, match="one:8000"):
        standby.take_over(3)
    one.close()
    opened = standby.take_over(3)
    assert (opened.snapshot, opened.snapshot_position, opened.next_position) == (None, 3, 4)
    assert [batch.records for batch in standby.replay()] == [published(b"three")]
    assert standby.epoch == 2
    standby.set_live_positions([array("Q", [1, 2, 3])])
    # What the standby itself has replayed is not needed: the snapshot is from before that.
    standby.close()
    assert [batch.first_position for batch in site.life(TWO).restore()] == [2, 3]


@pytest.mark.parametrize("reports", ["in threads"], indirect=True)
def test_a_holder_is_told_once_that_another_broker_has_taken_over(site: Site) -> None:
    one = site.life(lease_s=2)
    one.restore()
    assert isinstance(one.journal, SharedJournal)
    assert 0 < one.journal.lease_left_s <= 2
    lost: list[JournalFailed] = []
    one.journal.on_lease_lost(lost.append)
    two = site.journal(TWO)
    two.take_over(1, force=True)
    one.wait(lambda: bool(lost))
    assert not one.journal.is_held, "although its lease had time left"
    (error,) = lost
    assert isinstance(error, Fenced)
    assert "two:8000 at stomp://two:61613 has taken over" in str(error)
    assert isinstance(one.try_commit(batch_of(1, [published(b"late")])), JournalFailed)
    one.journal.on_lease_lost(lost.append)
    assert lost == [error, error], "a listener that is added later is called at once"
    assert list(two.replay()) == []


def test_a_commit_after_a_takeover_is_refused_by_the_store(site: Site) -> None:
    one = site.life()
    one.restore()
    one.publish(b"in time")
    two = site.journal(TWO)
    two.take_over(2, force=True)
    assert isinstance(one.try_commit(batch_of(2, [published(b"late")])), Fenced)
    one.close()
    two.close()
    assert [batch.records for batch in site.life().restore()] == [published(b"in time")]


@pytest.mark.parametrize("reports", ["at once"], indirect=True)
def test_what_is_wanted_outlives_the_segments_around_it(open_life: Open) -> None:
    life = open_life()
    life.restore()
    kept: dict[int, bytes] = {}
    for number in range(20):
        bodies = [b"%d:%d" % (number, one) * 50 for one in range(10)]
        positions = life.publish(*bodies)
        kept[positions[3]] = published(bodies[3])
        life.settle(*(one for one in positions if one not in kept))
    life.snapshot()
    after = life.journal.statistics()
    assert after["segments_copied"] > 0
    assert after["bytes_stored"] < 20_000
    assert life.read(list(kept)) == list(kept.values())
    life.close()

    again = open_life()
    again.restore(list(kept))
    assert again.read(list(kept)) == list(kept.values())
    again.settle(*kept)
    again.snapshot()
    assert again.journal.statistics()["segments"] == 1, "the one that is being written"
    again.close()
    last = open_life()
    assert last.restore() == []
    assert last.publish(b"more") == [max(kept) + 9]


@pytest.fixture
def name() -> str:
    """The name of a journal that no other test has."""
    return f"j{next(NUMBERS)}"


@pytest.fixture
def stores(
    request: pytest.FixtureRequest, kind: str, name: str
) -> Iterator[tuple[ErasableStore, ErasableStore]]:
    """The stores of two brokers with one journal."""
    both = store_of(kind, request, name), store_of(kind, request, name)
    yield both
    for store in both:
        store.release()


def test_a_lease_is_granted_to_one_broker_and_names_it_to_the_other(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert two.lease() is None
    first = one.acquire(ONE, 30)
    with pytest.raises(LeaseHeld, match=r"one:8000 at stomp://one:61613 holds this journal for \d+"):
        two.acquire(TWO, 30)
    state = two.lease()
    assert state is not None
    assert (state.holder, state.epoch) == (ONE, first.epoch)
    assert 29 < state.left_s <= 30 and not state.is_released
    one.release()
    state = two.lease()
    assert state is not None
    assert (state.holder, state.left_s, state.is_released) == (ONE, 0, True)
    second = two.acquire(TWO, 30)
    assert (second.epoch, second.tag, second.created_us) == (first.epoch + 1, first.tag, first.created_us)


def test_a_lease_that_was_not_renewed_expires(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 0.2)
    one.renew(0.3)
    with pytest.raises(LeaseHeld):
        two.acquire(TWO, 30)
    deadline = time.monotonic() + 10
    while (state := two.lease()) is not None and state.left_s > 0:
        assert time.monotonic() < deadline
    assert state is not None and not state.is_released
    two.acquire(TWO, 30)
    with pytest.raises(Fenced, match="two:8000 at stomp://two:61613 has taken over"):
        one.renew(30)


def test_a_former_holder_changes_nothing(stores: tuple[ErasableStore, ErasableStore]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 1, b"first")
    one.put_snapshot(1, [b"state"])
    two.acquire(TWO, 30, force=True)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: one.append(1, 2, 1, b"late"),
        lambda: one.append(2, 2, 1, b"late"),
        lambda: one.put_snapshot(2, [b"late"]),
        lambda: one.delete([1]),
        lambda: one.carry(3, [], [1]),
        lambda: one.append_all(1, [LogBatch(2, 1, b"late")]),
        lambda: one.adopt(Grant(9, 1, 1)),
        lambda: one.put_holder_note("configuration", b"late"),
        one.erase,
        lambda: one.renew(30),
    )
    two.put_holder_note("configuration", b"mine")
    for attempt in attempts:
        with pytest.raises(Fenced, match="epoch 1 has ended"):
            attempt()
    assert list(two.frames(1)) == [b"first"]
    assert two.snapshot() == (1, b"state")
    assert {key: note.content for key, note in one.notes("conf").items()} == {"configuration": b"mine"}
    one.release()
    state = two.lease()
    assert state is not None and state.left_s > 20


def names_of(kind: str, request: pytest.FixtureRequest, journal: str) -> list[str]:
    """The names of all that a store has of a journal."""
    if kind == "files":
        folder = request.getfixturevalue("tmp_path")
        return [path.name for path in folder.iterdir() if path.name.startswith(f"mom_journal_{journal}")]
    server: Postgres | Redis = request.getfixturevalue(kind)
    if isinstance(server, Postgres):
        with psycopg.connect(server.url) as connection:
            where = "SELECT nspname FROM pg_namespace WHERE nspname = %s"
            return [row[0] for row in connection.execute(where, (f"mom_journal_{journal}",))]
    return [key.decode() for key in cast(Any, server.client).keys(f"{{mom:journal:{journal}}}*")]


def test_nothing_is_left_of_a_journal_that_is_erased_and_its_former_holders_are_fenced(
    stores: tuple[ErasableStore, ErasableStore], kind: str, request: pytest.FixtureRequest, name: str
) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    for position in range(1, 5):
        one.append(position, position, 1, b"%d" % position)
    one.carry(5, [Carried(1, [1], b"1")], [1])
    for position in (2, 3):
        one.put_snapshot(position, [b"state"])
    one.put_holder_note("configuration", b"mine")
    two.put_note("broker/two", b"")
    assert names_of(kind, request, name)
    two.acquire(TWO, 30, force=True)
    two.erase()
    assert names_of(kind, request, name) == []
    attempts: tuple[Callable[[], object], ...] = (
        lambda: one.append(6, 5, 1, b"late"),
        lambda: one.put_snapshot(5, [b"late"]),
        lambda: one.put_holder_note("configuration", b"late"),
        one.erase,
        lambda: one.renew(30),
    )
    for attempt in attempts:
        with pytest.raises(Fenced, match="epoch 1 has ended"):
            attempt()
    assert names_of(kind, request, name) == [], "the former holder has made it again"
    two.release()
    assert (two.lease(), two.extent()) == (None, None)
    assert two.acquire(TWO, 30).epoch == 1
    assert list(two.frames(1)) == []
    assert two.snapshot() is None


def test_what_is_left_when_an_erasing_holder_has_ended_in_between_is_erased_by_the_next(
    tmp_path: Path,
) -> None:
    one, two = FileStore(tmp_path, "b1"), FileStore(tmp_path, "b1")
    one.acquire(ONE, 30)
    (epoch,) = one.directory.glob("epoch-*")
    epoch.rename(tmp_path / "mom_journal_b1+of-one-that-has-ended")
    two.acquire(TWO, 30)
    two.erase()
    one.release()
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_is_stored_twice_is_there_once(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    for _ in range(2):
        one.append(1, 1, 5, b"batch")
    one.append(1, 6, 1, b"next")
    assert list(two.frames(1)) == [b"batch", b"next"]
    assert list(two.frames(6)) == [b"next"]
    assert list(two.frames(7)) == []
    assert [(row.first_position, row.records, row.size) for row in one.rows()] == [(1, 5, 5), (6, 1, 4)]


def test_frames_come_in_order_over_segments_and_many_runs(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    written = []
    for number in range(300):
        frame = b"%d" % number + b"." * (50_000 if number % 30 == 0 else 10)
        one.append(1 + number // 90, 1 + number, 1, frame)
        written.append(frame)
    assert list(two.frames(1)) == written
    assert list(two.frames(150)) == written[149:]


def test_many_batches_are_stored_at_once_and_each_once(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    one.append(1, 1, 2, b"first")
    batches = [LogBatch(1 + 2 * number, 2, b"%d" % number) for number in range(1, 100)]
    for _ in range(2):
        one.append_all(1, batches)
    written = [b"first", *(batch.frame for batch in batches)]
    assert list(two.frames(1)) == written
    assert one.load([(1, 51)]) == {(1, 51): b"25"}
    assert one.load([(1, 51), (2, 51), (1, 52)]) == {(1, 51): b"25"}, "what is not there is left out"
    assert one.load([]) == {}


def test_another_journal_goes_on_with_its_tag_and_a_later_epoch(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert one.acquire(ONE, 30).epoch == 1
    assert one.adopt(Grant(7, 42, 1_700_000_000_000_000)) == (7, 42, 1_700_000_000_000_000)
    one.append(1, 1, 1, b"first")
    one.renew(30)
    one.release()
    assert two.acquire(TWO, 30) == (8, 42, 1_700_000_000_000_000)
    assert two.adopt(Grant(3, 43, 1)) == (8, 43, 1)
    assert list(two.frames(1)) == [b"first"]


def test_notes_are_listed_by_prefix_with_their_age(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert one.notes("broker/") == {}
    one.put_note("broker/b", b"first")
    one.put_note("broker/a", b"\0binary")
    one.put_note("other", b"")
    two.put_note("broker/b", b"second")
    found = two.notes("broker/")
    assert {key: note.content for key, note in found.items()} == {
        "broker/a": b"\0binary",
        "broker/b": b"second",
    }
    assert all(0 <= note.age_s < 20 for note in found.values())
    two.drop_note("broker/a")
    two.drop_note("broker/a")
    assert list(one.notes("")) == ["broker/b", "other"]


def test_a_large_snapshot_replaces_the_former_one(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    assert (two.snapshot(), two.snapshot_position()) == (None, None)
    for position, content in ((5, b"a" * 20_000_000), (7, b"b"), (9, b"")):
        one.put_snapshot(position, [content[:10], content[10:]])
        assert two.snapshot() == (position, content)
        assert two.snapshot_position() == position


def test_damage_is_reported_with_its_position(kind: str, request: pytest.FixtureRequest) -> None:
    name = f"j{next(NUMBERS)}"
    life = Life(SharedJournal(store_of(kind, request, name), ONE))
    life.restore()
    for _ in range(3):
        life.publish(b"a", b"b")
    life.journal.close()
    truncate_batch(kind, request, name, 3)
    journal = SharedJournal(store_of(kind, request, name), TWO)
    again = Life(journal)
    with pytest.raises(JournalDamaged, match="position 3 is missing or damaged"):
        again.restore()
    journal.close()


def truncate_batch(kind: str, request: pytest.FixtureRequest, name: str, position: int) -> None:
    """Cut the end off a stored batch."""
    if kind == "files":
        (path,) = request.getfixturevalue("tmp_path").glob("*/epoch-*/*.log")
        content = path.read_bytes()
        rows = [at for at in range(len(content)) if content.startswith(b"MOMr", at)]
        at = rows[(position - 1) // 2] + 40
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        return
    server: Postgres | Redis = request.getfixturevalue(kind)
    if isinstance(server, Postgres):
        where = f"WHERE first_position = {position}"
        server.execute(f"UPDATE mom_journal_{name}.batch SET frame = substr(frame, 1, 40) {where}")
        return
    client: Any = server.client
    key = f"{{mom:journal:{name}}}:segment:1"
    entries = client.xrange(key)
    client.delete(key)
    for entry, fields in entries:
        cut = {**fields, b"frame": fields[b"frame"][:40]} if entry == b"%d-0" % position else fields
        client.xadd(key, cut, id=entry)


@pytest.mark.process
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"appendonly": "no"}, "appendonly no"),
        ({"appendfsync": "everysec"}, "appendfsync everysec"),
        ({"maxmemory_policy": "allkeys-lru"}, "maxmemory-policy allkeys-lru"),
    ],
)
def test_a_redis_that_would_lose_messages_is_refused(settings: dict[str, str], named: str) -> None:
    with redis_server(**settings) as server:
        with pytest.raises(
            JournalFailed, match=f"{named} the server would lose confirmed messages; start it"
        ):
            RedisStore(server.url, "j").acquire(ONE, 30)
        weaker = RedisStore(f"{server.url}?durability=unchecked", "j")
        assert "durability unchecked" in weaker.description
        weaker.acquire(ONE, 30)
        if named == "appendfsync everysec":
            RedisStore(f"{server.url}?durability=everysec", "k").acquire(ONE, 30)


def test_a_dump_of_the_database_holds_up_no_takeover(postgres: Postgres) -> None:
    name = f"j{next(NUMBERS)}"
    one, two = PostgresStore(postgres.url, name), PostgresStore(postgres.url, name)
    one.acquire(ONE, 30)
    with psycopg.connect(postgres.url) as dump:
        dump.execute(f"LOCK TABLE mom_journal_{name}.batch IN ACCESS SHARE MODE")
        two.put_note("broker/two", b"alive")
        two.acquire(TWO, 30, force=True)
        two.append(1, 1, 1, b"first")
    for store in (one, two):
        store.release()


def test_a_long_transaction_of_the_holder_holds_up_a_takeover_and_no_renewal(postgres: Postgres) -> None:
    name = f"j{next(NUMBERS)}"
    one, two = PostgresStore(postgres.url, name), PostgresStore(postgres.url, name)
    one.acquire(ONE, 30)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE lease%'"
    with ThreadPoolExecutor(1) as pool:
        with one._holding("upkeep") as connection:
            for _ in range(3):
                one.renew(30)
            taken = pool.submit(two.acquire, TWO, 30, force=True)
            poll(lambda: postgres.execute(waiting))
            connection.execute("DELETE FROM snapshot")
            assert not taken.done()
        assert taken.result(20).epoch == 2
    with pytest.raises(Fenced):
        one.append(1, 1, 1, b"late")
    for store in (one, two):
        store.release()


def test_a_takeover_that_waited_for_the_holder_sees_what_it_renewed_meanwhile(postgres: Postgres) -> None:
    name = f"j{next(NUMBERS)}"
    one, two = PostgresStore(postgres.url, name), PostgresStore(postgres.url, name)
    one.acquire(ONE, 0)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE lease%'"
    with ThreadPoolExecutor(1) as pool:
        with one._holding("upkeep"):
            refused = pool.submit(two.acquire, TWO, 30)
            poll(lambda: postgres.execute(waiting))
            one.renew(30)
        with pytest.raises(LeaseHeld):
            refused.result(20)
    one.append(1, 1, 1, b"first")
    for store in (one, two):
        store.release()


def test_a_broker_that_is_lost_in_the_middle_of_a_transaction_holds_up_no_takeover(
    postgres: Postgres,
) -> None:
    name = f"j{next(NUMBERS)}"
    one, two = PostgresStore(postgres.url, name), PostgresStore(postgres.url, name)
    one.acquire(ONE, 0)

    def is_taken() -> bool:
        try:
            return two.acquire(TWO, 30).epoch == 2
        except Unreachable:
            return False

    def work() -> None:
        with one._holding("upkeep") as connection:
            poll(is_taken, 20)  # it sends nothing more
            connection.execute("INSERT INTO snapshot VALUES (1, 0, '')")

    with pytest.raises(JournalError):
        work()
    assert two.snapshot() is None
    for store in (one, two):
        store.release()


def test_brokers_that_start_at_once_make_one_journal(postgres: Postgres) -> None:
    def start(store: Store, ready: Barrier) -> int:
        ready.wait()
        store.put_note("broker", b"")
        try:
            return store.acquire(ONE, 30).epoch
        except LeaseHeld:
            return 0

    for _ in range(5):
        name, ready = f"j{next(NUMBERS)}", Barrier(4)
        stores = [PostgresStore(postgres.url, name) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(partial(start, ready=ready), stores)) == [0, 0, 0, 1]
        for store in stores:
            store.release()


@pytest.mark.parametrize("begins", ["never held", "expired", "given back"])
def test_of_brokers_that_ask_at_once_one_is_granted_the_lease_and_the_others_are_told(
    kind: str, begins: str, request: pytest.FixtureRequest
) -> None:
    def ask(store: Store, ready: Barrier) -> int:
        ready.wait()
        try:
            return store.acquire(ONE, 30).epoch
        except LeaseHeld:
            return 0

    for _ in rounds(3, 10):
        name, ready = f"j{next(NUMBERS)}", Barrier(3)
        former, *stores = (store_of(kind, request, name) for _ in range(4))
        if begins != "never held":
            former.acquire(TWO, 30 if begins == "given back" else 0)
        if begins == "given back":
            former.release()
        with ThreadPoolExecutor(3) as pool:
            granted = sorted(pool.map(partial(ask, ready=ready), stores))
        assert granted == [0, 0, 1 if begins == "never held" else 2]
        for store in (former, *stores):
            store.release()


def test_a_postgres_that_would_lose_messages_is_refused(postgres: Postgres) -> None:
    store = PostgresStore(f"{postgres.url}?options=-csynchronous_commit%3Doff", "j")
    with pytest.raises(JournalFailed, match="with synchronous_commit off the server would lose confirmed"):
        store.acquire(ONE, 30)
    store.release()


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(ValueError, match="durability='never' must be one of everysec, unchecked"):
        RedisStore("redis://127.0.0.1:1?durability=never", "j")


def _fill(store: Store) -> None:
    for position in itertools.count(1):
        store.append(1, position, 1, b"x" * 100_000)


@pytest.mark.process
def test_a_redis_without_memory_is_full_until_there_is_some() -> None:
    with redis_server(maxmemory="6mb") as server:
        store = RedisStore(server.url, "j")
        store.acquire(ONE, 30)
        with pytest.raises(StoreFull, match="maxmemory"):
            _fill(store)
        server.client.config_set("maxmemory", "100mb")
        store.append(2, len(list(store.rows())) + 1, 1, b"x" * 100_000)


def test_the_space_of_a_store_is_known_where_it_reports_a_limit(
    postgres: Postgres, redis: Redis, tmp_path: Path
) -> None:
    assert PostgresStore(postgres.url, "j").free_bytes() is None
    assert RedisStore(redis.url, "j").free_bytes() is None
    directory = FileStore(tmp_path, "j")
    directory.acquire(ONE, 30)
    free = directory.free_bytes()
    assert free is not None and free > 0
    with redis_server(maxmemory="60mb") as server:
        store = RedisStore(server.url, "j")
        before = store.free_bytes()
        server.client.set("other", bytes(20_000_000))
        after = store.free_bytes()
        assert before is not None and after is not None
        assert 19_000_000 < before - after < 30_000_000
        server.client.acl_setuser("default", commands=["-info"])
        assert store.free_bytes() is None


@pytest.mark.parametrize("reports", ["in threads"], indirect=True)
def test_a_commit_that_finds_no_space_waits_for_it_and_new_messages_are_refused_meanwhile(site: Site) -> None:
    life = site.life()
    life.restore()
    assert life.journal.available_bytes() > 0
    site.broken["append"] = StoreFull("the test wants it")
    answer = Answer[None]()
    life.journal.commit(batch_of(1, [published(b"waits")]), answer.done)
    life.wait(lambda: life.journal.available_bytes() == 0)
    assert life.journal.statistics()["short_of_space"] == 1
    assert not answer.is_there()
    site.broken.clear()
    life.wait(answer.is_there)
    assert answer.error is None
    assert life.journal.available_bytes() > 0


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    for store in (RedisStore("redis://127.0.0.1:1", "j"), PostgresStore("postgresql://127.0.0.1:1/x", "j")):
        with pytest.raises(Unreachable):
            store.acquire(ONE, 30)


def test_the_extent_of_the_log_is_known_without_the_lease(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert two.extent() is None and two.tag() is None
    grant = one.acquire(ONE, 30)
    assert two.tag() == grant.tag
    assert two.extent() == (grant.tag, 1, 1, 1)
    for number in range(60):
        one.append(1 + number // 10, 1 + 3 * number, 3, b"batch")
        assert two.extent() == (grant.tag, 1, 1, 4 + 3 * number)
    # Of six segments with 30 positions each, the second one goes, and the third becomes survivors.
    one.delete([2])
    assert two.extent() == one.extent() == (grant.tag, 1, 61, 181)
    one.carry(9, [Carried(61, [62], b"carried")], [3])
    assert two.extent() == (grant.tag, 1, 91, 181)
    one.put_snapshot(181, [b"state"])
    assert two.acquire(TWO, 30, force=True).epoch == 2
    assert one.extent() == (grant.tag, 2, 91, 181)
    two.append(10, 181, 2, b"batch")
    assert one.extent() == (grant.tag, 2, 91, 183)
    two.delete([1, 4, 5, 6, 9, 10])
    assert two.extent() == (grant.tag, 2, 181, 181)


def test_the_batch_of_a_position_is_found_by_it(stores: tuple[Store, Store]) -> None:
    one, two = stores
    one.acquire(ONE, 30)
    assert two.batch_start(1) is None
    for number in range(20):
        one.append(1 + number // 5, 1 + 3 * number, 3, b"batch")
    starts = [two.batch_start(position) for position in range(1, 61)]
    assert starts == [1 + 3 * (position // 3) for position in range(60)]
    assert two.batch_start(61) is None
    one.carry(9, [Carried(16, [17], b"carried")], [2])
    assert [two.batch_start(position) for position in (15, 16, 17, 30, 31)] == [13, None, None, None, 31]
