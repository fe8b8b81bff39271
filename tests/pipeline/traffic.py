"""Random events of brokers, as journals record them, with known errors of forwarding."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mom_pipeline import archive_tables
from pyspark_mom import schema

MINUTE_US = 60_000_000
#: 2026-11-21 02:50:00 UTC, so that ten minutes reach the next hour
START_US = 1_795_229_400_000_000
HOME, WEST = "home", "west"
FORWARDED = "/queue/storeAndForward:west/queue/orders"


@dataclass
class Message:
    """A message, and where it is."""

    number: int
    destination: str
    enqueued_us: int
    body: bytes
    position: int = -1
    deliveries: int = 0
    origin: tuple[str, int] | None = None

    @property
    def id(self) -> str:
        return f"{self.number:032x}"


@dataclass
class Journal:
    """The events of one broker in order."""

    broker: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    position: int = 1

    def record(
        self, event: str, at_us: int, message: Message, *, same_record: bool = False, **known: Any
    ) -> int:
        """Append an event; its position, which is that of the event before it in the same record."""
        if not same_record:
            self.position += 1
        if event in ("ENQUEUE", "RECEIVE"):
            message.position = self.position
        bridge = re.match("/queue/storeAndForward:([^/]+)/", message.destination)
        row: dict[str, Any] = dict.fromkeys(column.name for column in schema.COLUMNS)
        row |= {
            "broker": self.broker, "epoch": 1, "position": self.position, "event": event, "event_ts": at_us,
            "destination": message.destination, "destination_kind": "queue", "message_id": message.id,
            "message_position": message.position, "enqueued_ts": message.enqueued_us,
            "body_size": len(message.body), "header_size": 12, "delivery_count": message.deliveries,
            "priority": 4, "peer_broker": bridge[1] if bridge else None,
            "queue_time_us": None if event in ("ENQUEUE", "RECEIVE") else at_us - message.enqueued_us,
        }  # fmt: skip
        if event in ("ENQUEUE", "RECEIVE"):
            row |= {"headers": [("n", str(message.number))], "body": message.body}
        if event == "RECEIVE" and message.origin is not None:
            row |= {"origin_broker": message.origin[0], "origin_position": message.origin[1]}
        self.rows.append(row | known)
        return self.position


def traffic(broker: str, seed: int, messages: int = 2_000, minutes: int = 12) -> Journal:
    """The events of a broker with a busy queue and some quiet ones, for some minutes from 02:50 on:
    redeliveries, expired and dead-lettered messages, purges, records with several messages, and records that
    know nothing but positions."""
    chance = random.Random(f"{seed} {broker}")
    queues = ["/queue/busy"] * 12 + ["/queue/a", "/queue/b", "/queue/c"]
    steps: list[tuple[int, int, str, Message]] = []
    for number in range(messages):
        at = START_US + chance.randrange(minutes * MINUTE_US)
        body = chance.randbytes(chance.randrange(200))
        message = Message(number, chance.choice(queues), at, body)
        for event in _life(chance):
            steps.append((at, len(steps), event, message))
            at += 1 + int(chance.expovariate(1 / (MINUTE_US / 3)))
    journal, before = Journal(broker), ("", "")
    for at, _, event, message in sorted(steps, key=lambda step: step[:2]):
        message.deliveries += event in ("DELIVER", "ACK")
        joined = event == "ACK" and before == (event, message.destination) and chance.random() < 0.5
        known = {"queue_time_us": None, "delivery_count": None, "body_size": None} if event == "PURGE" else {}
        journal.record(event, at, message, same_record=joined, **known)
        before = (event, message.destination)
    return journal


def _life(chance: random.Random) -> list[str]:
    """The events of one message."""
    events = ["ENQUEUE"]
    while chance.random() < 0.1:
        events += ["DELIVER", "NACK"]
    ends = {"ACK": 80, "EXPIRE": 4, "DEADLETTER": 4, "DISCARD": 3, "PURGE": 2, "MOVE": 2, "": 5}
    (end,) = chance.choices(list(ends), list(ends.values()))
    return events + ["DELIVER", "NACK"] * (end == "DEADLETTER") + [end] * bool(end)


@dataclass
class Forwarding:
    """The events of a broker that forwards and of the one that receives, and the state of each message by its
    position."""

    home: Journal
    west: Journal
    states: dict[int, str]
    until_us: int


def forwarding(seed: int, messages: int = 1_000) -> Forwarding:
    """Messages that `home` forwards to `west` with every error: each is in the state that was drawn for
    it."""
    chance = random.Random(seed)
    drawn = {
        "ok": 80, "in-flight": 2, "confirmed": 2, "lost": 2, "doubled": 2, "foreign": 2, "expired": 2,
        "refused": 2, "removed": 2, "arrived": 2, "elsewhere": 2,
    }  # fmt: skip
    home, west = Journal(HOME), Journal(WEST, position=10_000)
    states: dict[int, str] = {}
    at = START_US
    until = START_US + messages * 100_000 + 10 * MINUTE_US
    for number in range(messages):
        at += chance.randrange(100_000)
        (fate,) = chance.choices(list(drawn), list(drawn.values()))
        message = Message(number, FORWARDED, at, b"x" * chance.randrange(99))
        if fate == "elsewhere":  # forwarded by another bridge to another broker
            message.destination = "/queue/storeAndForward:east/queue/orders"
        if fate == "foreign":
            home.position += 1
            message.position = home.position
        else:
            home.record("ENQUEUE", at, message)
        message.deliveries = 1
        arrivals = {"ok": 1, "doubled": 2, "foreign": 1, "arrived": 1}.get(fate, 0)
        for arrival in range(arrivals):
            copy = Message(number, "/queue/orders", at, message.body, origin=(HOME, message.position))
            west.record("RECEIVE", at + 1_000 * (1 + arrival), copy)
        ends = {
            "expired": "EXPIRE",
            "refused": "DEADLETTER",
            "removed": chance.choice(["DISCARD", "PURGE", "MOVE"]),
        }
        end = ends.get(fate, "FORWARD_ACK")
        if fate not in ("in-flight", "foreign", "arrived"):
            home.record(end, until - MINUTE_US + 1 if fate == "confirmed" else at + 50_000, message)
        if fate != "elsewhere":
            states[message.position] = {"confirmed": "in-flight", "arrived": "ok"}.get(fate, fate)
    return Forwarding(home, west, states, until)


def write(path: Path, *journals: Journal) -> Path:
    """The events of journals as a Parquet file with the types of `journal_event`."""
    types = schema.arrow_schema(column.name for column in schema.COLUMNS)
    rows = [row for journal in journals for row in journal.rows]
    pq.write_table(pa.Table.from_pylist(rows, schema=types), path)
    return path


def batches(rows: list[dict[str, Any]], table: str, size: int = 500) -> list[pa.RecordBatch]:
    """Events as the columns of a table of the archive, in batches of `size`."""
    found = pa.Table.from_pylist(rows, schema=schema.arrow_schema(column.name for column in schema.COLUMNS))
    chosen: list[pa.RecordBatch] = found.select(archive_tables.names(table)).to_batches(size)
    return chosen
