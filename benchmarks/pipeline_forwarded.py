"""Events of two brokers of which one forwarded to the other, with injected errors."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mom_pipeline.jobs.reconcile import RECEIVED_COLUMNS, SENT_COLUMNS
from pyspark_mom import schema

_LOST, _DOUBLED, _IN_FLIGHT = 37, 53, 500
_BEGIN = datetime(2026, 11, 21, 3, tzinfo=UTC)
_US = 1_000_000


@dataclass(frozen=True)
class Forwarded:
    """The files of the events of both brokers, the positions at the origin with an error, by state, and the
    time up to which the receiver's events are complete."""

    sent: Path
    received: Path
    injected: dict[str, set[int]]
    until: datetime


def write(directory: Path, messages: int) -> Forwarded:
    """Write the events of `messages` forwarded messages: each came, was received and was acknowledged."""
    chance = random.Random(1)
    chosen = chance.sample(range(messages - _IN_FLIGHT), _LOST + _DOUBLED)
    lost, doubled = set(chosen[:_LOST]), set(chosen[_LOST:])
    in_flight = set(range(messages - _IN_FLIGHT, messages))
    positions = list(range(1, messages + 1))
    came = [_us(0.001 * number) for number in range(messages)]
    acknowledged = [number for number in range(messages) if number not in in_flight]
    sent = pa.concat_tables(
        [
            _table(
                SENT_COLUMNS, messages, broker="home", position=positions, event="ENQUEUE", event_ts=came,
                message_position=positions, enqueued_ts=came,
            ),
            _table(
                SENT_COLUMNS, len(acknowledged), broker="home", event="FORWARD_ACK",
                position=[messages + 1 + number for number in acknowledged],
                event_ts=[came[number] + 50_000 for number in acknowledged],
                message_position=[positions[number] for number in acknowledged],
                enqueued_ts=[came[number] for number in acknowledged],
            ),
        ]
    )  # fmt: skip
    sent = _set(sent, "peer_broker", "west")
    sent = _set(sent, "destination", "/queue/storeAndForward:west/queue/orders")
    arrived = sorted([*(number for number in acknowledged if number not in lost), *doubled])
    received = _table(
        RECEIVED_COLUMNS, len(arrived), broker="west", event="RECEIVE", origin_broker="home",
        position=list(range(10_000, 10_000 + len(arrived))),
        event_ts=[came[number] + 10_000 for number in arrived],
        origin_position=[positions[number] for number in arrived],
    )  # fmt: skip
    paths = directory / "sent.parquet", directory / "received.parquet"
    for table, path in zip((sent, received), paths, strict=True):
        pq.write_table(table, path, row_group_size=250_000)
    injected = {"lost": lost, "doubled": doubled, "in-flight": in_flight}
    by_position = {state: {positions[number] for number in numbers} for state, numbers in injected.items()}
    return Forwarded(*paths, by_position, _BEGIN + timedelta(seconds=0.001 * messages, minutes=10))


def _us(seconds: float) -> int:
    return round((_BEGIN.timestamp() + seconds) * _US)


def _table(columns: tuple[str, ...], rows: int, **values: object) -> pa.Table:
    """Rows with these values, and ids that follow from the position of the message."""
    types = schema.arrow_schema(columns)
    made = []
    for field in types:
        value = values.get(field.name)
        if isinstance(value, list):
            made.append(pa.array(value, pa.int64()).cast(field.type))
        else:
            made.append(pa.repeat(pa.scalar(value, field.type), rows))
    table = pa.Table.from_arrays(made, schema=types)
    key = "message_position" if "message_position" in columns else "origin_position"
    return _set(table, "message_id", pc.utf8_lpad(table[key].cast(pa.string()), 32, "0"))


def _set(table: pa.Table, name: str, value: object) -> pa.Table:
    field = table.schema.field(name)
    column = pa.repeat(pa.scalar(value, field.type), table.num_rows) if isinstance(value, str) else value
    return table.set_column(table.schema.get_field_index(name), field, column)
