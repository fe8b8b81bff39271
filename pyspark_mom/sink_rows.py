"""Rows of a task as requests of bulk publishing: parts of a stage (docs/protocol.md, "Bulk publishing").

u32 length of the head | head (JSON) | n * u32 envelope of each row | n * u32 length of each body | bodies
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pyspark_mom.errors import RowsRefused
from pyspark_mom.sink_columns import BODY, COLUMNS, DESTINATION, HEADERS

MEDIA_TYPE: Final = "application/vnd.mom.rows"
#: rows of a part, and bytes of one row
MAX_ROWS: Final = 10_000
MAX_ROW_BYTES: Final = 15 * 1024 * 1024
_ROW_OVERHEAD: Final = 8

#: the values of all columns but the body
_Key = tuple[Any, ...]


class RequestPart(NamedTuple):
    """The body of one request, its number of rows, and that of its first row among those of the task."""

    content: bytes
    rows: int
    first_row: int = 0


class _PartBuilder:
    """Rows of the part that is being made. Rows that differ in their bodies alone share an envelope."""

    def __init__(self, names: tuple[str, ...], destination: str | None, first_row: int) -> None:
        self._names = names
        self._first_row = first_row
        self._destination = destination
        self._known: dict[_Key, int] = {}
        self._envelopes: list[str] = []
        self._indexes = array("I")
        self._sizes = array("I")
        self._bodies: list[bytes] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def next_row(self) -> int:
        """The number, in the task, of the row that comes next."""
        return self._first_row + len(self)

    def add(self, key: _Key, body: bytes, unsent: int = 0) -> None:
        """Add a row; `unsent` are the bytes of a body that is too large to be sent, and left out."""
        known = (*key, unsent) if unsent else key
        index = self._known.get(known)
        if index is None:
            index = self._known[known] = len(self._envelopes)
            self._envelopes.append(self._envelope(key, unsent))
            self.bytes += len(self._envelopes[-1])
        self._indexes.append(index)
        self._sizes.append(len(body))
        self._bodies.append(body)
        self.bytes += len(body) + _ROW_OVERHEAD

    def _envelope(self, key: _Key, unsent: int) -> str:
        facts: dict[str, Any] = {
            name: COLUMNS[name].write(value)
            for name, value in zip(self._names, key, strict=True)
            if value is not None
        }
        facts.setdefault(DESTINATION, self._destination or "")
        if unsent:
            facts["body_bytes"] = unsent
        return json.dumps(facts, ensure_ascii=False)

    def part(self) -> RequestPart:
        """The part, complete."""
        head = f'{{"rows":{len(self)},"envelopes":[{",".join(self._envelopes)}]}}'.encode()
        columns = [_little_endian(column) for column in (self._indexes, self._sizes)]
        content = b"".join((len(head).to_bytes(4, "little"), head, *columns, *self._bodies))
        return RequestPart(content, len(self), self._first_row)


def parts(
    batches: Iterable[pa.RecordBatch], destination: str | None, max_bytes: int, *, dead_letters: bool = False
) -> Iterator[RequestPart]:
    """All rows, in parts of about `max_bytes`. `destination` is that of rows that name none. A body that is
    null is empty. A row that no part can contain is sent without its body, for its dead letter; without
    `dead_letters`, it raises RowsRefused."""
    builder: _PartBuilder | None = None
    first_row = 0
    for batch in batches:
        names = tuple(name for name in batch.schema.names if name != BODY)
        bodies = batch.column(BODY).cast(pa.binary()).to_pylist()
        for key, body in zip(_keys(batch, names), bodies, strict=True):
            size, unsent = len(body or b""), 0
            if size > MAX_ROW_BYTES:
                if not dead_letters:
                    raise RowsRefused(
                        f"a body has {size} bytes; Spark sends at most {MAX_ROW_BYTES} in one message. Send "
                        "it by itself: POST /api/v1/queues/NAME/messages. With onError=deadLetter, such rows "
                        "become dead letters without their bodies"
                    )
                size, unsent, body = 0, size, b""
            if builder is not None and (len(builder) >= MAX_ROWS or builder.bytes + size > max_bytes):
                yield builder.part()
                first_row, builder = builder.next_row, None
            builder = builder or _PartBuilder(names, destination, first_row)
            builder.add(key, body or b"", unsent)
    if builder is not None:
        yield builder.part()


def _keys(batch: pa.RecordBatch, names: tuple[str, ...]) -> Iterable[_Key]:
    """The values of all columns but the body, for each row."""
    if not names:
        return repeat((), batch.num_rows)
    return zip(*(_values(batch.column(name), name) for name in names), strict=True)


def _values(column: pa.Array, name: str) -> list[Any]:
    wanted = COLUMNS[name].arrow
    found: list[Any] = (column if wanted is None else column.cast(wanted)).to_pylist()
    if name == HEADERS:  # a map is a list of pairs; a header without a value is none
        return [
            None if entries is None else tuple(pair for pair in entries if pair[1] is not None)
            for entries in found
        ]
    return found


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers.tobytes()
