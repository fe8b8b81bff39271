"""Frames become the rows that a simple reading of the records gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from broker_app.core import commands as c
from broker_app.core.client_address import address_of
from broker_app.core.durability import records
from broker_app.core.message import DeliveryOptions, Envelope, Message, MessageIds
from broker_app.journal import codec
from pyspark_mom.columns import BATCH_ROWS, Columns, wanted
from pyspark_mom.errors import JournalUnreadable
from pyspark_mom.events import EVENT_NAMES
from pyspark_mom.options import parse
from pyspark_mom.patterns import matcher
from pyspark_mom.schema import COLUMNS, arrow_schema
from pyspark_mom.sent_messages import SentMessages
from pyspark_mom.transport import StoredFrame
from tests.core.stage import START_US, Stage
from tests.core.storm import Storm
from tests.pipeline.stage import ALL, BROKER, JournalStage, Row, frames_of, id_of, moment, rows_of
from tests.support.chance import FIRST_SEED, rounds

STORMS, MOST_STORMS = len(rounds(15, 1_000)), 2_000


def decoded(
    frames: list[StoredFrame],
    start: int = 0,
    end: int = 2**63,
    *,
    tag: int = 7,
    names: tuple[str, ...] = ALL,
    **given: str,
) -> list[Row]:
    options = parse({"url": "file:///x", **given})
    asked = arrow_schema(names)
    rows = wanted(asked, options.events, matcher(options.destinations))
    columns = Columns(asked, BROKER, tag, rows, SentMessages(tag, partial(overlapping, frames)))
    read = overlapping(frames, start, end) if end < 2**63 else frames
    batches = list(columns.batches(iter(read), start, end))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(asked)
    return [row for batch in batches for row in batch.to_pylist()]


def overlapping(frames: list[StoredFrame], start: int, end: int) -> list[StoredFrame]:
    """Those of some frames that overlap positions, as a journal gives them."""
    return [
        found for found in frames if found.frame.first_position < end and found.frame.next_position > start
    ]


def simple(stage: Stage) -> list[Row]:
    sent: dict[int, Row] = {}
    return [row for batch in stage.batches for row in rows_of(batch, START_US, 1, stage.tag, sent)]


def test_the_records_of_storms_become_the_rows_of_a_simple_reading() -> None:
    """At least `STORMS`, and more until each event and reason was among them."""
    seen: set[str] = set()
    reasons: set[str | None] = set()
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_STORMS):
        storm = Storm(seed)
        storm.blow(100)
        frames = list(frames_of(storm.stage, START_US))
        rows = decoded(frames)
        assert rows == simple(storm.stage)
        seen |= {row["event"] for row in rows}
        reasons |= {row["reason"] for row in rows}
        check_parts(frames, rows, Random(seed))
        whole = seen >= set(EVENT_NAMES) - {"DISCARD"} and reasons >= {None, "NACKED", "EXPIRED"}
        if whole and seed + 1 >= FIRST_SEED + STORMS:
            return
    pytest.fail(f"{MOST_STORMS} storms have only {sorted(seen)} and {reasons}")


def check_parts(frames: list[StoredFrame], rows: list[Row], random: Random) -> None:
    """Any split of the positions gives the same rows, also within a batch; and a query that names columns,
    events and destinations has the same rows without the rest."""
    end = frames[-1].frame.next_position if frames else 1
    cuts = sorted({1, end, *(random.randrange(1, end + 1) for _ in range(5))})
    assert [row for start, stop in pairwise(cuts) for row in decoded(frames, start, stop)] == rows
    names = tuple(random.sample(ALL, 6))
    kinds = random.sample(EVENT_NAMES, 4)
    some = decoded(frames, names=names, events=",".join(kinds), destinations="/queue/>")
    assert some == [
        {name: row[name] for name in names}
        for row in rows
        if row["event"] in kinds and row["destination"].startswith("/queue/")
    ]


def test_ids_have_the_form_that_clients_see(stage: JournalStage) -> None:
    client = stage.client()
    messages = []
    for _ in range(3):
        stage.now_us += 1_234_567
        messages.append(client.publish("/queue/a"))
    ids = MessageIds(stage.tag)
    assert [row["message_id"] for row in stage.rows("message_id")] == [
        ids.of(each).decode() for each in messages
    ]
    assert id_of(stage.tag, messages[0].time_ms, 1) == ids.of(messages[0]).decode()


def test_a_copy_has_the_id_of_the_message_that_was_sent(stage: JournalStage) -> None:
    client = stage.client()
    client.subscribe("/topic/t", name="one", durable=True)
    client.subscribe("/topic/t", id="2", name="two", durable=True)
    client.publish("/topic/t", b"x")
    rows = stage.rows("message_id", "subscription", "destination_kind", events="ENQUEUE")
    assert len(rows) == 2 and len({row["message_id"] for row in rows}) == 1
    assert {row["subscription"] for row in rows} == {"one", "two"}
    assert {row["destination_kind"] for row in rows} == {"topic"}


def test_a_message_of_a_subscription_has_its_topic_and_is_found_by_it(stage: JournalStage) -> None:
    client = stage.client()
    client.subscribe("/topic/prices.>", name="all", durable=True)
    client.publish("/queue/prices.eu", b"queue")
    for topic in ("eu", "us", "eu.de"):
        client.publish(f"/topic/prices.{topic}", topic.encode())
    found = [(row["topic"], row["body"]) for row in stage.rows("topic", "body", content="messages")]
    eu, us, de = (f"/topic/prices.{topic}" for topic in ("eu", "us", "eu.de"))
    assert found == [(None, b"queue"), (eu, b"eu"), (us, b"us"), (de, b"eu.de")]
    for patterns, topics in (
        ("/topic/prices.*", [eu, us]),
        ("prices.eu.>", [de]),
        ("prices.eu", [None, eu]),
        ("/topic-subscription/all", [eu, us, de]),
        ("/topic/other", []),
    ):
        assert [
            row["topic"] for row in stage.rows("topic", events="ENQUEUE", destinations=patterns)
        ] == topics
    for tag in client.tags:
        client.give_back(tag)
    client.settle(*client.tags)
    for event in ("NACK", "ACK"):
        rows = stage.rows("topic", "message_id", events=event, destinations="/topic/prices.*")
        assert [row["topic"] for row in rows] == [eu, us]
        assert all(row["message_id"] for row in rows)
        assert len(stage.rows("position", events=event, destinations="/topic/prices.*")) == 2
    assert stage.rows("topic", events="ACK", destinations="/topic/other") == []


def test_the_end_of_a_message_shows_what_its_client_saw(stage: JournalStage) -> None:
    client = stage.client()
    message = client.publish("/queue/a", b"12345", block=b"a:1\n")
    stage.now_us += 1_234_567
    client.subscribe("/queue/a")
    client.give_back(1)
    client.settle(2)
    names = ("event", "message_id", "queue_time_us", "delivery_count", "body_size", "header_size")
    *_, nack, again, ack = stage.rows(*names)
    id = MessageIds(stage.tag).of(message).decode()
    assert [tuple(row.values()) for row in (nack, again)] == [
        ("NACK", id, None, 1, None, None),
        ("DELIVER", id, None, 2, None, None),
    ]
    assert tuple(ack.values()) == ("ACK", id, 1_234_000, 2, 5, 4)
    assert {row["enqueued_ts"] for row in stage.rows("enqueued_ts", events="ENQUEUE,ACK")} == {
        moment(1000 * message.time_ms)
    }


def test_events_name_producer_and_consumer_and_show_why_a_message_left(stage: JournalStage) -> None:
    producer, consumer = stage.client(), stage.client()
    producer.peer.client, consumer.peer.client = address_of("ann", "till/1"), address_of("bob")
    consumer.subscribe("/queue/a")
    producer.publish("/queue/a", b"1")
    consumer.give_back(1)
    consumer.reject(2)
    producer.publish("/queue/a", b"2")
    consumer.settle(3)
    names = ("event", "reason", "user", "client_id")
    assert [tuple(row.values()) for row in stage.rows(*names, destinations="/queue/a")] == [
        ("ENQUEUE", None, "ann", "till/1"),
        ("DELIVER", None, None, None),
        ("NACK", "NACKED", "bob", None),
        ("DELIVER", None, "bob", None),
        ("NACK", "REJECTED", "bob", None),
        ("DEADLETTER", "REJECTED", None, None),
        ("ENQUEUE", None, "ann", "till/1"),
        ("DELIVER", None, None, None),
        ("ACK", None, "bob", None),
    ]
    assert [tuple(row.values()) for row in stage.rows(*names, destinations="/queue/a.dead")] == [
        ("ENQUEUE", None, None, None)
    ]
    assert stage.rows("user", events="ACK") == [{"user": "bob"}]


def test_a_reason_that_is_not_known_here_is_null() -> None:
    record = bytearray(records.acked(0, records.DISCARDED, [1], 8))
    record[records.FLAGS_AT + 1] = 250
    (row,) = decoded([frame_of([bytes(record)], position=5)], names=("event", "reason"))
    assert row == {"event": "DISCARD", "reason": None}


def test_many_clients_are_few_at_a_time() -> None:
    """The table of clients is bounded, and rows before and after it is cleared are right."""
    users = [address_of(f"u{number}") for number in range(3)]
    record = records.published(
        Message(Envelope("/queue/a"), b"x", 1, 5, True), 0, "/queue/a", 0, bytes((1, 0, 0, 0))
    )
    frames = [
        frame_of([b"".join(record)], position=1 + number, names=[users[number % 3]]) for number in range(9)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark_mom.rows._MAX_ADDRESSES", 1)
        patch.setattr("pyspark_mom.columns.BATCH_ROWS", 2)
        found = decoded(frames, names=("user",))
    assert [row["user"] for row in found] == [f"u{number % 3}" for number in range(9)]


def test_every_event_has_the_id_and_topic_of_its_message(stage: JournalStage) -> None:
    """Also where its record knows neither: those of copies, of deliveries, and of former versions."""
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, name="one", durable=True)
    client.publish("/topic/t", b"x")
    sent, *rest = stage.rows("event", "message_id", "topic")
    assert [row["event"] for row in rest] == ["ACK"]
    assert {(row["message_id"], row["topic"]) for row in rest} == {(sent["message_id"], "/topic/t")}


def test_ids_of_messages_that_were_sent_long_before_are_read_from_where_they_are() -> None:
    """In runs of positions that are near one another, and those of messages that are gone are null."""
    record = b"".join(records.published(Message(Envelope("/queue/a"), b"x", 1, 5, True), 0, "/queue/a"))
    sent = [frame_of([record] * 10, position=1 + 10 * number) for number in range(1_000)]
    acked = records.acked(0, records.PURGED, [5, 11, 9_993, 9_995, 10_001])
    asked, read = arrow_schema(["message_position", "message_id"]), []

    def stored(start: int, end: int) -> list[StoredFrame]:
        read.append((start, end))
        return overlapping(sent[1:], start, end)

    rows = wanted(asked, ["PURGE"], matcher(()))
    columns = Columns(asked, BROKER, 7, rows, SentMessages(7, stored))
    (batch,) = columns.batches([frame_of([record, acked], position=10_001)], 10_001, 10_003)
    known = {row["message_position"]: row["message_id"] for row in batch.to_pylist()}
    assert known == {5: None, **{each: id_of(7, 5, each) for each in (11, 9_993, 9_995, 10_001)}}
    assert read == [(5, 12), (9_993, 9_996)]


def test_frames_that_were_read_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_mom.sent_messages._KEPT_BYTES", 1_000)
    record = b"".join(records.published(Message(Envelope("/queue/a"), b"x", 1, 5, True), 0, "/queue/a"))
    frames = [frame_of([record], position=1 + number) for number in range(50)]
    read: list[int] = []

    def stored(start: int, end: int) -> list[StoredFrame]:
        read.append(start)
        return overlapping(frames, start, end)

    messages = SentMessages(7, stored)
    for frame in frames:
        messages.keep(frame)
    assert {each: sent.id for each, sent in messages.find(range(40, 51)).items()} == {
        each: id_of(7, 5, each) for each in range(40, 51)
    }
    assert len(read) <= 1 and messages.find([2])[2].id == id_of(7, 5, 2) and read[-1] == 2


def test_a_forwarded_message_is_received_with_its_origin(stage: JournalStage) -> None:
    bridge = stage.client()
    target, source = "/queue/t", "storeAndForward:b/queue/t"
    bridge.do(c.BeginFlow(bridge.peer, "f", "home~7f", source, target))
    later = Envelope(target, options=DeliveryOptions(delay_ms=1000))
    entries = [(Envelope(target), b"1", None), (later, b"2", None)]
    stage.decide(c.Forward(bridge.peer, "f", entries, [41, 43]))
    stage.pass_time(2000)
    names = ("event", "body", "origin_broker", "origin_position")
    assert [tuple(row.values()) for row in stage.rows(*names)] == [
        ("RECEIVE", b"1", "home", 41),
        ("RECEIVE", b"2", "home", 43),
        ("ENQUEUE", b"2", None, None),
    ]
    assert len(stage.rows(destinations="/queue/t")) == 3


def test_a_scheduled_message_is_an_event_when_it_is_due(stage: JournalStage) -> None:
    client = stage.client()
    client.publish("/queue/a", b"later", options=DeliveryOptions(delay_ms=5000))
    assert stage.rows() == []
    stage.pass_time(6000)
    (row,) = stage.rows()
    assert (row["event"], row["body"]) == ("ENQUEUE", b"later")


def test_a_message_of_a_store_and_forward_queue_names_the_broker_that_it_goes_to(stage: JournalStage) -> None:
    client = stage.client()
    address = "/queue/storeAndForward:east/queue/orders"
    client.publish(address, b"x")
    client.subscribe(address)
    client.settle(*client.tags)
    assert {(row["event"], row["peer_broker"]) for row in stage.rows()} >= {
        ("ENQUEUE", "east"),
        ("FORWARD", "east"),
        ("FORWARD_ACK", "east"),
    }
    assert stage.rows(events="DELIVER,ACK") == []


def test_headers_are_unescaped_and_the_first_of_a_name_counts(stage: JournalStage) -> None:
    block = "correlation-id:a\\cb\nkey:ä\\\\n\nkey:later\ntraceparent:00-{}-00f067aa0ba902b7-01\n"
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    stage.client().publish("/queue/a", block=block.format(trace).encode())
    stage.client().publish("/queue/a", block=b"traceparent:nonsense\n")
    stage.client().publish("/queue/a")
    first, second, third = stage.rows("correlation_id", "trace_id", "headers")
    assert first["correlation_id"] == "a:b"
    assert dict(first["headers"])["key"] == "ä\\n"
    assert [row["trace_id"] for row in (first, second, third)] == [trace, None, None]
    assert (second["correlation_id"], third["headers"]) == (None, [])


def test_messages_that_are_older_than_an_acknowledgement_can_hold_keep_what_is_known() -> None:
    long_ago = START_US // 1000 - 60 * 24 * 3600 * 1000
    message = Message(Envelope("/queue/a"), b"x", 1, long_ago, True)
    copy = Message(Envelope("/queue/a"), b"x", 2, long_ago, True)
    copy.explicit_id = b"01a3185c-5000-7000-8000-000000000009"
    parts = [b"".join(records.published(each, 0, "/queue/a")) for each in (message, copy)]
    acked, _ = records.acked_with_facts(0, records.ACKNOWLEDGED, START_US // 1000, [message, copy])
    parts.append(acked)
    names = ("event", "message_id", "enqueued_ts", "queue_time_us")
    ids, time = [id_of(7, long_ago, 1), "01a3185c-5000-7000-8000-000000000009"], moment(1000 * long_ago)
    assert [tuple(row.values()) for row in decoded([frame_of(parts)], names=names)] == [
        *(("ENQUEUE", id, time, None) for id in ids),
        *(("ACK", id, None, (2**32 - 1) * 1000) for id in ids),
    ]


def test_a_million_acknowledgements_in_one_record_are_several_batches() -> None:
    count = 5 * BATCH_ROWS
    acked = records.acked(0, records.ACKNOWLEDGED, range(1, count + 1))
    frame = frame_of([acked], position=count + 1)
    rows = wanted(arrow_schema([]), ["ACK"], matcher(()))
    columns = Columns(arrow_schema(["message_position"]), BROKER, 7, rows, nothing_sent())
    batches = list(columns.batches([frame], 1, 2**62))
    assert len(batches) > 1 and max(len(batch) for batch in batches) <= 2 * BATCH_ROWS
    assert pa.Table.from_batches(batches)["message_position"].to_pylist() == list(range(1, count + 1))


def test_batches_have_about_as_many_rows_as_spark_likes() -> None:
    record = records.damaged(4, "x", 5)
    frames = [frame_of([record] * 700, position=1 + 700 * number) for number in range(40)]
    asked = arrow_schema(["position"])
    rows = wanted(asked, ["ENQUEUE"], matcher(()))
    batches = list(Columns(asked, BROKER, 7, rows, nothing_sent()).batches(frames, 1, 2**62))
    assert [len(batch) for batch in batches[:-1]] == [10_500, 10_500]
    assert sum(map(len, batches)) == 28_000


def test_a_record_of_a_newer_version_is_refused() -> None:
    record = bytearray(records.acked(0, records.ACKNOWLEDGED, [1]))
    record[5] = 99
    with pytest.raises(JournalUnreadable, match=r"the record at position 5 has version 99, .* a newer one"):
        decoded([frame_of([bytes(record)], position=5)])


def test_every_column_is_made_with_its_type() -> None:
    asked = arrow_schema(ALL)
    assert [field.type for field in asked] == [column.arrow for column in COLUMNS]
    record = records.damaged(4, "x", 5)
    (row,) = decoded([frame_of([record])])
    assert [name for name, value in row.items() if value is None and not asked.field(name).nullable] == []


def nothing_sent() -> SentMessages:
    return SentMessages(7, lambda start, end: [])


def frame_of(
    parts: list[bytes], position: int = 1, address: str = "/queue/a", names: Sequence[str] = ()
) -> StoredFrame:
    pieces = codec.encode_frame(
        segment_id=1,
        epoch=1,
        first_position=position,
        time_us=START_US,
        count=len(parts),
        table=codec.encode_table([address, *names]),
        parts=parts,
    )
    content = b"".join(pieces)
    frame = codec.decode_frame(content, 0)
    assert frame is not None
    return StoredFrame(frame, content)
