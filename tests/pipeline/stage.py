"""A broker in a test that has a journal, and the rows that its journal must give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from broker_app.core import header_block
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.recovery import live_positions
from broker_app.core.outcome import Outcome
from broker_app.journal import codec
from broker_app.journal.port import Journal
from pyspark_mom.offsets import Place
from pyspark_mom.options import Options, parse
from pyspark_mom.ranges import Range, read, split
from pyspark_mom.schema import COLUMNS, arrow_schema
from pyspark_mom.transport import StoredFrame, open_journal
from tests.core.stage import Fact, Record, Stage, Stored
from tests.core.stage import read as read_records

ALL = tuple(column.name for column in COLUMNS)
BROKER = "A"

Row = dict[str, Any]


class JournalStage(Stage):
    """A stage that stores its batches in a journal at the address `url`, as a broker does."""

    def __init__(self, make: Callable[[], Journal], url: str, **facts: Any) -> None:
        self.url = url
        self._make = make
        self.journal = make()
        self.journal.open()
        self.journal.set_live_positions([])
        super().__init__(tag=self.journal.tag, **facts)
        #: time in µs and epoch of each batch
        self.written: list[tuple[int, int]] = []

    @property
    def directory(self) -> Path:
        """The journal's, if it is in segment files."""
        return Path(self.url.removeprefix("file://"))

    def _commit(self, outcome: Outcome) -> None:
        super()._commit(outcome)
        if not outcome.count:
            return
        self.written.append((outcome.time_us, self.journal.epoch))
        answers: list[BaseException | None] = []
        self.journal.commit(outcome, answers.append)
        assert answers == [None]

    def snapshot(self) -> None:
        """Store a snapshot, after which segments without messages are free."""
        answers: list[BaseException | None] = []
        self.journal.snapshot(self.end, [self.take_snapshot()], answers.append)
        assert answers == [None]

    def reopen(self) -> None:
        """The broker was killed and starts again, with a new epoch."""
        self.journal.close()
        self.journal = self._make()
        self.journal.open()
        self.restart()
        self.journal.set_live_positions(live_positions(self.broker))

    @property
    def end(self) -> int:
        return self.broker.turn.next_position

    @property
    def expected(self) -> list[dict[str, Any]]:
        """The rows of all batches."""
        sent: dict[int, Row] = {}
        return [
            row
            for batch, (time_us, epoch) in zip(self.batches, self.written, strict=True)
            for row in rows_of(batch, time_us, epoch, self.tag, sent)
        ]

    def options(self, **given: str) -> Options:
        return parse({"url": self.url, "broker": BROKER, **given})

    def rows(self, *names: str, **given: str) -> list[dict[str, Any]]:
        """The rows that the data source reads, without Spark."""
        return read_rows(self.options(**given), *names)


def read_rows(options: Options, *names: str) -> list[dict[str, Any]]:
    """All rows of a query, without Spark; all columns without `names`."""
    return [row for part in parts_of(options) for row in rows_in(part, options, *names)]


def parts_of(options: Options) -> list[Range]:
    """The partitions of all that is stored."""
    start, end = {}, {}
    for name in options.urls:
        with closing(open_journal(name, options)) as journal:
            low, high, epoch, tag = journal.span()
        start[name], end[name] = Place(epoch, low, tag), Place(epoch, high, tag)
    return split(start, end, options.min_partitions)


def rows_in(part: Range, options: Options, *names: str) -> list[dict[str, Any]]:
    """The rows of a partition."""
    return [row for batch in read(part, options, arrow_schema(names or ALL)) for row in batch.to_pylist()]


def frames_of(stage: Stage, time_us: int, epoch: int = 1) -> Iterator[StoredFrame]:
    """The batches of a stage as a journal stores them, all with one time."""
    for batch in stage.batches:
        count = sum(1 for _ in records.walk(batch.records))
        pieces = codec.encode_frame(
            segment_id=1,
            epoch=epoch,
            first_position=batch.first_position,
            time_us=time_us,
            count=count,
            table=codec.encode_table(batch.destinations),
            parts=[batch.records],
        )
        content = b"".join(pieces)
        frame = codec.decode_frame(content, 0)
        assert frame is not None
        yield StoredFrame(frame, content)


# ----------------------------------------------------------------------------------- the rows


_EVENT_OF_CAUSE = {
    records.ACKNOWLEDGED: "ACK",
    records.EXPIRED: "EXPIRE",
    records.DEAD_LETTERED: "DEADLETTER",
    records.DISCARDED: "DISCARD",
    records.PURGED: "PURGE",
    records.MOVED: "MOVE",
}


def rows_of(batch: Stored, time_us: int, epoch: int, tag: int, sent: dict[int, Row]) -> Iterator[Row]:
    """The rows of a batch, one by one and by the definition: a second implementation, slow and simple. `sent`
    has the ids and topics of the messages of all batches so far, by position."""
    for record in read_records(batch):
        common = dict.fromkeys(ALL) | {
            "broker": BROKER,
            "epoch": epoch,
            "position": record.position,
            "event_ts": moment(time_us),
            "destination": record.address,
            **_facts_of(record.address),
        }
        if record.kind == records.PUBLISHED:
            published = _published(record.content, record.position, record.priority, record.address, tag)
            sent[record.position] = {name: published[name] for name in ("message_id", "topic")}
            if record.flags & records.DELAYED and not record.origin:
                continue
            if record.origin:
                sender = record.origin[0].split("/")[2]
                published |= {
                    "event": "RECEIVE",
                    "origin_broker": sender.split("~")[0],
                    "origin_position": record.origin[1],
                }
            yield common | published | _client_of(record.client)
        elif record.kind == records.ACKED and record.flags in _EVENT_OF_CAUSE:
            event = _EVENT_OF_CAUSE[record.flags]
            if event == "ACK" and common["peer_broker"]:
                event = "FORWARD_ACK"
            clients = _clients_of(record)
            for position in record.numbers:
                known = {} if record.facts is None else _ended(record.facts[position], position, time_us, tag)
                row = common | {"event": event, "message_position": position} | sent[position] | known
                yield row | {"reason": record.reason or None} | _client_of(clients.get(position, ""))
        elif record.kind == records.DELIVERED:
            (position,) = record.numbers
            yield common | {
                "event": "FORWARD" if common["peer_broker"] else "DELIVER",
                "message_position": position,
                "priority": record.priority,
                "delivery_count": 1,
                **sent[position],
            }
        elif record.kind == records.RETURNED:
            event = "NACK" if record.flags else "FORWARD" if common["peer_broker"] else "DELIVER"
            pairs = zip(record.numbers[::2], record.numbers[1::2], strict=True)
            for (position, attempts), client in zip(pairs, record.clients, strict=True):
                row = common | {"event": event, "message_position": position, "delivery_count": attempts}
                row |= sent[position]
                yield row | {"reason": record.reason or None} | _client_of(client)


def _clients_of(record: Record) -> dict[int, str]:
    """The client of each message of an ACKED record that has them."""
    return dict(zip(record.numbers, record.clients, strict=True)) if record.clients else {}


def _client_of(address: str) -> dict[str, Any]:
    _, _, user, client_id = address.split("/", 3) if address else ("",) * 4
    return {"user": user or None, "client_id": client_id or None}


def _published(content: bytes, position: int, priority: int, address: str, tag: int) -> dict[str, Any]:
    message = Reader(address).message(content, position)
    block = message.envelope.block
    pairs = header_block.headers(block)
    return {
        "event": "ENQUEUE",
        "topic": _topic_of(message.envelope.address),
        "message_position": position,
        "message_id": message.explicit_id.decode()
        if message.explicit_id
        else id_of(tag, message.time_ms, position),
        "enqueued_ts": moment(1000 * message.time_ms),
        "delivery_count": 0,
        "body_size": len(message.body),
        "header_size": len(block),
        "priority": priority,
        "expires_ts": moment(1000 * message.expires_ms) if message.expires_ms else None,
        "correlation_id": pairs.get("correlation-id"),
        "content_type": pairs.get("content-type"),
        "headers": list(pairs.items()),
        "body": message.body,
    }


def _ended(fact: Fact, position: int, time_us: int, tag: int) -> dict[str, Any]:
    """The facts about a message that is gone."""
    accepted_ms = time_us // 1000 - fact.queue_ms
    id = {} if fact.has_own_id else {"message_id": id_of(tag, accepted_ms, position)}
    return id | {
        "enqueued_ts": moment(1000 * accepted_ms),
        "queue_time_us": 1000 * fact.queue_ms,
        "delivery_count": fact.deliveries,
        "body_size": fact.body_bytes,
        "header_size": fact.header_bytes,
    }


def moment(time_us: int) -> datetime:
    """A time in µs since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def id_of(tag: int, time_ms: int, position: int) -> str:
    """The id of a message, by the drawing of `MessageIds`."""
    bits = time_ms << 80 | 7 << 76 | tag >> 14 << 64 | 2 << 62 | (tag & 0x3FFF) << 48 | position
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _topic_of(address: str) -> str | None:
    return address if address.startswith(("/topic/", "/temp-topic/")) else None


def _facts_of(address: str) -> dict[str, Any]:
    subscription = re.match("/(topic|shared)-subscription/(.*)", address)
    forwarded = re.match("/queue/storeAndForward:([^/]*)/queue/", address)
    is_topic = subscription or address.startswith(("/topic/", "/temp-topic/"))
    return {
        "topic": _topic_of(address),
        "destination_kind": "topic" if is_topic else "queue",
        "subscription": subscription[2] if subscription else None,
        "peer_broker": forwarded[1] if forwarded and not address.endswith(".dead") else None,
    }
