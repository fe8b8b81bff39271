import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.message import Envelope, Message
from broker_app.core.records import Terms
from tests.core.stage import Stage

U64 = st.integers(0, 2**64 - 1)


@given(
    block=st.binary(max_size=50),
    body=st.binary(max_size=200),
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    time_ms=st.integers(0, 2**48),
    expires_ms=st.integers(0, 2**48),
    explicit_id=st.none() | st.binary(min_size=36, max_size=36),
    destination=st.integers(0, 2**16 - 1),
    elsewhere=st.booleans(),
)
def test_a_published_message_comes_back_as_it_was(
    block: bytes,
    body: bytes,
    persistent: bool,
    priority: int,
    time_ms: int,
    expires_ms: int,
    explicit_id: bytes | None,
    destination: int,
    elsewhere: bool,
) -> None:
    envelope = Envelope("/queue/a", block, persistent=persistent, priority=priority, expires_ms=expires_ms)
    message = Message(envelope, body, 42, time_ms, True)
    message.explicit_id = explicit_id
    kept_in = "/topic-subscription/é" if elsewhere and explicit_id else "/queue/a"
    record = b"".join(records.published(message, destination, kept_in))
    ((kind, _, lane, place, start, end),) = records.walk(record)
    assert (kind, lane, place, start, end) == (records.PUBLISHED, priority, destination, 0, len(record))

    back = records.Reader(kept_in).message(record, 42)

    assert (back.body, back.time_ms, back.expires_ms, back.explicit_id) == (
        body,
        time_ms,
        expires_ms,
        explicit_id,
    )
    assert (back.position, back.recorded, back.attempts) == (42, True, 0)
    found = back.envelope
    assert (found.address, found.block, found.persistent, found.priority) == (
        "/queue/a",
        block,
        persistent,
        priority,
    )


@given(
    st.lists(U64),
    st.sampled_from(range(len(records.CAUSES))),
    st.integers(0, 9),
    U64,
    st.lists(st.tuples(U64, U64)),
)
def test_records_in_a_row_are_separated(
    gone: list[int], cause: int, priority: int, mark: int, attempts: list[tuple[int, int]]
) -> None:
    row = records.acked(7, cause, gone) + records.delivered(8, priority, mark) + records.returned(9, attempts)
    acked, delivered, returned = records.walk(row)
    assert acked[:4] == (records.ACKED, cause, 0, 7)
    assert list(records.positions(row, *acked[4:])) == gone
    assert delivered[:4] == (records.DELIVERED, 0, priority, 8)
    assert list(records.positions(row, *delivered[4:])) == [mark]
    assert returned[:4] == (records.RETURNED, 0, 0, 9)
    assert list(records.positions(row, *returned[4:])) == [number for pair in attempts for number in pair]


def test_a_record_is_laid_out_as_documented() -> None:
    message = Message(Envelope("/queue/a", b"h:1\n", priority=5), b"body", 1, 0x0102, True)
    assert (
        b"".join(records.published(message, 3, "/queue/a"))
        == struct.pack("<IBBBBIIQQ", 40, 1, 1, 0, 5, 3, 4, 0x0102, 0) + b"h:1\nbody"
    )
    assert records.acked(3, records.PURGED, [9]) == struct.pack("<IBBBBIQ", 20, 2, 1, 4, 0, 3, 9)
    assert records.delivered(3, 5, 9) == struct.pack("<IBBBBIQ", 20, 3, 1, 0, 5, 3, 9)
    assert records.returned(3, [(9, 2)]) == struct.pack("<IBBBBIQQ", 28, 4, 1, 0, 0, 3, 9, 2)


def test_a_record_of_another_version_is_refused() -> None:
    record = bytearray(records.acked(0, 0, [1]))
    record[5] = records.VERSION + 1
    with pytest.raises(ValueError, match="start the MOM that wrote this data"):
        list(records.walk(bytes(record)))


def test_messages_with_equal_header_blocks_share_an_envelope_when_they_are_read_back() -> None:
    reader = records.Reader("/queue/a")

    def back(block: bytes, **facts: Any) -> Envelope:
        message = Message(Envelope("/queue/a", block, **facts), b"", 1, 1, True)
        return reader.message(b"".join(records.published(message, 0, "/queue/a")), 1).envelope

    assert back(b"h:1\n") is back(b"h:1\n")
    assert back(b"h:1\n") is not back(b"h:2\n")
    assert back(b"h:1\n") is not back(b"h:1\n", priority=9)


def test_the_number_of_envelopes_kept_for_sharing_is_bounded() -> None:
    reader = records.Reader("/queue/a")
    for number in range(3 * reader.MAX_ENVELOPES):
        message = Message(Envelope("/queue/a", b"n:%d\n" % number), b"", 1, 1, True)
        assert (
            reader.message(b"".join(records.published(message, 0, "/queue/a")), 1).envelope.block
            == b"n:%d\n" % number
        )
        assert len(reader._envelopes) <= reader.MAX_ENVELOPES


@pytest.mark.slow
def test_one_batch_may_touch_more_destinations_than_16_bits_count() -> None:
    stage = Stage()
    client = stage.client()
    entries = [(Envelope(f"/queue/{number}"), b"x", None) for number in range(66_000)]
    stage.decide(c.Publish(client.peer, entries))
    assert [row[3] for row in records.walk(stage.batches[-1].records)] == list(range(66_000))


@given(
    terms=st.builds(Terms, st.text(max_size=20), st.text(max_size=20), st.booleans(), st.text(max_size=20)),
    destination=st.integers(0, 2**16 - 1),
)
def test_the_terms_of_a_durable_subscription_come_back_as_they_were(terms: Terms, destination: int) -> None:
    record = records.forgotten(destination) + records.subscribed(destination, terms)
    (_, _, _, place, _, end), (kind, _, _, also, start, last) = records.walk(record)
    assert (kind, place, also, start, last) == (
        records.SUBSCRIBED,
        destination,
        destination,
        end,
        len(record),
    )
    assert records.terms(record, start, last) == terms
