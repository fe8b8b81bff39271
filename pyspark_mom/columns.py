"""Makes Arrow columns of the rows that `rows` has decoded; only those that a query asks for."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from broker_app.core import header_block
from broker_app.core.message import MessageIds
from broker_app.core.reasons import name_of
from pyspark_mom import schema
from pyspark_mom.events import EVENT_NAMES, is_topic
from pyspark_mom.rows import DELIVERIES, END, FACTS, NO_CLIENT, NO_PRIORITY, Decoder, Rows, WantedRows
from pyspark_mom.sent_messages import Sent, SentMessages
from pyspark_mom.transport import StoredFrame

#: a batch of rows is complete with so many rows, or so many bytes of bodies
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 16 * 1024 * 1024
#: header blocks that are remembered: producers repeat them
_MAX_BLOCKS: Final = 1024
_MS: Final = 1000
_TIME: Final = pa.timestamp("us", tz="UTC")
_MAP: Final = schema.arrow_schema(["headers"]).field(0).type
#: the longest time in a queue that an ACKED record can hold, ms: it stands for all that are longer
LONGEST_MS: Final = 2**32 - 1

#: columns of headers of messages, by name of the header
_HEADERS: Final = {
    "correlation_id": "correlation-id",
    "content_type": "content-type",
    "schema_id": "schema-id",
    "trace_id": "traceparent",
}
_OF_BLOCK: Final = {"headers", *_HEADERS}
_OF_CLIENT: Final = {"client_id", "user"}


def wanted(asked: pa.Schema, kinds: Iterable[str], fits: Callable[[str], bool]) -> WantedRows:
    """The rows and parts of messages that these columns need."""
    return WantedRows(
        frozenset(EVENT_NAMES.index(kind) for kind in kinds),
        fits,
        blocks=not _OF_BLOCK.isdisjoint(asked.names),
        bodies="body" in asked.names,
        clients=not _OF_CLIENT.isdisjoint(asked.names),
    )


class Columns:
    """Turns the frames of one broker into batches of the columns `asked`. `tag` is that of its journal, whose
    messages are in `sent`."""

    def __init__(self, asked: pa.Schema, broker: str, tag: int, rows: WantedRows, sent: SentMessages) -> None:
        self._asked = asked
        self._sent = sent
        self._broker = broker
        self._ids = Ids(tag)
        self._blocks = Blocks()
        self._decoder = Decoder(rows)

    def batches(self, frames: Iterable[StoredFrame], start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Batches of about BATCH_ROWS rows: those of the records from `start` to before `end`."""
        for found in frames:
            self._decoder.add(found.frame, found.content, start, end)
            self._sent.keep(found)
            rows = self._decoder.rows
            if len(rows) >= BATCH_ROWS or rows.body_bytes >= BATCH_BYTES:
                yield from self._taken()
        yield from self._taken()

    def _taken(self) -> Iterator[pa.RecordBatch]:
        rows = self._decoder.take()
        if not len(rows):
            return
        columns = BatchColumns(rows, self._broker, self._ids, self._blocks, self._sent)
        arrays = [columns.of(field) for field in self._asked]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._asked)
        if rows.runs_by_topic:
            batch = batch.filter(columns.is_of_topic(self._decoder.wants_topic))
        for start in range(0, len(batch), 2 * BATCH_ROWS):  # a record may acknowledge a million messages
            yield batch.slice(start, 2 * BATCH_ROWS)


class Ids:
    """Message ids that follow from time and position, as text. `MessageIds` has their form."""

    _TIME_AT: Final = (*range(8), *range(9, 13))
    _POSITION_AT: Final = range(24, 36)

    def __init__(self, tag: int) -> None:
        self._template = MessageIds(tag).prefix(0) + b"0" * len(self._POSITION_AT)

    def of(self, times_ms: pa.Array, positions: pa.Array) -> pa.Array:
        """The ids of messages by time and position; both without nulls."""
        count, size = len(positions), len(self._template)
        text = bytearray(self._template * count)
        for digits, places in ((_hex(times_ms), self._TIME_AT), (_hex(positions), self._POSITION_AT)):
            for digit, place in enumerate(places, 16 - len(places)):
                text[place::size] = digits[digit::16]
        offsets = array("i", range(0, size * (count + 1), size))
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def _hex(numbers: pa.Array) -> bytes:
    """16 digits for each number."""
    swapped = array("q")
    swapped.frombytes(memoryview(numbers.buffers()[1])[: 8 * len(numbers)])
    swapped.byteswap()
    return swapped.tobytes().hex().encode()


class Blocks:
    """The headers of header blocks, remembered."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, str]] = {}

    def headers(self, block: bytes) -> dict[str, str]:
        """The headers of a block."""
        found = self._known.get(block)
        if found is None:
            if len(self._known) >= _MAX_BLOCKS:
                self._known.clear()
            found = self._known[block] = header_block.headers(block)
        return found


class BatchColumns:
    """The columns of one batch of rows."""

    def __init__(self, rows: Rows, broker: str, ids: Ids, blocks: Blocks, sent: SentMessages) -> None:
        self._rows = rows
        self._sent = sent
        self._broker = broker
        self._ids = ids
        self._blocks = blocks

    def of(self, field: pa.Field) -> pa.Array:
        """The column of a field."""
        name = field.name
        if name in _HEADERS:
            return self._header(name)
        return _MAKERS[name](self)

    # ------------------------------------------------------------- from frames and runs

    def _broker_name(self) -> pa.Array:
        return pa.repeat(self._broker, len(self._rows))

    def _epoch(self) -> pa.Array:
        return self._of_frames(_integers(self._rows.epochs, pa.int32()))

    def _event_ts(self) -> pa.Array:
        return self._of_frames(_integers(self._rows.times_us, _TIME))

    def _position(self) -> pa.Array:
        return self._of_runs(_integers(self._rows.positions, pa.int64()))

    def _event(self) -> pa.Array:
        return self._named(self._rows.events, EVENT_NAMES)

    def _destination(self) -> pa.Array:
        return self._named(self._rows.destinations, [one.address for one in self._rows.addresses])

    def _destination_kind(self) -> pa.Array:
        return self._named(self._rows.destinations, [one.kind for one in self._rows.addresses])

    def _subscription(self) -> pa.Array:
        return self._named(self._rows.destinations, [one.subscription for one in self._rows.addresses])

    def _topic(self) -> pa.Array:
        topics = self._rows.topics | {
            row: sent.address for row, sent in self._sent_of_rows.items() if is_topic(sent.address)
        }
        own = self._named(
            self._rows.destinations,
            [one.address if is_topic(one.address) else None for one in self._rows.addresses],
        )
        return self._replaced(own, topics) if topics else own

    def _peer_broker(self) -> pa.Array:
        return self._named(self._rows.destinations, [one.peer for one in self._rows.addresses])

    def _priority(self) -> pa.Array:
        known = _integers(self._rows.priorities, pa.int8())
        return self._of_runs(_known(known, pc.not_equal(known, NO_PRIORITY)))

    def _expires_ts(self) -> pa.Array:
        times_ms = _integers(self._rows.expires_ms, pa.int64())
        times = pc.multiply(times_ms, _MS).cast(_TIME)
        return self._of_runs(_known(times, pc.not_equal(times_ms, 0)))

    def _reason(self) -> pa.Array:
        reasons = self._rows.reasons
        if not reasons:
            return pa.nulls(len(self._rows), pa.string())
        runs = range(len(self._rows.counts))
        return self._of_runs(pa.array([name_of(reasons.get(run, 0)) or None for run in runs], pa.string()))

    def _origin_broker(self) -> pa.Array:
        return self._of_origins(0, pa.string())

    def _origin_position(self) -> pa.Array:
        return self._of_origins(1, pa.int64())

    def _of_origins(self, part: int, type_: pa.DataType) -> pa.Array:
        origins = self._rows.origins
        if not origins:
            return pa.nulls(len(self._rows), type_)
        runs = range(len(self._rows.counts))
        return self._of_runs(
            pa.array([origins[run][part] if run in origins else None for run in runs], type_)
        )

    def _named(self, numbers: array[int], names: Sequence[str | None]) -> pa.Array:
        """Texts by their numbers, of all rows of each run."""
        texts = pa.array(names, pa.string())
        return self._of_runs(texts.take(_integers(numbers, pa.int32())))

    def _of_runs(self, values: pa.Array) -> pa.Array:
        return self._repeated(values, self._run_ends)

    def _of_frames(self, values: pa.Array) -> pa.Array:
        return self._repeated(values, self._frame_ends)

    @cached_property
    def _run_ends(self) -> pa.Array:
        return _integers(array("i", accumulate(self._rows.counts)), pa.int32())

    @cached_property
    def _frame_ends(self) -> pa.Array:
        return _integers(array("i", accumulate(self._rows.frame_counts)), pa.int32())

    def _repeated(self, values: pa.Array, ends: pa.Array) -> pa.Array:
        """Each value as often as the number of its rows."""
        if len(values) == len(self._rows):
            return values
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))

    # ------------------------------------------------------------------------ from rows

    def _message_position(self) -> pa.Array:
        return _integers(self._rows.message_positions, pa.int64())

    @cached_property
    def _has_facts(self) -> pa.Array:
        return self._is_known(FACTS)

    def _is_known(self, parts: int) -> pa.Array:
        """True in rows of which all of these are known."""
        found = pc.bit_wise_and(_integers(self._rows.known, pa.int8()), parts)
        return self._of_runs(pc.equal(found, parts))

    @cached_property
    def _queue_ms(self) -> pa.Array:
        return _integers(self._rows.queue_ms, pa.int64())

    @cached_property
    def _enqueued_ms(self) -> pa.Array:
        """The time when each message was enqueued; meaningless without facts."""
        batch_ms = pc.divide(_integers(self._rows.times_us, pa.int64()), _MS)
        return pc.subtract(self._of_frames(batch_ms), self._queue_ms)

    def _enqueued_ts(self) -> pa.Array:
        is_too_long = pc.and_(self._is_known(END), pc.greater_equal(self._queue_ms, LONGEST_MS))
        has_time = pc.and_(self._has_facts, pc.invert(is_too_long))
        return _known(pc.multiply(self._enqueued_ms, _MS).cast(_TIME), has_time)

    def _queue_time_us(self) -> pa.Array:
        return _known(pc.multiply(self._queue_ms, _MS), self._is_known(FACTS | END))

    def _delivery_count(self) -> pa.Array:
        return _known(_integers(self._rows.deliveries, pa.int32()), self._is_known(DELIVERIES))

    def _body_size(self) -> pa.Array:
        return _known(_integers(self._rows.body_sizes, pa.int32()), self._has_facts)

    def _header_size(self) -> pa.Array:
        return _known(_integers(self._rows.header_sizes, pa.int32()), self._has_facts)

    def _message_id(self) -> pa.Array:
        derived = self._ids.of(self._enqueued_ms, self._message_position())
        own = self._rows.ids | {row: sent.id for row, sent in self._sent_of_rows.items()}
        found = _known(derived, self._has_facts)
        return self._replaced(found, own) if own else found

    def _replaced(self, texts: pa.Array, others: Mapping[int, str | None]) -> pa.Array:
        """The texts, but others in some rows."""
        is_other = bytearray(len(self._rows))
        for row in others:
            is_other[row] = 1
        replaced = pa.array([others[row] for row in sorted(others)], pa.string())
        return pc.replace_with_mask(texts, _booleans(array("b", bytes(is_other))), replaced)

    @cached_property
    def _sent_of_rows(self) -> dict[int, Sent]:
        """The messages of rows whose records do not know their ids, as far as they are in the journal."""
        without = [row for row, id in self._rows.ids.items() if id is None]
        without += pc.indices_nonzero(pc.invert(self._has_facts)).to_pylist()
        if not without:
            return {}
        positions = self._rows.message_positions
        found = self._sent.find([positions[row] for row in without])
        return {row: found[positions[row]] for row in without if positions[row] in found}

    def is_of_topic(self, wants: Callable[[str], bool]) -> pa.Array:
        """True in rows that are wanted whatever their topic, and in those whose topic is wanted."""
        found = bytearray(b"\1" * len(self._rows))
        ends = list(accumulate(self._rows.counts))
        for run in self._rows.runs_by_topic:
            for row in range(ends[run] - self._rows.counts[run], ends[run]):
                sent = self._sent_of_rows.get(row)
                found[row] = sent is not None and wants(sent.address)
        return _booleans(array("b", bytes(found)))

    def _user(self) -> pa.Array:
        return self._of_clients([client.user for client in self._rows.client_names])

    def _client_id(self) -> pa.Array:
        return self._of_clients([client.client_id for client in self._rows.client_names])

    def _of_clients(self, texts: list[str]) -> pa.Array:
        clients = _integers(self._rows.clients, pa.int32())
        found = pa.array([text or None for text in texts], pa.string())
        return found.take(_known(clients, pc.not_equal(clients, NO_CLIENT)))

    def _body(self) -> pa.Array:
        return pa.array(self._rows.bodies, pa.binary())

    def _header(self, name: str) -> pa.Array:
        header = _HEADERS[name]
        found = [headers.get(header) for headers in self._headers]
        if name == "trace_id":
            found = [_trace_id(text) if text else None for text in found]
        return pa.array(found, pa.string()).take(self._blocks_of_rows)

    def _header_map(self) -> pa.Array:
        names: list[str] = []
        values: list[str] = []
        offsets = array("i", [0])
        for headers in self._headers:
            names += headers
            values += headers.values()
            offsets.append(len(names))
        texts = (pa.array(part, pa.string()) for part in (names, values))
        return pa.MapArray.from_arrays(_integers(offsets, pa.int32()), *texts, type=_MAP).take(
            self._blocks_of_rows
        )

    @cached_property
    def _blocks_of_rows(self) -> pa.Array:
        """The number of the block of each row in `_headers`; null without a block."""
        numbers = self._numbers_of_blocks
        return pa.array([numbers.get(block) for block in self._rows.blocks], pa.int32())

    @cached_property
    def _numbers_of_blocks(self) -> dict[bytes | None, int]:
        different = dict.fromkeys(self._rows.blocks)
        different.pop(None, None)
        return {block: number for number, block in enumerate(different)}

    @cached_property
    def _headers(self) -> list[dict[str, str]]:
        """The headers of each different block."""
        return [self._blocks.headers(block) for block in self._numbers_of_blocks if block is not None]


#: what makes each column that is not made of a header
_MAKERS: Final[dict[str, Callable[[BatchColumns], pa.Array]]] = {
    "broker": BatchColumns._broker_name,
    "epoch": BatchColumns._epoch,
    "position": BatchColumns._position,
    "event": BatchColumns._event,
    "event_ts": BatchColumns._event_ts,
    "destination": BatchColumns._destination,
    "destination_kind": BatchColumns._destination_kind,
    "subscription": BatchColumns._subscription,
    "topic": BatchColumns._topic,
    "message_id": BatchColumns._message_id,
    "message_position": BatchColumns._message_position,
    "enqueued_ts": BatchColumns._enqueued_ts,
    "queue_time_us": BatchColumns._queue_time_us,
    "delivery_count": BatchColumns._delivery_count,
    "body_size": BatchColumns._body_size,
    "header_size": BatchColumns._header_size,
    "priority": BatchColumns._priority,
    "expires_ts": BatchColumns._expires_ts,
    "reason": BatchColumns._reason,
    "client_id": BatchColumns._client_id,
    "user": BatchColumns._user,
    "origin_broker": BatchColumns._origin_broker,
    "origin_position": BatchColumns._origin_position,
    "peer_broker": BatchColumns._peer_broker,
    "headers": BatchColumns._header_map,
    "body": BatchColumns._body,
}


def _integers(numbers: array[int], type_: pa.DataType) -> pa.Array:
    """The numbers as they are in memory; their size must be that of the type."""
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(numbers)])


def _booleans(numbers: array[int]) -> pa.Array:
    return pc.not_equal(_integers(numbers, pa.int8()), 0)


def _known(values: pa.Array, is_known: pa.Array) -> pa.Array:
    """The values that are known; null for the others."""
    return pc.if_else(is_known, values, pa.scalar(None, values.type))


def _trace_id(traceparent: str) -> str | None:
    """The second element of a W3C traceparent."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else None
