"""Connections and their consumers."""

from __future__ import annotations

from broker_app.base.states import CLIENT_EVENT
from broker_app.net.rest.openapi.operations import (
    AFTER,
    QUEUE,
    TOPIC,
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
    OPTIONAL_TEXT,
    OPTIONAL_TIME,
    PAGING,
    TEXT,
    TIME,
    Json,
    array_of,
    number,
    object_of,
    of_types,
    ref,
    request_of,
    state_of,
    whole,
)
from broker_app.net.stomp.connections import MAX_DRAIN_S
from broker_app.telemetry.client_events import FLAP_S
from broker_app.telemetry.figures import ConsumerFigures

_CONSUMER_FACTS: Json = of_types(ConsumerFigures)["ConsumerFigures"]["properties"]
_CAME_BY: Json = {
    "client": {**OPTIONAL_TEXT, "description": "its client-id; as what follows, null where it is hidden"},
    "address": OPTIONAL_TEXT,
    "protocol": OPTIONAL_TEXT,
    "transport": OPTIONAL_TEXT,
    "hold_s": {
        **object_of(
            {
                "p50": {"type": ["number", "null"], "minimum": 0},
                "p95": {"type": ["number", "null"], "minimum": 0},
                "samples": COUNT,
            }
        ),
        "description": "time from delivery to acknowledgement, of the newest samples; taken from the first "
        "time of a request",
    },
}
_RATE: Json = {"type": "number", "minimum": 0}
_CONNECTION: Json = {
    "id": {**TEXT, "description": "the header `session` of CONNECTED"},
    "number": {**COUNT, "description": "its number on this node, starting at 1"},
    "user": TEXT,
    "client": {**TEXT, "description": "client-id of CONNECT; empty where it has none"},
    "service": {**OPTIONAL_TEXT, "description": "the service that it is registered as"},
    "transport": {"enum": ["tcp", "websocket", "local"]},
    "address": OPTIONAL_TEXT,
    "protocol": TEXT,
    "tls": {**BOOLEAN, "description": "whether TLS protects it"},
    "since": TIME,
    "closed_at": {**TIME, "type": ["string", "null"], "description": "null while it is open"},
    "reason": {**OPTIONAL_TEXT, "description": "why it ended"},
    "bytes_in": COUNT,
    "bytes_out": COUNT,
    "frames_in": COUNT,
    "frames_out": COUNT,
    "in_rate": {**_RATE, "description": "frames a second from it, since it was last read"},
    "out_rate": {**_RATE, "description": "frames a second to it"},
    "subscriptions": COUNT,
    "transactions": COUNT,
    "unsettled": COUNT,
    "heart_beat_in_s": {"type": "number", "minimum": 0, "description": "agreed with the client; 0 is none"},
    "heart_beat_out_s": {"type": "number", "minimum": 0},
    "idle_s": {"type": "number", "minimum": 0, "description": "since something came from the client"},
    "congested": {**BOOLEAN, "description": "the client does not take what was sent"},
    "throttled": {**BOOLEAN, "description": "the broker reads no more of it for the moment"},
    "draining": {**BOOLEAN, "description": "it gets nothing new, and ends when it holds nothing any more"},
    "slow": {**BOOLEAN, "description": "one of its subscriptions is"},
}
#: the list of brokers that a client of a cluster has
LIST_OF_CLIENT: Json = {
    "list_version": {**COUNT, "description": "the list of brokers that it was sent last, 0 for none"},
    "list_since": {**OPTIONAL_TIME, "description": "when that became the one of clients"},
    "behind": {**BOOLEAN, "description": "it has not got the present list"},
}
#: members of a page of connections in addition to its items
_BESIDE: Json = {
    "all": {**COUNT, "description": "connections without the filters"},
    "complete": {**BOOLEAN, "description": "false: the client sees only its own connections"},
    "flapping": array_of(
        object_of(
            {
                "user": TEXT,
                "client": TEXT,
                "machine": TEXT,
                "connects": {**COUNT, "description": f"within {FLAP_S:g} s"},
                "last_at": TIME,
                "last_reason": {**TEXT, "description": "why it ended before"},
            }
        ),
        100,
    ),
}
_EVENT = object_of(
    {
        "at": TIME,
        "first_at": {**TIME, "description": "of the first one, where it happened several times in a row"},
        "event": state_of(CLIENT_EVENT),
        "code": {**TEXT, "description": "the problem of a refusal"},
        "detail": TEXT,
        "by": {**TEXT, "description": "the rule that refused it, or the operator"},
        "times": whole(1, 2**53),
    }
)
_REASON: Json = {"reason": {"type": "string", "minLength": 1, "maxLength": 500}}
_OF_WHAT: Json = {"type": "string", "maxLength": 255}
_CONNECTION_ID = in_path("id", "of the connection", {"type": "string", "minLength": 1})

SCHEMAS: Json = {
    "Consumer": object_of(_CONSUMER_FACTS),
    "ConsumerPage": object_of(
        {"items": array_of(object_of({**_CONSUMER_FACTS, **_CAME_BY}), 1000), **PAGING}
    ),
    "Connection": object_of(_CONNECTION),
    "ConnectionDetails": object_of(
        {**_CONNECTION, **LIST_OF_CLIENT, "consumers": array_of(ref("Consumer"), 1000)}
    ),
    "ConnectionPage": object_of(
        {"items": array_of(object_of(_CONNECTION, required=())), **PAGING, **_BESIDE}
    ),
    "ConnectionEvent": _EVENT,
    "ConnectionEventPage": object_of({"items": array_of(ref("ConnectionEvent"), 50), **PAGING}),
    "CloseRequest": object_of(_REASON, required=()),
    "DrainRequest": request_of({**_REASON, "within_s": number(0, MAX_DRAIN_S, 30)}, required=()),
}

PATHS: Json = {
    "/queues/{name}/consumers": {
        "get": operation(
            "list_consumers", "Who consumes a queue; the first 1,000",
            {"200": json_reply("consumers", ref("ConsumerPage"))}, 404,
            parameters=[QUEUE],
        ),
    },
    "/topics/{name}/consumers": {
        "get": operation(
            "list_topic_consumers", "Who gets what is published to a topic; the first 1,000",
            {"200": json_reply("consumers", ref("ConsumerPage"))},
            parameters=[TOPIC],
        ),
    },
    "/connections": {
        "get": operation(
            "list_connections", "STOMP connections, oldest first, or those that ended within the day",
            {"200": json_reply("connections", ref("ConnectionPage"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "most connections of a page"),
                AFTER,
                parameter("sort", TEXT, "members, `-` before those that descend: `-out_rate,user`"),
                parameter("fields", TEXT, "members of the items, `id,user,unsettled`"),
                parameter("state", {"enum": ["open", "closed"], "default": "open"}, "closed: within the day"),
                parameter("filter", _OF_WHAT, "words in a user, client, service, address, id or protocol"),
                parameter("user", _OF_WHAT, "only of this user"),
                parameter("client", _OF_WHAT, "only of this client-id"),
                parameter("address", _OF_WHAT, "whose address begins so"),
            ],
        ),
    },
    "/connections/{id}": {
        "get": operation(
            "get_connection", "One connection and its subscriptions; also for a day after it has ended",
            {"200": json_reply("the connection", ref("ConnectionDetails"))}, 404,
            parameters=[_CONNECTION_ID],
        ),
        "delete": operation(
            "close_connection", "Close a connection; its client gets the reason",
            {"204": empty_reply("closed")}, 404, 408, 413, 415,
            parameters=[_CONNECTION_ID], body=json_body("CloseRequest", required=False),
        ),
    },
    "/connections/{id}/events": {
        "get": operation(
            "list_connection_events", "What happened to a client, the newest first",
            {"200": json_reply("events", ref("ConnectionEventPage"))}, 404,
            parameters=[_CONNECTION_ID, parameter("limit", whole(1, 500, 50), "most events")],
        ),
    },
    "/connections/{id}/drain": {
        "post": operation(
            "drain_connection", "Give a client nothing new, and end it when it has settled what it holds",
            {"202": json_reply("it is being drained", ref("Connection"))}, 404, 408, 413, 415,
            parameters=[_CONNECTION_ID], body=json_body("DrainRequest", required=False),
        ),
    },
}  # fmt: skip
