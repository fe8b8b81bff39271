"""Columns of rows that are written into a broker, and what they mean there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from pyspark_mom.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_mom.sink_options import SinkOptions

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DECIMAL: Final = "decimal"
_NUMBERS: Final = (*_INTEGERS, "float", "double", _DECIMAL)
_HEADERS: Final = ("map<string,string>",)
_TEXT: Final = ("string",)

BODY, DESTINATION, HEADERS = "body", "destination", "headers"


def _same(value: Any) -> Any:
    return value


def _time(value: int) -> str:
    """Microseconds since 1970 as RFC 3339."""
    return datetime.fromtimestamp(value / 1_000_000, UTC).isoformat(timespec="milliseconds")


class SinkColumn(NamedTuple):
    """A column: the Spark types that it may have, the Arrow type that it is read as, and how a value is
    written in the head of a request."""

    types: tuple[str, ...]
    arrow: pa.DataType | None = None
    write: Callable[[Any], Any] = _same


#: of the body, of the destination, and of what an item of a batch has in the REST API
COLUMNS: Final = {
    BODY: SinkColumn(("binary", "string"), pa.binary()),
    DESTINATION: SinkColumn(_TEXT),
    HEADERS: SinkColumn(_HEADERS, None, dict),
    "content_type": SinkColumn(_TEXT),
    "correlation_id": SinkColumn(_TEXT),
    "type": SinkColumn(_TEXT),
    "group": SinkColumn(_TEXT),
    "reply_to": SinkColumn(_TEXT),
    "priority": SinkColumn(_INTEGERS),
    "persistent": SinkColumn(("boolean",)),
    "expires_s": SinkColumn(_NUMBERS, pa.float64()),
    "delay_s": SinkColumn(_NUMBERS, pa.float64()),
    "deliver_at": SinkColumn(("timestamp",), pa.int64(), _time),
    "dedup_id": SinkColumn(_TEXT),
}


def check(schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:
    """Raise InvalidOption when rows of this schema cannot be written."""
    if overwrite:
        raise InvalidOption("messages that were published cannot be overwritten; use the mode append")
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, found in types.items():
        column = COLUMNS.get(name)
        if column is None:
            similar = get_close_matches(name.lower(), COLUMNS, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"the columns are {', '.join(COLUMNS)}"
            raise InvalidOption(f"a message has no column {name!r}; {hint} Select what is to be written")
        if found.partition("(")[0] not in column.types and found not in column.types:
            wanted = " or ".join(column.types)
            raise InvalidOption(f"the column {name} has the type {found}; cast it to {wanted}")
    if BODY not in types:
        raise InvalidOption("the column body is missing: the content of each message, binary or string")
    if DESTINATION not in types and options.destination is None:
        raise InvalidOption(
            "destination: give the destination of all rows, such as /queue/orders, or a column destination"
        )
