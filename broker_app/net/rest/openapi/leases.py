"""Messages taken and settled."""

from __future__ import annotations

from broker_app.net.rest.openapi.messages import message
from broker_app.net.rest.openapi.operations import (
    BEGINS,
    ENDS,
    QUEUE,
    SELECTOR,
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
    POSITION,
    REASON,
    SELECTOR_TEXT,
    TEXT,
    TIME,
    Json,
    array_of,
    number,
    object_of,
    or_null,
    ref,
    request_of,
    whole,
)

_SETTLED = object_of({"receipt": TEXT, "error": ref("Problem")}, required=("receipt",))
_MISSING = object_of(
    {
        "seq": {"type": ["integer", "string"], "description": "as it was asked for"},
        "status": {
            "enum": ["gone", "unsettled", "refused", "left"],
            "description": "gone: settled, expired or removed; unsettled: another consumer has it; "
            "left: the answer has 8 MiB already, ask again",
        },
        "detail": TEXT,
    },
    required=("seq", "status"),
)
_RECEIPT = in_path("receipt", "from a received message", {"type": "string", "minLength": 1})

SCHEMAS: Json = {
    "ReceiveRequest": request_of(
        {
            "max": {**whole(1, 1000, 1), "type": ["integer", "null"]},
            "wait_s": {**number(0, 60, 0), "description": "how long to wait for a first message"},
            "lease_s": {"type": ["number", "null"], "minimum": 1, "maximum": 43_200},
            "ack": {"enum": ["lease", "auto"], "default": "lease", "description": "auto: at most once"},
            "selector": {**or_null(SELECTOR_TEXT), "description": "a condition on headers"},
            "seqs": {
                "type": ["array", "null"],
                "items": {"anyOf": [whole(0, (1 << 53) - 1), POSITION]},
                "minItems": 1,
                "maxItems": 1000,
                "description": "these messages, as notifications name them: numbers, or `<tag>-<seq>`; "
                "without max, wait_s, selector",
            },
        },
        required=(),
    ),
    "Received": object_of(
        {
            "items": array_of(
                message(
                    {
                        "seq": COUNT,
                        "receipt": OPTIONAL_TEXT,
                        "lease_until": {**TIME, "type": ["string", "null"]},
                    }
                )
            ),
            "waited_s": number(0, 1e6),
            "more": BOOLEAN,
            "missing": {**array_of(_MISSING), "description": "of seqs: those that were not delivered"},
        },
        required=("items", "waited_s", "more"),
    ),
    "ExtendRequest": request_of({"extend_s": number(1, 43_200)}),
    "NackRequest": request_of(
        {
            "delay_s": {**number(0, 315_360_000), "description": "seconds to wait before another attempt"},
            "reason": REASON,
            "dead": {**BOOLEAN, "default": False, "description": "to the dead letters instead of its place"},
        },
        required=(),
    ),
    "SettleRequest": object_of(
        {
            "ack": array_of(TEXT, 1000),
            "nack": array_of(
                request_of(
                    {"receipt": TEXT, "delay_s": number(0, 315_360_000), "reason": REASON, "dead": BOOLEAN},
                    required=("receipt",),
                ),
                1000,
            ),
            "extend": array_of(request_of({"receipt": TEXT, "extend_s": number(1, 43_200)}), 1000),
        },
        required=(),
    ),
    "SettleResult": object_of(
        {"ack": array_of(_SETTLED), "nack": array_of(_SETTLED), "extend": array_of(_SETTLED)}
    ),
}

_CREDIT = parameter("credit", whole(1, 500, 100), "messages a second; of others only the number is sent")

PATHS: Json = {
    "/queues/{name}/receive": {
        "post": operation(
            "receive", "Take messages, waiting for the first",
            {
                "200": {
                    **json_reply("the received messages; possibly none", ref("Received")),
                    # With raw=true a message may itself be JSON.
                    "content": {"application/json": {"schema": {"anyOf": [ref("Received"), {}]}}, "*/*": {}},
                },
                "204": empty_reply("no message, for raw=true"),
            },
            408, 413, 415, 422, 503,
            parameters=[
                QUEUE,
                parameter("raw", BOOLEAN, "the bytes of one message, its facts as Mom- headers"),
                parameter("max", whole(1, 1000, 1), "as in the body"),
            ],
            body=json_body("ReceiveRequest", required=False),
            refused_while=BEGINS,
        ),
    },
    "/queues/{name}/events": {
        "get": operation(
            "stream_events", "Messages as server-sent events, settled by receipt; or what arrived",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": TEXT}}}}, 503,
            parameters=[
                QUEUE,
                parameter(
                    "mode", {"enum": ["deliver", "notify"], "default": "deliver"}, "notify takes nothing"
                ),
                parameter("after", TEXT, "of mode=notify: the id or seq of the last event; or Last-Event-ID"),
                parameter("credit", whole(1, 100, 1), "most unsettled messages of the stream"),
                SELECTOR,
            ],
            refused_while=BEGINS,
        ),
    },
    "/queues/{name}/tail": {
        "get": operation(
            "tail_queue", "Follow the messages of a queue as server-sent events; they stay in the queue",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": TEXT}}}}, 503,
            parameters=[QUEUE, _CREDIT],
        ),
    },
    "/topics/{name}/tail": {
        "get": operation(
            "tail_topic", "New messages of a topic, as server-sent events",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": TEXT}}}}, 503,
            parameters=[TOPIC, _CREDIT],
        ),
    },
    "/leases/{receipt}": {
        "delete": operation(
            "acknowledge", "Acknowledge a message", {"204": empty_reply("it is not delivered again")},
            404, 409, 503,
            parameters=[_RECEIPT],
            refused_while=ENDS,
        ),
        "patch": operation(
            "extend_lease", "Keep a message longer", {"204": empty_reply("extended, from now")},
            404, 408, 409, 413, 415, 503,
            parameters=[_RECEIPT], body=json_body("ExtendRequest"),
            refused_while=ENDS,
        ),
    },
    "/leases/{receipt}/nack": {
        "post": operation(
            "nack", "Give a message back", {"204": empty_reply("given back")},
            404, 408, 409, 413, 415, 422, 503,
            parameters=[_RECEIPT], body=json_body("NackRequest", required=False),
            refused_while=ENDS,
        ),
    },
    "/leases/settle": {
        "post": operation(
            "settle", "Settle many messages, each with its own result",
            {"200": json_reply("results in the order of the request", ref("SettleResult"))},
            408, 413, 415, 422, 503,
            body=json_body("SettleRequest"),
            refused_while=ENDS,
        ),
    },
}  # fmt: skip
