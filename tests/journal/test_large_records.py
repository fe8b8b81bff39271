"""Large records are read in two parts, so that nothing copies their bodies, nor holds up the event loop."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.base.large_record import LargeRecord, bytes_of
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import Envelope, Message
from broker_app.journal import codec
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.port import Damaged
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore

from .stage import Life, Reports, batch_of, published, quick_journal

MIB = 1024 * 1024
BODY = bytes(range(256)) * (3 * MIB // 256)


def record_of(body: bytes, block: bytes = b"kind:a\n") -> bytes:
    message = Message(Envelope("/topic/t", block), body, 1, 7, True)
    message.explicit_id = b"0" * records.ID_SIZE
    return b"".join(records.published(message, 0, "/queue/a"))


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Life]:
    """A journal in a store that brokers share."""
    reports = Reports()
    journal = SharedJournal(
        FileStore(tmp_path, "j"),
        Holder("one:8000", "stomp://one:61613"),
        call_soon_threadsafe=reports.call_soon_threadsafe,
        body_at=records.body_at,
    )
    life = Life(journal, reports.wait)
    life.restore()
    yield life
    journal.close()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    reports = Reports()
    journal = SegmentJournal(
        tmp_path, call_soon_threadsafe=reports.call_soon_threadsafe, body_at=records.body_at
    )
    life = Life(journal, reports.wait)
    life.restore()
    yield life
    journal.close()


@pytest.mark.parametrize("block", [b"", b"kind:a\n", b"kind:%b\n" % (b"x" * 10_000)], ids=len)
def test_the_body_of_a_large_record_is_read_apart(life: Life, block: bytes) -> None:
    whole, small = record_of(BODY, block), record_of(b"small")
    life.commit(batch_of(1, [whole], keep=[1]))
    life.commit(batch_of(2, [small], keep=[2]))
    large, other = life.read([1, 2])
    assert isinstance(large, LargeRecord) and large + large.body == whole and other == small
    reader = Reader("/queue/a")
    message = reader.message(large, 1)
    assert message.body is large.body  # not a copy
    assert (message.body, message.envelope.block) == (BODY, block)
    assert message.envelope.address == "/topic/t" and message.explicit_id == b"0" * records.ID_SIZE
    assert reader.head(large, 1).body == reader.head(whole, 1).body == b""
    assert bytes_of((large, whole)) == 2 * len(whole)


def test_the_loop_copies_no_large_record_into_a_shared_store_nor_out_of_it(shared: Life) -> None:
    parts = [record_of(b"x" * (48 * MIB))]
    began = time.thread_time()
    shared.commit(batch_of(1, parts, keep=[1]))
    (found,) = shared.read([1])
    assert isinstance(found, LargeRecord)
    message = Reader("/queue/a").message(found, 1)
    took_s = time.thread_time() - began
    assert found + found.body == parts[0]
    assert message.body is found.body
    assert took_s < 0.01  # one copy takes longer


def test_a_large_record_of_a_shared_store_is_read_again_after_others(shared: Life) -> None:
    whole, small = record_of(BODY), record_of(b"small")
    shared.commit(batch_of(1, [whole], keep=[1]))
    shared.commit(batch_of(2, [whole, small], keep=[2, 3]))
    for _ in range(2):
        large, together, other = shared.read([1, 2, 3])
        assert isinstance(large, LargeRecord) and large + large.body == together == whole and other == small
    shared.settle(2)
    assert shared.read([3]) == [small]


@pytest.mark.parametrize("journal", ["life", "shared"])
def test_a_large_record_among_others_of_its_batch_is_whole(
    journal: str, request: pytest.FixtureRequest
) -> None:
    life, whole = request.getfixturevalue(journal), record_of(BODY)
    life.commit(batch_of(1, [whole, record_of(b"small")], keep=[1, 2]))
    assert life.read([1]) == [whole]


def test_a_large_record_that_survives_is_copied_without_a_second_one_in_memory(tmp_path: Path) -> None:
    journal = quick_journal(tmp_path, segment_bytes=80 * MIB)
    life = Life(journal)
    life.restore()
    body = bytes(range(256)) * (16 * MIB // 256)
    survivors = {}
    for number in range(4):
        own = b"%d" % number + body
        (survivor,) = life.publish(own)
        survivors[survivor] = published(own)
        others = [position for _ in range(6) for position in life.publish(body)]
        tracemalloc.start()
        life.snapshot()
        life.settle(*others)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.5 * len(body)
    assert journal.statistics()["segments_copied"] == 3  # one of them was a copy
    assert life.read(list(survivors)) == list(survivors.values())
    life.close()


def test_damage_in_a_large_body_is_found(life: Life, tmp_path: Path) -> None:
    life.commit(batch_of(1, [record_of(BODY)], keep=[1]))
    (segment,) = [path for path in tmp_path.glob("*.seg") if BODY[:4096] in path.read_bytes()]
    with segment.open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"damage")
    (found,) = life.read([1])
    assert isinstance(found, Damaged)


def test_damage_in_a_large_body_of_a_shared_store_is_found(shared: Life, tmp_path: Path) -> None:
    shared.commit(batch_of(1, [record_of(BODY)], keep=[1]))
    (log,) = [path for path in tmp_path.rglob("*") if path.is_file() and BODY[:4096] in path.read_bytes()]
    with log.open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"damage")
    (found,) = shared.read([1])
    assert isinstance(found, Damaged)


def test_a_checksum_is_that_of_the_whole_content() -> None:
    for size in (0, 1, 65_536, 65_537, 200_000):
        assert codec.checksum(BODY[:size]) == codec.checksum(
            BODY[100:size], codec.checksum(BODY[: min(100, size)])
        )
