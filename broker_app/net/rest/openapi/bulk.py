"""Bulk publishing: stages of rows, and batches of them that are committed once."""

from __future__ import annotations

from broker_app.core.publishing.bulk_producer import MAX_BATCH, MAX_NAME
from broker_app.features.bulk.stage_store import MAX_PARTS_OF_STAGE
from broker_app.net.rest.messages.bulk import MAX_STAGES, ON_ERROR
from broker_app.net.rest.messages.bulk_rows import MAX_LISTED, MEDIA_TYPE
from broker_app.net.rest.openapi.operations import (
    BEGINS,
    ENDS,
    empty_reply,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)

_UUID: Json = {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
_ROWS_BODY: Json = {
    "description": "u32 length of the head | head | n * u32 envelope of each row | n * u32 length of each "
    'body | bodies. Numbers are little endian. The head is JSON: {"rows": n, "envelopes": [{"destination": '
    '"/queue/a", …}, …]}; an envelope has the members of an Item, without body and body_base64; "body_bytes" '
    "is the size of a body that was too large to be sent.",
    "required": True,
    "content": {MEDIA_TYPE.decode(): {"schema": {"type": "string", "format": "binary"}}},
}
_REFUSED_ROW = object_of({"row": COUNT, "destination": TEXT, "code": TEXT, "detail": TEXT})

SCHEMAS: Json = {
    "Staged": object_of(
        {
            "rows": COUNT,
            "dead_letters": {**COUNT, "description": "rows that were refused, and will be dead letters"},
            "refused": array_of(_REFUSED_ROW, MAX_LISTED),
        }
    ),
    "BulkCommit": object_of(
        {
            "producer": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
            "batch": whole(0, MAX_BATCH - 1),
            "stages": array_of(object_of({"id": _UUID, "parts": COUNT, "rows": COUNT}), MAX_STAGES),
        }
    ),
    "BulkCommitted": object_of(
        {
            "published": COUNT,
            "duplicate": {**BOOLEAN, "description": "true: the batch was published before"},
        }
    ),
    "BulkAbort": object_of({"stages": array_of(_UUID, MAX_STAGES)}),
    "BulkProducers": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "name": TEXT,
                        "user": TEXT,
                        "last_batch": {
                            "type": ["integer", "null"],
                            "description": "the last that is complete",
                        },
                        "rows_of_next": {
                            **COUNT,
                            "description": "rows of the next batch that are published already",
                        },
                        "time": TIME,
                    }
                )
            ),
            "total": COUNT,
        }
    ),
}

PATHS: Json = {
    "/bulk/stage": {
        "post": operation(
            "stage_rows", "Store rows that are published when their stage is committed",
            {"200": json_reply("staged; the first refused rows are listed", ref("Staged"))},
            404, 408, 413, 415, 503,
            parameters=[
                parameter("id", _UUID, "of the stage; a new one for each writer", required=True),
                parameter(
                    "seq", whole(0, MAX_PARTS_OF_STAGE - 1, 0), "of this part; replaces a former one"
                ),
                parameter("on_error", {"enum": list(ON_ERROR)}, "what refused rows do; default fail"),
            ],
            body=_ROWS_BODY,
            refused_while=BEGINS,
        ),
    },
    "/bulk/commit": {
        "post": operation(
            "commit_rows", "Publish the rows of stages as one batch of a producer, once",
            {"200": json_reply("all of its rows are published", ref("BulkCommitted"))},
            404, 408, 409, 413, 415, 503,
            body=json_body("BulkCommit"),
            refused_while=ENDS,
        ),
    },
    "/bulk/abort": {
        "post": operation(
            "abort_rows", "Remove stages that will not be committed", {"204": empty_reply("removed")},
            408, 413, 415, 503,
            body=json_body("BulkAbort"),
            refused_while=ENDS,
        ),
    },
    "/bulk/producers": {
        "get": operation(
            "list_bulk_producers", "Producers of batches, the latest first; administrators see those of all",
            {"200": json_reply("producers", ref("BulkProducers"))}, 503,
            parameters=[parameter("limit", whole(1, 500, 50), "most producers")],
        ),
    },
    "/bulk/producers/{name}": {
        "delete": operation(
            "delete_bulk_producer", "Forget a producer: batches that it sends again are published again",
            {"204": empty_reply("forgotten")}, 404, 409, 503,
            parameters=[in_path("name", "of the producer", {"type": "string", "minLength": 1})],
        ),
    },
}  # fmt: skip
