"""The table `journal_event`, version 1: one row for each event of a message.

Times are UTC with microseconds. Columns that a record of the journal does not know are null.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from pyspark_mom.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_mom.options import Options

#: of the table; columns are only ever added
VERSION: Final = 1

#: two contents: all events without bodies, or messages with their bodies
EVENTS, MESSAGES = CONTENTS = ("events", "messages")

_TEXT: Final = (pa.string(), "string")
_TIME: Final = (pa.timestamp("us", tz="UTC"), "timestamp")
_LONG: Final = (pa.int64(), "bigint")
_INT: Final = (pa.int32(), "int")
_BYTE: Final = (pa.int8(), "tinyint")
_BODY: Final = (pa.binary(), "binary")
_HEADERS: Final = (
    pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=True)),
    "map<string,string>",
)


class Column(NamedTuple):
    """A column: its type for Arrow and for Spark, and whether values may be null."""

    name: str
    arrow: pa.DataType
    ddl: str
    null: bool


COLUMNS: Final = (
    Column("broker", *_TEXT, null=False),
    Column("epoch", *_INT, null=False),
    Column("position", *_LONG, null=False),
    Column("event", *_TEXT, null=False),
    Column("event_ts", *_TIME, null=False),
    Column("destination", *_TEXT, null=False),
    Column("destination_kind", *_TEXT, null=False),
    Column("subscription", *_TEXT, null=True),
    Column("topic", *_TEXT, null=True),
    Column("message_id", *_TEXT, null=True),
    Column("message_position", *_LONG, null=False),
    Column("enqueued_ts", *_TIME, null=True),
    Column("queue_time_us", *_LONG, null=True),
    Column("delivery_count", *_INT, null=True),
    Column("body_size", *_INT, null=True),
    Column("header_size", *_INT, null=True),
    Column("priority", *_BYTE, null=True),
    Column("expires_ts", *_TIME, null=True),
    Column("reason", *_TEXT, null=True),
    Column("client_id", *_TEXT, null=True),
    Column("user", *_TEXT, null=True),
    Column("origin_broker", *_TEXT, null=True),
    Column("origin_position", *_LONG, null=True),
    Column("peer_broker", *_TEXT, null=True),
    Column("correlation_id", *_TEXT, null=True),
    Column("content_type", *_TEXT, null=True),
    Column("schema_id", *_TEXT, null=True),
    Column("trace_id", *_TEXT, null=True),
    Column("headers", *_HEADERS, null=True),
    Column("body", *_BODY, null=True),
)
_BY_NAME: Final = {column.name: column for column in COLUMNS}


def columns(content: str, *, headers: bool) -> list[Column]:
    """The columns of a content."""
    left_out = {"body"} if content == EVENTS else set()
    if not headers:
        left_out.add("headers")
    return [column for column in COLUMNS if column.name not in left_out]


def ddl(options: Options) -> str:
    """The columns of a query that names none, as Spark writes them."""
    return ", ".join(
        f"{column.name} {column.ddl}{'' if column.null else ' NOT NULL'}"
        for column in columns(options.content, headers=options.include_headers)
    )


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([pa.field(name, _BY_NAME[name].arrow, nullable=_BY_NAME[name].null) for name in names])


def requested(schema: StructType) -> pa.Schema:
    """The Arrow schema of the columns that a query asks for. Raises InvalidOption for others.

    Spark compares it with that of each batch, to the last detail.
    """
    return pa.schema(
        [_requested(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields]
    )


def _requested(name: str, ddl: str, nullable: bool) -> pa.Field:
    column = _BY_NAME.get(name)
    if column is None:
        similar = get_close_matches(name.lower(), _BY_NAME, 1)
        hint = f"; {similar[0]} is similar" if similar else f"; it has {', '.join(_BY_NAME)}"
        raise InvalidOption(f"the table journal_event has no column {name!r}{hint}")
    if ddl != column.ddl:
        raise InvalidOption(f"the column {name} has the type {column.ddl}, not {ddl}")
    if column.null and not nullable:
        raise InvalidOption(f"the column {name} can be null; leave NOT NULL out of the schema")
    return pa.field(name, column.arrow, nullable=nullable)
