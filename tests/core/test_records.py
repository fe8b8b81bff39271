import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.core import client_address, reasons
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.records import Terms
from broker_app.core.message import DeliveryOptions, Envelope, Message
from broker_app.core.reasons import REASONS
from tests.core.stage import Stage

U64 = st.integers(0, 2**64 - 1)
NOW_MS = 2**40


def _message(waited_ms: int, body: int, block: int, attempts: int, own_id: bool) -> Message:
    """A message that was accepted `waited_ms` before NOW_MS, with a body and a header block of so many
    bytes."""
    message = Message(Envelope("/queue/a", b"h" * block), b"b" * body, 1, NOW_MS - waited_ms, True)
    message.attempts = attempts
    message.explicit_id = b"i" * 36 if own_id else None
    return message


@given(
    block=st.binary(max_size=50),
    body=st.binary(max_size=200),
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    time_ms=st.integers(0, 2**48),
    expires_ms=st.integers(0, 2**48),
    explicit_id=st.none() | st.uuids().map(lambda id: str(id).encode()),
    destination=st.integers(0, 2**16 - 1),
    elsewhere=st.booleans(),
    due_ms=st.sampled_from((0, 2**47)),
    dedup_id=st.sampled_from(("", "once")),
    origin=st.none() | st.tuples(st.integers(0, 2**32 - 1), U64),
    client=st.none() | st.integers(0, 2**32 - 2),
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
    due_ms: int,
    dedup_id: str,
    origin: tuple[int, int] | None,
    client: int | None,
) -> None:
    options = DeliveryOptions(dedup_id=dedup_id) if dedup_id else None
    envelope = Envelope(
        "/queue/a", block, persistent=persistent, priority=priority, expires_ms=expires_ms, options=options
    )
    message = Message(envelope, body, 42, time_ms, True)
    message.explicit_id = explicit_id
    kept_in = "/topic-subscription/é" if elsewhere and explicit_id else "/queue/a"
    source = b"" if client is None else records.pack_client(client)
    source += records.pack_origin(*origin) if origin else b""
    record = b"".join(records.published(message, destination, kept_in, due_ms, source))
    ((kind, flags, lane, place, start, end),) = records.walk(record)
    assert (kind, lane, place, start, end) == (records.PUBLISHED, priority, destination, 0, len(record))
    embedded = b"before" + record
    assert records.due_of(record) == due_ms
    assert records.origin_of(embedded, 6, flags) == origin
    assert records.client_of(embedded, 6, flags) == (records.NO_CLIENT if client is None else client)
    assert embedded[records.block_at(embedded, 6, flags) :] == block + body
    if flags & records.DEDUP:
        digest = DeliveryOptions(dedup_id=dedup_id).digest
        copied = bool(flags & records.HAS_ADDRESS)
        assert records.first_seen(embedded, 6, flags)[:3] == (digest, time_ms, "/queue/a" * copied)

    back = Reader(kept_in).message(record, 42)

    assert (back.body, back.time_ms, back.expires_ms, back.explicit_id) == (
        body,
        time_ms,
        expires_ms,
        explicit_id,
    )
    head = Reader(kept_in).head(record, 42)
    assert (head.body, head.explicit_id, head.time_ms) == (b"", explicit_id, time_ms)
    assert head.envelope.block == block
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


MESSAGES = st.builds(
    _message,
    waited_ms=st.integers(-10, 10_000) | st.sampled_from((2**32 - 1, 2**32)),
    body=st.integers(0, 200),
    block=st.integers(0, 200) | st.sampled_from((2**16 - 1, 2**16)),
    attempts=st.integers(0, 3) | st.integers(120, 300),
    own_id=st.booleans(),
)


@given(
    st.lists(MESSAGES, min_size=1, max_size=5),
    st.sampled_from(range(len(records.CAUSES))),
    st.sampled_from(range(len(REASONS))),
    st.booleans(),
)
def test_facts_come_back_as_far_as_their_types_reach(
    gone: list[Message], cause: int, reason: int, with_clients: bool
) -> None:
    for message in gone:
        message.position = 5 + gone.index(message)
    clients = list(range(len(gone))) if with_clients else []
    packed = b"".join(map(records.pack_client, clients))
    record, positions = records.acked_with_facts(7, cause, NOW_MS, gone, reason, packed)
    assert positions == [message.position for message in gone]
    row = records.delivered(1, 2, 3) + record + records.delivered(1, 2, 3)
    _, (kind, flags, second, place, start, end), _ = records.walk(row)
    assert (kind, flags, second, place) == (records.ACKED, cause, reason, 7)
    assert end - start == 12 + 19 * len(gone) + 4 * len(clients)
    assert list(records.positions(row, start, end)) == positions
    found = records.clients(row, start, end)
    assert (list(found) if found is not None else []) == clients

    facts = records.facts(row, start, end)

    assert facts is not None
    waited = [NOW_MS - message.time_ms for message in gone]
    assert list(facts.queue_ms) == [min(max(ms, 0), 2**32 - 1) for ms in waited]
    assert list(facts.body_bytes) == [len(message.body) for message in gone]
    assert list(facts.header_bytes) == [min(len(message.envelope.block), 2**16 - 1) for message in gone]
    begun = 1 if cause == records.ACKNOWLEDGED else 0
    assert list(facts.deliveries) == [min(message.attempts + begun, 127) for message in gone]
    derivable = [
        message.explicit_id is None and 0 <= ms < 2**32 for message, ms in zip(gone, waited, strict=True)
    ]
    assert list(facts.has_own_id) == [not fits for fits in derivable]


def test_a_record_may_have_facts_about_very_many_messages() -> None:
    gone = [_message(number % 50, 1, 2, 0, own_id=not number % 3) for number in range(5_000)]
    record, _ = records.acked_with_facts(0, records.ACKNOWLEDGED, NOW_MS, gone)
    facts = records.facts(record, 0, len(record))
    assert facts is not None and list(facts.queue_ms) == [number % 50 for number in range(5_000)]
    assert sum(facts.has_own_id) == 1_667 and set(facts.deliveries) == {1}


@given(st.lists(st.tuples(U64, U64, st.integers(0, 2**32 - 1)), min_size=1), st.booleans(), st.integers(0, 9))
def test_attempts_come_back_with_their_clients(
    begun: list[tuple[int, int, int]], failed: bool, reason: int
) -> None:
    attempts = [(position, number) for position, number, _ in begun]
    clients = [client for _, _, client in begun]
    packed = b"".join(map(records.pack_client, clients))
    row = records.forgotten(1) + records.returned(9, attempts, failed, reason, packed) + records.forgotten(2)
    _, (kind, flags, second, _, start, end), _ = records.walk(row)
    assert (kind, flags, second) == (records.RETURNED, failed, reason)
    assert list(records.positions(row, start, end)) == [number for pair in attempts for number in pair]
    found = records.clients(row, start, end)
    assert found is not None and list(found) == clients


def test_records_of_former_versions_have_neither_facts_nor_clients() -> None:
    record = records.acked(3, records.PURGED, [9, 10])
    assert records.facts(record, 0, len(record)) is None
    assert records.clients(record, 0, len(record)) is None
    record = records.returned(3, [(9, 2)])
    assert records.clients(record, 0, len(record)) is None
    record, _ = records.acked_with_facts(3, records.ACKNOWLEDGED, NOW_MS, [_message(1, 2, 3, 0, False)])
    assert records.clients(record, 0, len(record)) is None


def test_codes_of_reasons_never_change() -> None:
    names = "NACKED LEASE_ENDED CONSUMER_LEFT REJECTED UNDELIVERABLE MAX_ATTEMPTS EXPIRED OLDEST LOW_PRIORITY"
    known = ["", *names.split(), "DAMAGED"]
    assert [reasons.name_of(code) for code in range(len(known))] == known
    assert [reasons.code_of(name) for name in known] == list(range(len(known)))
    assert (reasons.code_of("of a plug-in"), reasons.name_of(255)) == (0, "")


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_client_comes_back_as_far_as_there_is_room(user: str, client_id: str) -> None:
    user = user.replace("/", "")
    address = client_address.address_of(user, client_id)
    assert len(address.encode()) < 2**16
    if user or client_id:
        assert client_address.is_client(address)
        assert client_address.of_address(address) == (user[:255], client_id[:255])
    else:
        assert address == ""


def test_a_client_whose_name_is_no_text_can_be_recorded() -> None:
    assert client_address.address_of("ann", "\ud800") == "/client/ann/?"


def test_a_record_is_laid_out_as_documented() -> None:
    message = Message(Envelope("/queue/a", b"h:1\n", priority=5), b"body", 1, 0x0102, True)
    assert (
        b"".join(records.published(message, 3, "/queue/a"))
        == struct.pack("<IBBBBIIQQ", 40, 1, 1, 0, 5, 3, 4, 0x0102, 0) + b"h:1\nbody"
    )
    assert records.acked(3, records.PURGED, [9]) == struct.pack("<IBBBBIQ", 20, 2, 1, 4, 0, 3, 9)
    assert records.delivered(3, 5, 9) == struct.pack("<IBBBBIQ", 20, 3, 1, 0, 5, 3, 9)
    assert records.returned(3, [(9, 2)]) == struct.pack("<IBBBBIQQ", 28, 4, 1, 0, 0, 3, 9, 2)
    back = records.returned(3, [(9, 2)], records.GIVEN_BACK)
    assert back == struct.pack("<IBBBBIQQ", 28, 4, 1, 1, 0, 3, 9, 2)
    again = Message(message.envelope, b"body", 2, 0x0100, True)
    again.attempts, again.explicit_id = 4, b"i" * 36
    one, _ = records.acked_with_facts(3, records.ACKNOWLEDGED, 0x0105, [message])
    assert one == struct.pack("<IBBBBIQIIHB", 31, 2, 2, 0, 0, 3, 1, 3, 4, 4, 1)
    two, _ = records.acked_with_facts(3, records.EXPIRED, 0x0105, [message, again])
    assert two == struct.pack("<IBBBBI2Q2I2I2H2B", 50, 2, 2, 1, 0, 3, 1, 2, 3, 5, 4, 4, 4, 4, 0, 128 + 4)
    origin = records.pack_origin(2, 77)
    assert b"".join(records.published(message, 3, "/queue/a", source=origin)) == (
        struct.pack("<IBBBBIIQQIQ", 52, 1, 1, 64, 5, 3, 4, 0x0102, 0, 2, 77) + b"h:1\nbody"
    )
    client = records.pack_client(8)
    assert b"".join(records.published(message, 3, "/queue/a", source=client + origin)) == (
        struct.pack("<IBBBBIIQQIIQ", 56, 1, 1, 192, 5, 3, 4, 0x0102, 0, 8, 2, 77) + b"h:1\nbody"
    )
    of_clients = client + records.pack_client(records.NO_CLIENT)
    three, _ = records.acked_with_facts(3, records.ACKNOWLEDGED, 0x0105, [message, again], 0, of_clients)
    assert three == struct.pack(
        "<IBBBBI2Q2I2I2H2B2I", 58, 2, 3, 0, 0, 3, 1, 2, 3, 5, 4, 4, 4, 4, 1, 128 + 5, 8, 2**32 - 1
    )
    back = records.returned(3, [(9, 2)], records.GIVEN_BACK, 4, client)
    assert back == struct.pack("<IBBBBIQQI", 32, 4, 2, 1, 4, 3, 9, 2, 8)
    assert records.acked(3, records.DISCARDED, [9], 8) == struct.pack("<IBBBBIQ", 20, 2, 1, 3, 8, 3, 9)


@pytest.mark.parametrize(
    ("record", "newest"),
    [(records.acked(0, 0, [1]), 3), (records.returned(0, [(1, 1)]), 2), (records.delivered(0, 0, 1), 1)],
)
def test_a_record_of_another_version_is_refused(record: bytes, newest: int) -> None:
    other = bytearray(record)
    other[records.VERSION_AT] = newest + 1
    sentence = f"has version {newest + 1}, this program reads version {newest}; start the MOM that wrote"
    with pytest.raises(ValueError, match=sentence):
        list(records.walk(bytes(other)))


def test_messages_with_equal_header_blocks_share_an_envelope_when_they_are_read_back() -> None:
    reader = Reader("/queue/a")

    def back(block: bytes, **facts: Any) -> Envelope:
        message = Message(Envelope("/queue/a", block, **facts), b"", 1, 1, True)
        return reader.message(b"".join(records.published(message, 0, "/queue/a")), 1).envelope

    assert back(b"h:1\n") is back(b"h:1\n")
    assert back(b"h:1\n") is not back(b"h:2\n")
    assert back(b"h:1\n") is not back(b"h:1\n", priority=9)


def test_the_number_of_envelopes_kept_for_sharing_is_bounded() -> None:
    reader = Reader("/queue/a")
    for number in range(3 * reader.MAX_ENVELOPES):
        message = Message(Envelope("/queue/a", b"n:%d\n" % number), b"", 1, 1, True)
        assert (
            reader.message(b"".join(records.published(message, 0, "/queue/a")), 1).envelope.block
            == b"n:%d\n" % number
        )
        assert len(reader._envelopes) <= reader.MAX_ENVELOPES


@pytest.mark.slow
@pytest.mark.soak
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
