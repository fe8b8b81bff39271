"""Journals in shared stores keep the contract, and grant it to one broker at a time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from broker_app.journal.errors import JournalDamaged, JournalFailed
from broker_app.journal.file_store import FileStore
from broker_app.journal.postgres import PostgresStore
from broker_app.journal.redis import RedisStore
from broker_app.journal.shared import SharedJournal
from broker_app.journal.store import Fenced, Grant, Holder, LeaseHeld, LogBatch, Store, StoreFull, Unreachable
from tests.support.postgres import Postgres
from tests.support.redis import Redis, redis_server

from .contract import JournalContract
from .stage import Life, Open

NUMBERS = itertools.count()
ONE, TWO = Holder("one:8000", "stomp://one:61613"), Holder("two:8000", "stomp://two:61613")


def store_of(kind: str, request: pytest.FixtureRequest, name: str) -> Store:
    """A store with connections of its own."""
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        return PostgresStore(server.url, name)
    if kind == "files":
        return FileStore(request.getfixturevalue("tmp_path"), name)
    other: Redis = request.getfixturevalue("redis")
    return RedisStore(other.url, name)


@pytest.fixture(params=["postgres", "redis", "files"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_life(request: pytest.FixtureRequest, kind: str) -> Iterator[Open]:
    name, journals = f"j{next(NUMBERS)}", list[SharedJournal]()

    def life() -> Life:
        store = store_of(kind, request, name)
        journals.append(SharedJournal(store, ONE, lease_s=30, segment_bytes=8192))
        return Life(journals[-1])

    yield life
    for one in journals:
        one.close()


class TestSharedJournal(JournalContract):
    pass


@pytest.fixture
def stores(request: pytest.FixtureRequest, kind: str) -> Iterator[tuple[Store, Store]]:
    """The stores of two brokers with one journal."""
    name = f"j{next(NUMBERS)}"
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
    assert 29 < state.left_s <= 30
    one.release()
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
    two.acquire(TWO, 30)
    with pytest.raises(Fenced, match="two:8000 at stomp://two:61613 has taken over"):
        one.renew(30)


def test_a_former_holder_changes_nothing(stores: tuple[Store, Store]) -> None:
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
        lambda: one.renew(30),
    )
    for attempt in attempts:
        with pytest.raises(Fenced, match="epoch 1 has ended"):
            attempt()
    assert list(two.frames(1)) == [b"first"]
    assert two.snapshot() == (1, b"state")
    one.release()
    state = two.lease()
    assert state is not None and state.left_s > 20


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
    for number in range(1000):
        frame = b"%d" % number + b"." * (50_000 if number % 100 == 0 else 10)
        one.append(1 + number // 90, 1 + number, 1, frame)
        written.append(frame)
    assert list(two.frames(1)) == written
    assert list(two.frames(500)) == written[499:]


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
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        where = f"WHERE first_position = {position}"
        server.execute(f"UPDATE mom_journal_{name}.batch SET frame = substr(frame, 1, 40) {where}")
        return
    if kind == "files":
        (path,) = request.getfixturevalue("tmp_path").glob("*/epoch-*/*.log")
        content = path.read_bytes()
        rows = [at for at in range(len(content)) if content.startswith(b"MOMr", at)]
        at = rows[(position - 1) // 2] + 40
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        return
    client = request.getfixturevalue("redis").client
    key = f"{{mom:journal:{name}}}:segment:1"
    entries = client.xrange(key)
    client.delete(key)
    for entry, fields in entries:
        cut = {**fields, b"frame": fields[b"frame"][:40]} if entry == b"%d-0" % position else fields
        client.xadd(key, cut, id=entry)


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


def test_a_redis_without_memory_is_full_until_there_is_some() -> None:
    with redis_server(maxmemory="6mb") as server:
        store = RedisStore(server.url, "j")
        store.acquire(ONE, 30)
        with pytest.raises(StoreFull, match="maxmemory"):
            _fill(store)
        server.client.config_set("maxmemory", "100mb")
        store.append(2, len(list(store.rows())) + 1, 1, b"x" * 100_000)


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    for store in (RedisStore("redis://127.0.0.1:1", "j"), PostgresStore("postgresql://127.0.0.1:1/x", "j")):
        with pytest.raises(Unreachable):
            store.acquire(ONE, 30)
