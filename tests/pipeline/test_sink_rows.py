"""Rows of Spark become parts of a stage that the broker reads as they were meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from broker_app.net.http.limits import RestLimits
from broker_app.net.rest.messages.bulk_rows import RowEnvelope, parsed, wanted
from broker_app.net.rest.messages.envelopes import Envelopes
from pyspark_mom.errors import RowsRefused
from pyspark_mom.sink_rows import MAX_ROW_BYTES, MAX_ROWS, RequestPart, parts

LIMITS = RestLimits()
HEADERS = pa.map_(pa.string(), pa.string())


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def read(part: RequestPart) -> list[tuple[RowEnvelope, bytes]]:
    """The rows of a part, as the broker reads them."""
    envelopes, rows = parsed(part.content, LIMITS)
    assert len(rows.sizes) == part.rows
    found, at = [], 0
    for index, size in zip(rows.indexes, rows.sizes, strict=True):
        found.append((envelopes[index], bytes(rows.bodies[at : at + size])))
        at += size
    return found


def only(*batches: pa.RecordBatch, destination: str | None = None) -> list[tuple[RowEnvelope, bytes]]:
    (part,) = parts(batches, destination, 1 << 22)
    return read(part)


@pytest.mark.parametrize("body", [pa.array(["é", "", None]), pa.array(["é".encode(), b"", None])])
def test_bodies_are_text_or_bytes_and_null_is_empty(body: pa.Array) -> None:
    rows = only(batch(body=body), destination="/queue/a")
    assert [found for _, found in rows] == ["é".encode(), b"", b""]
    assert {envelope.destination for envelope, _ in rows} == {"/queue/a"}


def test_the_column_destination_counts_and_the_option_where_it_is_null() -> None:
    rows = batch(body=pa.array(["1", "2"]), destination=pa.array(["/topic/t", None]))
    assert [envelope.destination for envelope, _ in only(rows, destination="/queue/a")] == [
        "/topic/t",
        "/queue/a",
    ]
    assert [envelope.destination for envelope, _ in only(rows)] == ["/topic/t", ""]


def test_each_column_reaches_the_envelope_and_nulls_do_not() -> None:
    at = datetime(2030, 1, 31, 8, 0, 0, 123_000, tzinfo=UTC)
    facts: dict[str, Any] = {
        "content_type": pa.array(["text/x"]), "correlation_id": pa.array(["c"]), "type": pa.array(["t"]),
        "group": pa.array(["g"]), "reply_to": pa.array(["/queue/r"]), "priority": pa.array([7], pa.int8()),
        "persistent": pa.array([False]), "expires_s": pa.array([Decimal("60.0")], pa.decimal128(4, 1)),
        "delay_s": pa.array([1.5], pa.float32()), "dedup_id": pa.array(["d"]),
        "deliver_at": pa.array([at], pa.timestamp("us", tz="UTC")),
        "headers": pa.array([[("tenant", "acme"), ("nothing", None)]], HEADERS),
        "destination": pa.array(["/queue/a"]),
    }  # fmt: skip
    ((found, _),) = only(batch(body=pa.array(["x"]), **facts))
    assert found.headers == {"tenant": "acme"}
    assert (found.priority, found.persistent, found.expires_s, found.delay_s) == (7, False, 60.0, 1.5)
    assert datetime.fromisoformat(found.deliver_at or "") - at == timedelta()
    assert (found.content_type, found.correlation_id, found.type) == ("text/x", "c", "t")
    assert (found.group, found.reply_to, found.dedup_id) == ("g", "/queue/r", "d")
    (known,) = wanted([found], Envelopes(LIMITS))
    assert known.refusal is None
    assert known.envelope is not None and known.envelope.priority == 7

    nulls = {name: pa.nulls(1, column.type) for name, column in facts.items()}
    ((empty, _),) = only(batch(body=pa.array(["x"]), **nulls), destination="/queue/b")
    assert empty == RowEnvelope(destination="/queue/b")


def test_rows_that_differ_in_their_bodies_alone_share_an_envelope() -> None:
    destinations = pa.array(["/queue/a", "/queue/b"] * 500)
    (part,) = parts([batch(body=pa.array(["x"] * 1000), destination=destinations)], None, 1 << 22)
    envelopes, _ = parsed(part.content, LIMITS)
    assert len(envelopes) == 2
    assert [envelope.destination for envelope, _ in read(part)] == destinations.to_pylist()


def test_rows_are_divided_into_parts_in_order_by_their_number_and_bytes() -> None:
    numbers = [b"%d" % number for number in range(2 * MAX_ROWS + 1)]
    many = list(parts([batch(body=pa.array(numbers))], "/queue/a", 1 << 22))
    assert [part.rows for part in many] == [MAX_ROWS, MAX_ROWS, 1]
    assert [body for part in many for _, body in read(part)] == numbers

    large = [bytes([number]) * 40_000 for number in range(10)]
    limited = list(
        parts([batch(body=pa.array(large[:5])), batch(body=pa.array(large[5:]))], "/queue/a", 100_000)
    )
    assert [part.rows for part in limited] == [2, 2, 2, 2, 2]
    assert [body for part in limited for _, body in read(part)] == large


def test_headers_count_as_bytes_of_a_part() -> None:
    headers = pa.array([[("h", str(number) * 1_000)] for number in range(10)], HEADERS)
    found = list(parts([batch(body=pa.array(["x"] * 10), headers=headers)], "/queue/a", 5_000))
    assert len(found) > 1
    assert all(len(part.content) < 6_000 for part in found)


def test_no_rows_are_no_parts() -> None:
    assert list(parts([], "/queue/a", 1 << 22)) == []
    assert list(parts([batch(body=pa.array([], pa.string()))], "/queue/a", 1 << 22)) == []


def test_a_row_that_no_part_can_contain_is_refused() -> None:
    with pytest.raises(RowsRefused, match=f"Spark sends at most {MAX_ROW_BYTES} in one message"):
        list(parts([batch(body=pa.array([b"x" * (MAX_ROW_BYTES + 1)]))], "/queue/a", 1 << 20))


def test_a_row_that_no_part_can_contain_is_sent_as_a_dead_letter_without_its_body() -> None:
    bodies = pa.array([b"1", b"x" * (MAX_ROW_BYTES + 1), b"3"])
    (part,) = parts([batch(body=bodies)], "/queue/a", 1 << 20, dead_letters=True)
    sent = read(part)
    assert [body for _, body in sent] == [b"1", b"", b"3"]
    assert [envelope.body_bytes for envelope, _ in sent] == [None, MAX_ROW_BYTES + 1, None]


def test_parts_know_the_number_of_their_first_row_in_the_task() -> None:
    found = list(parts([batch(body=pa.array(["x"] * (MAX_ROWS + 1)))] * 2, "/queue/a", 1 << 22))
    assert [part.first_row for part in found] == [0, MAX_ROWS, 2 * MAX_ROWS]
