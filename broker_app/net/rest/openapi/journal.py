"""The journal, for readers that follow it."""

from __future__ import annotations

from broker_app.net.rest.journal.cursor_status import Cursor, Cursors, LostPositions
from broker_app.net.rest.journal.frames import MAX_POSITION, MEDIA_TYPE
from broker_app.net.rest.openapi.operations import (
    empty_reply,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    COUNT,
    OPTIONAL_TIME,
    POSITION,
    TEXT,
    TIME,
    Json,
    object_of,
    of_types,
    ref,
    whole,
)

_POSITION: Json = whole(0, MAX_POSITION)
_LOW: Json = {**COUNT, "description": "from here on everything is stored"}
_END: Json = {**COUNT, "description": "the position after the last durable record"}
_JOURNAL = "identifies the journal: its tag (hex) and its epoch, which grows with each start of a broker"

_NAME = in_path("name", "name of the cursor", {"type": "string", "pattern": "^[a-z0-9._:-]{1,100}$"})
SCHEMAS: Json = {
    **of_types(Cursors, Cursor, LostPositions),
    "CursorPosition": object_of({"position": {"anyOf": [_POSITION, POSITION]}}),
    "JournalSpan": object_of(
        {
            "broker": {**TEXT, "description": "name of the broker"},
            "journal": {**TEXT, "description": "tag of the journal, drawn when it was created; hex"},
            "epoch": {**COUNT, "description": "grows with each start of a broker"},
            "low": _LOW,
            "end": _END,
            "low_time": {**OPTIONAL_TIME, "description": "of the first batch; null without one"},
            "end_time": {**OPTIONAL_TIME, "description": "of the last batch; null without one"},
        }
    ),
    "JournalPosition": object_of(
        {
            "position": {**COUNT, "description": "the first of that batch; `end` if there is none"},
            "low": _LOW,
            "end": _END,
            "time": {**OPTIONAL_TIME, "description": "of that batch"},
        }
    ),
}

PATHS: Json = {
    "/journal/span": {
        "get": operation(
            "get_journal_span", "The positions that are stored without a gap, and durable",
            {"200": json_reply("the span", ref("JournalSpan"))}, 409, 410, 500, 503,
        ),
    },
    "/journal/batches": {
        "get": operation(
            "get_journal_batches",
            "Stored frames, undecoded, one after the other. A reply may end before `to`: continue at the "
            "position after its last frame",
            {
                "200": {
                    "description": "frames, as docs/protocol.md describes them",
                    "content": {MEDIA_TYPE.decode(): {}},
                    "headers": {
                        "Request-Id": ref("RequestId", "headers"),
                        "Mom-Journal": {"schema": TEXT, "description": _JOURNAL},
                        "Mom-Journal-End": {"schema": COUNT, "description": "as `end` of the span"},
                    },
                }
            },
            409, 410, 500, 503,
            parameters=[
                parameter("from", _POSITION, "the first position, in any place of a batch; else `low`"),
                parameter("to", _POSITION, "the position after the last one; else `end`"),
                parameter("max_bytes", whole(1, 10**12), "most bytes, unless its only batch has more"),
            ],
        ),
    },
    "/journal/position": {
        "get": operation(
            "get_journal_position", "The position of the first batch at or after a time",
            {"200": json_reply("the position", ref("JournalPosition"))}, 409, 410, 500, 503,
            parameters=[parameter("time", TIME, "RFC 3339", required=True)],
        ),
    },
    "/pipeline/cursors": {
        "get": operation(
            "list_cursors", "The programs that read the journal, and how far they have come",
            {"200": json_reply("cursors", ref("Cursors"))}, 500, 503,
        ),
    },
    "/pipeline/cursors/{name}": {
        "get": operation(
            "get_cursor", "A program that reads the journal, and how far it has come",
            {"200": json_reply("the cursor", ref("Cursor"))}, 404, 500, 503, parameters=[_NAME],
        ),
        "put": operation(
            "set_cursor",
            "Report that everything before a position was read; the journal keeps what is behind it",
            {"200": json_reply("the cursor, which is stored", ref("Cursor"))},
            408, 409, 410, 413, 415, 500, 503, parameters=[_NAME], body=json_body("CursorPosition"),
        ),
        "delete": operation(
            "drop_cursor", "Forget a cursor: the journal is not kept for it any more",
            {"204": empty_reply("forgotten")}, 404, 500, 503, parameters=[_NAME],
        ),
    },
}  # fmt: skip
