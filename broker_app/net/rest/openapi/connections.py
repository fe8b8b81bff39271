"""Connections and their consumers."""

from __future__ import annotations

from broker_app.net.rest.openapi.operations import (
    AFTER,
    QUEUE,
    empty_reply,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.shapes import (
    COUNT,
    OPTIONAL_TEXT,
    PAGING,
    TEXT,
    TIME,
    TRUTH,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)

_CONSUMER = object_of(
    {
        "id": TEXT,
        "destination": TEXT,
        "connection": {**OPTIONAL_TEXT, "description": "null for those of the REST interface"},
        "user": TEXT,
        "ack": {"enum": ["auto", "client", "client-individual"]},
        "selector": {**OPTIONAL_TEXT, "description": "null when it takes every message"},
        "exclusive": TRUTH,
        "active": {**TRUTH, "description": "false: stands by for an exclusive consumer"},
        "credit": COUNT,
        "unsettled": COUNT,
        "delivered": {**COUNT, "description": "with repeats"},
        "acknowledged": COUNT,
        "returned": COUNT,
        "waiting": {**COUNT, "description": "messages in its queue"},
        "since": TIME,
        "slow_since": {
            **TIME,
            "type": ["string", "null"],
            "description": "it takes nothing, though messages wait",
        },
    }
)
_CONNECTION: Json = {
    "id": {**TEXT, "description": "what CONNECTED told the client as session"},
    "user": TEXT,
    "transport": {"enum": ["tcp", "websocket", "local"]},
    "address": OPTIONAL_TEXT,
    "protocol": TEXT,
    "since": TIME,
    "bytes_in": COUNT,
    "bytes_out": COUNT,
    "frames_in": COUNT,
    "frames_out": COUNT,
    "subscriptions": COUNT,
    "transactions": COUNT,
    "unsettled": COUNT,
    "heart_beat_in_s": {"type": "number", "minimum": 0, "description": "agreed with the client; 0 is none"},
    "heart_beat_out_s": {"type": "number", "minimum": 0},
    "silent_s": {"type": "number", "minimum": 0, "description": "since something came from the client"},
    "congested": {**TRUTH, "description": "the client does not take what was sent"},
    "held_back": {**TRUTH, "description": "the broker reads no more of it for the moment"},
    "slow": {**TRUTH, "description": "one of its subscriptions is"},
}
_CONNECTION_ID = in_path("id", "of the connection", {"type": "string", "minLength": 1})

SCHEMAS: Json = {
    "Consumer": _CONSUMER,
    "ConsumerPage": object_of({"items": array_of(ref("Consumer"), 1000), **PAGING}),
    "Connection": object_of(_CONNECTION),
    "ConnectionDetails": object_of({**_CONNECTION, "consumers": array_of(ref("Consumer"), 1000)}),
    "ConnectionPage": object_of({"items": array_of(ref("Connection")), **PAGING}),
    "CloseRequest": object_of({"reason": {"type": "string", "minLength": 1, "maxLength": 500}}, required=()),
}

PATHS: Json = {
    "/queues/{name}/consumers": {
        "get": operation(
            "list_consumers", "Who consumes a queue; the first 1,000",
            {"200": json_reply("consumers", ref("ConsumerPage"))}, 404,
            parameters=[QUEUE],
        ),
    },
    "/connections": {
        "get": operation(
            "list_connections", "STOMP connections, oldest first",
            {"200": json_reply("connections", ref("ConnectionPage"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "most connections of a page"),
                AFTER,
                parameter("user", TEXT, "of this user alone"),
            ],
        ),
    },
    "/connections/{id}": {
        "get": operation(
            "get_connection", "One connection and its subscriptions",
            {"200": json_reply("the connection", ref("ConnectionDetails"))}, 404,
            parameters=[_CONNECTION_ID],
        ),
        "delete": operation(
            "close_connection", "End a connection; its client is told why",
            {"204": empty_reply("told, and ended")}, 404, 408, 413, 415,
            parameters=[_CONNECTION_ID], body=json_body("CloseRequest", required=False),
        ),
    },
}  # fmt: skip
