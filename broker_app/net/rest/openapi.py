"""The OpenAPI 3.1 description of the data plane, written by hand and checked against it by a test.

The control plane has a document of its own; `document` joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_app.core.policy import PAUSES
from broker_app.jobs.plan import IMPORT, PLANNED, UNDO
from broker_app.net.destinations import SETTINGS, Setting
from broker_app.net.problems import MEDIA_TYPE, PROBLEMS
from broker_app.net.rest.destinations import MAX_SUBSCRIPTIONS
from broker_app.telemetry.rings import COLUMNS

_Json = dict[str, Any]

_VERSION = "1"
_TEXT: _Json = {"type": "string"}
_COUNT: _Json = {"type": "integer", "minimum": 0}
_TRUTH: _Json = {"type": "boolean"}
_OPTIONAL_TEXT: _Json = {"type": ["string", "null"]}
_TIME: _Json = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC, with milliseconds"}


def _object(members: _Json, *, required: tuple[str, ...] | None = None, free: bool = False) -> _Json:
    """An object; all members are required unless said otherwise, and no other ones exist unless `free`."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members if required is None else required),
        "additionalProperties": free,
    }


def _array(of: _Json, most: int | None = None) -> _Json:
    return {"type": "array", "items": of, **({"maxItems": most} if most else {})}


def _ref(name: str, kind: str = "schemas") -> _Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _number(least: float, most: float, default: float | None = None) -> _Json:
    return {
        "type": "number",
        "minimum": least,
        "maximum": most,
        **({"default": default} if default is not None else {}),
    }


def _whole(least: int, most: int, default: int | None = None) -> _Json:
    return {**_number(least, most, default), "type": "integer"}


def _setting(setting: Setting) -> _Json:
    """The values of one setting of a destination."""
    if setting.kind is bool:
        return _TRUTH
    if setting.choices:
        return {"enum": list(setting.choices)}
    if setting.kind is str:
        return {"type": "string", "maxLength": 255}
    return (
        _whole(int(setting.least), int(setting.most))
        if setting.kind is int
        else _number(setting.least, setting.most)
    )


def said_schema(*, change: bool = False) -> _Json:
    """What can be said about a destination; in a change, null takes back what was said."""
    members = {
        name: {**(_or_null(_setting(setting)) if change else _setting(setting)), "description": setting.about}
        for name, setting in SETTINGS.items()
    }
    return _object(members, required=())


def row_schema() -> _Json:
    """What was said about one address or pattern."""
    return _object(
        {
            "address": {"type": "string", "description": "an address such as /queue/orders, or a pattern"},
            "settings": said_schema(),
            "version": {"type": "integer", "minimum": 1, "description": "as in the ETag"},
            "changed": _TIME,
        }
    )


def _or_null(schema: _Json) -> _Json:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


# ---------------------------------------------------------------------- schemas

_NAME: _Json = {"type": "string", "minLength": 1, "maxLength": 255}
_REASON: _Json = {"type": "string", "maxLength": 1000}
_HEADERS: _Json = {"type": "object", "additionalProperties": _TEXT}
_MESSAGE_FIELDS: _Json = {
    "id": _TEXT,
    "time": _TIME,
    "attempt": {"type": "integer", "minimum": 1},
    "redelivered": _TRUTH,
    "priority": _whole(0, 9),
    "persistent": _TRUTH,
    "type": _OPTIONAL_TEXT,
    "content_type": _OPTIONAL_TEXT,
    "correlation_id": _OPTIONAL_TEXT,
    "reply_to": _OPTIONAL_TEXT,
    "headers": _HEADERS,
    "trace": _HEADERS,
    "body": {"description": "JSON for a JSON content type, text for a text one"},
    "body_base64": {"type": "string", "contentEncoding": "base64", "description": "any other body"},
}
_OPTIONAL = ("trace", "body", "body_base64")


def _message(more: _Json) -> _Json:
    members = {**_MESSAGE_FIELDS, **more}
    return _object(members, required=tuple(name for name in members if name not in _OPTIONAL))


_BROWSED = _message(
    {
        "position": _COUNT,
        "size": _COUNT,
        "state": {"enum": ["ready", "unsettled", "delayed"]},
        "due": {**_TIME, "description": "of a delayed message: when it is due"},
        "truncated": _TRUTH,
    }
)
_PAGING: _Json = {
    "next": {"type": ["string", "null"], "description": "`after` of the next page"},
    "approx_total": _COUNT,
}
_OPTIONAL_TIME: _Json = {**_TIME, "type": ["string", "null"]}
_COUNTS: _Json = {"type": "object", "additionalProperties": _COUNT}
_JOB = _object(
    {
        "id": _TEXT,
        "op": {"enum": [*PLANNED, IMPORT, UNDO]},
        "state": {"enum": ["waiting", "running", "done", "cancelled", "stopped", "failed"]},
        "source": _OPTIONAL_TEXT,
        "target": _OPTIONAL_TEXT,
        "filter": {},
        "user": _TEXT,
        "created": _TIME,
        "started": _OPTIONAL_TIME,
        "ended": _OPTIONAL_TIME,
        "total": _COUNT,
        "processed": _COUNT,
        "done": _COUNT,
        "gone": {**_COUNT, "description": "had left the queue before"},
        "unsettled": {**_COUNT, "description": "were handed out, and not touched"},
        "refused": _COUNT,
        "rate_per_s": {"type": ["number", "null"]},
        "reason": {**_OPTIONAL_TEXT, "description": "why it stopped or failed"},
        "can_undo": _TRUTH,
        "undo_of": _OPTIONAL_TEXT,
        "undone_by": _OPTIONAL_TEXT,
    }
)
_CONSUMER = _object(
    {
        "id": _TEXT,
        "destination": _TEXT,
        "connection": {**_OPTIONAL_TEXT, "description": "null for those of the REST interface"},
        "user": _TEXT,
        "ack": {"enum": ["auto", "client", "client-individual"]},
        "selector": {**_OPTIONAL_TEXT, "description": "null when it takes every message"},
        "exclusive": _TRUTH,
        "active": {**_TRUTH, "description": "false: stands by for an exclusive consumer"},
        "credit": _COUNT,
        "unsettled": _COUNT,
        "delivered": {**_COUNT, "description": "with repeats"},
        "acknowledged": _COUNT,
        "returned": _COUNT,
        "waiting": {**_COUNT, "description": "messages in its queue"},
        "since": _TIME,
        "slow_since": {
            **_TIME,
            "type": ["string", "null"],
            "description": "it takes nothing, though messages wait",
        },
    }
)
_CONNECTION: _Json = {
    "id": {**_TEXT, "description": "what CONNECTED told the client as session"},
    "user": _TEXT,
    "transport": {"enum": ["tcp", "websocket", "local"]},
    "address": _OPTIONAL_TEXT,
    "protocol": _TEXT,
    "since": _TIME,
    "bytes_in": _COUNT,
    "bytes_out": _COUNT,
    "frames_in": _COUNT,
    "frames_out": _COUNT,
    "subscriptions": _COUNT,
    "transactions": _COUNT,
    "unsettled": _COUNT,
    "heart_beat_in_s": {"type": "number", "minimum": 0, "description": "agreed with the client; 0 is none"},
    "heart_beat_out_s": {"type": "number", "minimum": 0},
    "silent_s": {"type": "number", "minimum": 0, "description": "since something came from the client"},
    "congested": {**_TRUTH, "description": "the client does not take what was sent"},
    "held_back": {**_TRUTH, "description": "the broker reads no more of it for the moment"},
    "slow": {**_TRUTH, "description": "one of its subscriptions is"},
}
_RATE: _Json = {"type": "number", "minimum": 0, "description": "a second"}
_SECONDS: _Json = {"type": "number", "minimum": 0}
_NODE_FIGURES = _object(
    {
        "name": _TEXT,
        "version": _TEXT,
        "connections": _COUNT,
        "in_rate": _RATE,
        "out_rate": _RATE,
        "published": _COUNT,
        "delivered": _COUNT,
        "memory_bytes": _COUNT,
        "memory_level": {
            "enum": ["green", "yellow", "orange", "red"],
            "description": "how full the room is for messages that live in memory only",
        },
        "refuses": {
            "type": ["string", "null"],
            "description": "with which problem the node refuses messages now: store-full, queue-full, busy",
        },
        "waiting_bytes": {**_COUNT, "description": "messages that wait for room in full queues"},
        "journal_bytes": _COUNT,
        "destinations": _COUNT,
    }
)
_BRIEF_FIGURES = _object(
    {
        "name": {**_TEXT, "description": "an address, such as /queue/orders"},
        "kind": {"enum": ["queue", "topic", "temp-queue"]},
        "depth": {**_COUNT, "description": "messages that wait"},
        "unsettled": {**_COUNT, "description": "messages handed out and not settled"},
        "delayed": {**_COUNT, "description": "messages that are not due yet"},
        "consumers": _COUNT,
        "in_rate": _RATE,
        "out_rate": _RATE,
        "oldest_s": {**_SECONDS, "description": "age of the message that waits longest"},
    }
)
_PERCENTILES = _object(
    {
        **{name: {"type": ["number", "null"], "minimum": 0} for name in ("p50", "p95", "p99")},
        "samples": _COUNT,
    }
)
_FULL_FIGURES: _Json = {
    **_BRIEF_FIGURES["properties"],
    **dict.fromkeys(("acked_rate", "dead_rate", "expired_rate"), _RATE),
    **dict.fromkeys(("published", "delivered", "acknowledged", "dead", "expired"), _COUNT),
    "wait_s": {**_PERCENTILES, "description": "from arrival to delivery, sampled, of the last minute"},
    "hold_s": {**_PERCENTILES, "description": "from delivery to acknowledgement, sampled"},
}
_PAUSED: _Json = {"enum": list(PAUSES), "description": "who is held back"}
_DECLARED: _Json = {**_TRUTH, "description": "whether it has settings of its own, and so is there for good"}
_QUEUE_FACTS: _Json = {
    "name": _NAME,
    "depth": {**_COUNT, "description": "messages that wait"},
    "delayed": {**_COUNT, "description": "messages that are not due yet"},
    "unsettled": {**_COUNT, "description": "messages handed out and not settled"},
    "consumers": _COUNT,
    "oldest_s": {"type": "number", "minimum": 0, "description": "age of the message that waits longest"},
    "published": {**_COUNT, "description": "total since the node started, as those below"},
    "delivered": _COUNT,
    "acknowledged": _COUNT,
    "expired": _COUNT,
    "dead": {**_COUNT, "description": "messages that went to the dead letters"},
    "removed": {**_COUNT, "description": "messages that an operator purged, moved or deleted"},
    "paused": _PAUSED,
    "declared": _DECLARED,
}
_TOPIC_FACTS: _Json = {
    "name": _NAME,
    "published": {**_COUNT, "description": "total since the node started"},
    "consumers": _COUNT,
    "named": {**_COUNT, "description": "durable and shared subscriptions, consumed or not"},
    "paused": _PAUSED,
    "declared": _DECLARED,
}
_OF_ONE: _Json = {
    "dedup": _object(
        {
            "ids": {**_COUNT, "description": "dedup-ids that are remembered"},
            "window_s": {
                **_SECONDS,
                "description": "for how long; too many ids make it shorter than its setting",
            },
        }
    ),
    "subscriptions": _array(_ref("Consumer"), MAX_SUBSCRIPTIONS),
    "settings": _object(
        {
            name: _object(
                {
                    "value": _setting(setting),
                    "source": {**_TEXT, "description": "own, a pattern, node (its settings) or default"},
                }
            )
            for name, setting in SETTINGS.items()
        }
    ),
}
_SETTLED = _object({"receipt": _TEXT, "error": _ref("Problem")}, required=("receipt",))

_SCHEMAS: _Json = {
    "Problem": _object(
        {
            "type": {"enum": [f"/docs/problems/{name}" for name in PROBLEMS]},
            "title": _TEXT,
            "status": _whole(400, 599),
            "detail": _TEXT,
            "errors": _array(_object({"pointer": _TEXT, "detail": _TEXT}, free=True)),
            "trace_id": _TEXT,
            "limit": _COUNT,
            "size": _COUNT,
            "right": _TEXT,
            "now_held_by": {"enum": ["other", "nobody", "gone"]},
        },
        required=("type", "title", "status", "detail"),
        free=True,
    ),
    "Published": _object(
        {
            "id": _TEXT,
            "seq": {**_COUNT, "description": "place in the broker's order"},
            "stored": {"enum": ["memory", "synced"], "description": "synced: it is on the disk"},
            "copies": {**_COUNT, "description": "subscriptions of a topic that get it; 1 for a queue"},
            "duplicate": {**_TRUTH, "description": "true: it repeats the message `id`, and was not stored"},
        },
        required=("id", "seq", "stored", "copies"),
    ),
    "Item": {
        **_object(
            {
                "body": {"description": "JSON, or a string that is a text when the content type is not JSON"},
                "body_base64": {"type": "string", "contentEncoding": "base64"},
                "content_type": _OPTIONAL_TEXT,
                "headers": {"type": ["object", "null"], "additionalProperties": _TEXT},
                "persistent": {"type": ["boolean", "null"]},
                "priority": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                "expires_s": {"type": ["number", "null"], "minimum": 0.001, "maximum": 315_360_000},
                "correlation_id": _OPTIONAL_TEXT,
                "reply_to": _OPTIONAL_TEXT,
                "type": _OPTIONAL_TEXT,
                "group": {**_OPTIONAL_TEXT, "maxLength": 255},
                "traceparent": _OPTIONAL_TEXT,
                "tracestate": _OPTIONAL_TEXT,
                "delay_s": {"type": ["number", "null"], "minimum": 0, "maximum": 315_360_000},
                "deliver_at": {**_TIME, "type": ["string", "null"]},
                "dedup_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024},
            },
            required=(),
        ),
        "oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}],
    },
    "BatchResult": _object(
        {"i": _COUNT, "id": _TEXT, "duplicate": _TRUTH, "error": _ref("Problem")}, required=("i",)
    ),
    "ReceiveRequest": _object(
        {
            "max": {**_whole(1, 1000, 1), "type": ["integer", "null"]},
            "wait_s": {**_number(0, 60, 0), "description": "how long to wait for a first message"},
            "lease_s": {"type": ["number", "null"], "minimum": 1, "maximum": 43_200},
            "ack": {"enum": ["lease", "auto"], "default": "lease", "description": "auto: at most once"},
            "selector": {**_OPTIONAL_TEXT, "description": "a condition on headers"},
        },
        required=(),
    ),
    "Received": _object(
        {
            "items": _array(
                _message({"receipt": _OPTIONAL_TEXT, "lease_until": {**_TIME, "type": ["string", "null"]}})
            ),
            "waited_s": _number(0, 1e6),
            "more": _TRUTH,
        }
    ),
    "ExtendRequest": _object({"extend_s": _number(1, 43_200)}),
    "NackRequest": _object(
        {
            "delay_s": {**_number(0, 315_360_000), "description": "wait so long before another attempt"},
            "reason": _REASON,
            "dead": {**_TRUTH, "default": False, "description": "to the dead letters instead of its place"},
        },
        required=(),
    ),
    "SettleRequest": _object(
        {
            "ack": _array(_TEXT, 1000),
            "nack": _array(
                _object(
                    {"receipt": _TEXT, "delay_s": _number(0, 315_360_000), "reason": _REASON, "dead": _TRUTH},
                    required=("receipt",),
                ),
                1000,
            ),
            "extend": _array(_object({"receipt": _TEXT, "extend_s": _number(1, 43_200)}), 1000),
        },
        required=(),
    ),
    "SettleResult": _object({"ack": _array(_SETTLED), "nack": _array(_SETTLED), "extend": _array(_SETTLED)}),
    "BrowsedMessage": _BROWSED,
    # With `fields`, any member may be missing.
    "MessagePage": _object(
        {
            "items": _array({**_BROWSED, "required": []}),
            **_PAGING,
            "scanned": {**_COUNT, "description": "messages that were looked at for this page"},
        }
    ),
    "Subscription": _object(
        {
            "name": _NAME,
            "topic": {"type": "string", "description": "the filter, without /topic/"},
            "durable": _TRUTH,
            "shared": _TRUTH,
            "selector": {"type": ["string", "null"]},
            "owner": _TEXT,
            "state": {"enum": ["offline", "active", "stalled"]},
            **dict.fromkeys(
                "consumers backlog unsettled lag published delivered acknowledged expired dead".split(),
                _COUNT,
            ),
            "lag_s": {"type": "number", "description": "age of the oldest message not acknowledged"},
        }
    ),
    "HistoryPage": _object({"items": _array({**_BROWSED, "required": []}), **_PAGING}),
    "SubscriptionPage": _object({"items": _array(_ref("Subscription")), **_PAGING}),
    "JobRequest": _object(
        {
            "plan": {**_TEXT, "description": "of a dry run; everything else is then left out"},
            "op": {"enum": list(PLANNED)},
            "source": {**_NAME, "description": "a queue"},
            "target": {"type": ["string", "null"], "description": "a queue, or origin"},
            "filter": {
                "anyOf": [{"type": "null"}, _TEXT, _ref("Filter")],
                "description": "members, or one line: `reason:REJECTED header.tenant:acme age_gt_s:60 text`",
            },
            "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000},
            "rate_per_s": {"type": ["number", "null"], "minimum": 0.01, "maximum": 1_000_000},
            "max_error_ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.2},
            "dry_run": {**_TRUTH, "default": False},
        },
        required=(),
    ),
    "Filter": _object(
        {
            "ids": _array(_TEXT, 10_000),
            "selector": {**_TEXT, "description": "a condition on headers"},
            "reason": {**_TEXT, "description": "a dead letter's reason, or a part of its detail"},
            "origin": {**_TEXT, "description": "the queue where it died"},
            "headers": _HEADERS,
            "age_gt_s": {"type": "number"},
            "age_lt_s": {"type": "number"},
            "q": {**_TEXT, "description": "text in body or headers, in any case of letters"},
            "state": {"enum": ["ready", "delayed"], "description": "delayed: those that are not due, alone"},
        },
        required=(),
    ),
    "Plan": _object(
        {
            "plan": _TEXT,
            "op": _TEXT,
            "source": _TEXT,
            "target": _OPTIONAL_TEXT,
            "matches": _COUNT,
            "count": {**_COUNT, "description": "messages that the job would take"},
            "scanned": _COUNT,
            "complete": {**_TRUTH, "description": "false: there was more than is looked at"},
            "by_origin": _COUNTS,
            "by_reason": _COUNTS,
            "oldest": _OPTIONAL_TIME,
            "newest": _OPTIONAL_TIME,
            "sample": _array(_ref("BrowsedMessage"), 5),
            "warnings": _array(_TEXT),
            "valid_until": _TIME,
        }
    ),
    "Job": _JOB,
    "Explanation": _object(
        {
            "id": _TEXT,
            "state": _BROWSED["properties"]["state"],
            "reasons": _array(_object({"code": _TEXT, "sentence": _TEXT, "facts": {"type": "object"}})),
        }
    ),
    "JobPage": _object({"items": _array(_ref("Job")), **_PAGING}),
    "Consumer": _CONSUMER,
    "ConsumerPage": _object({"items": _array(_ref("Consumer"), 1000), **_PAGING}),
    "Connection": _object(_CONNECTION),
    "ConnectionDetails": _object({**_CONNECTION, "consumers": _array(_ref("Consumer"), 1000)}),
    "ConnectionPage": _object({"items": _array(_ref("Connection")), **_PAGING}),
    "CloseRequest": _object({"reason": {"type": "string", "minLength": 1, "maxLength": 500}}, required=()),
    "Statistics": _object(
        {"time": _TIME, "node": _NODE_FIGURES, "destinations": _array(_BRIEF_FIGURES, 1000)}
    ),
    "DestinationStatistics": _object(
        {
            "name": _NAME,
            "now": {
                **_object(_FULL_FIGURES),
                "type": ["object", "null"],
                "description": "null when it is gone",
            },
            "t0": {"type": "integer", "description": "when the first step begins, seconds since 1970"},
            "step_s": {**_COUNT, "description": "length of a step"},
            "series": {
                "type": "object",
                "required": list(COLUMNS),
                "properties": {name: _array({"type": ["number", "null"]}, 1_441) for name in COLUMNS},
                "description": "a number for each step, null where nothing is known",
            },
        }
    ),
    # With `fields`, any member of a row may be missing.
    "QueuePage": _object({"items": _array(_object(_QUEUE_FACTS, required=())), **_PAGING}),
    "Queue": _object({**_QUEUE_FACTS, **_OF_ONE}),
    "TopicPage": _object({"items": _array(_object(_TOPIC_FACTS, required=())), **_PAGING}),
    "Topic": _object({**_TOPIC_FACTS, **_OF_ONE}),
    "Health": _object({"status": {"enum": ["live", "ready"]}}),
}

# ---------------------------------------------------------------------- pieces of operations


def _parameter(
    name: str, schema: _Json, about: str, *, where: str = "query", required: bool = False
) -> _Json:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": about}


def _header(name: str, schema: _Json, about: str) -> _Json:
    return _parameter(name, schema, about, where="header")


def _in_path(name: str, about: str, schema: _Json = _NAME) -> _Json:
    return _parameter(name, schema, about, where="path", required=True)


_QUEUE = _in_path("name", "name of the queue; `/queues/messages?queue=…` takes any name as well")
_TOPIC = _in_path("name", "name of the topic; levels are separated by dots")
_SUBSCRIPTION = _in_path("name", "name of the subscription", {"type": "string", "minLength": 1})
_RECEIPT = _in_path("receipt", "from a received message", {"type": "string", "minLength": 1})
_ID = _in_path("id", "of the message", {"type": "string", "minLength": 1})
_JOB_ID = _in_path("id", "of the job", {"type": "string", "minLength": 1})
_CONNECTION_ID = _in_path("id", "of the connection", {"type": "string", "minLength": 1})
_AFTER = _parameter("after", _TEXT, "`next` of the page before")
_LISTING = [
    _parameter("limit", _whole(1, 500, 100), "most rows of a page"),
    _AFTER,
    _parameter("sort", _TEXT, "members to sort by, separated by commas; `-` before one: descending"),
    _parameter("fields", _TEXT, "members of the rows, separated by commas"),
    _parameter("q", _TEXT, "a part of the name"),
    _parameter("consumed", _TRUTH, "whether it has consumers"),
    _parameter("declared", _TRUTH, "whether it has settings of its own"),
]
_VERSION_HEADER: _Json = {
    "ETag": {"schema": _TEXT, "required": True, "description": "version of its settings, for If-Match"}
}
_CONDITIONS = [
    _parameter("where", _TEXT, "all conditions in one line: `reason:REJECTED header.tenant:acme text`"),
    _parameter("q", _TEXT, "text in body or headers"),
    _parameter("selector", _TEXT, "a condition on headers"),
    _parameter("reason", _TEXT, "a dead letter's reason, or a part of its detail"),
    _parameter("origin", _TEXT, "the queue where it died"),
    _parameter("age_gt_s", {"type": "number"}, "longer here than that; a header is `header.<name>=<value>`"),
    _parameter("age_lt_s", {"type": "number"}, "not so long here"),
]
_SELECTOR = _parameter("selector", _TEXT, "a condition on headers, such as colour = 'red' AND size > 3")
_PUBLISH_HEADERS = [
    _header("Mom-Persistent", {"enum": ["true", "false"]}, "survives a crash; default true on queues"),
    _header("Mom-Priority", _whole(0, 9), "higher first; default 4"),
    _header("Mom-Expires-S", _number(0.001, 315_360_000), "seconds it may wait"),
    _header("Mom-Delay-S", _number(0, 315_360_000), "seconds before which it is not delivered"),
    _header("Mom-Deliver-At", _TIME, "time before which it is not delivered"),
    _header("Mom-Dedup-Id", {"type": "string", "minLength": 1, "maxLength": 1024}, "names repeats"),
    _header("Mom-Correlation-Id", _TEXT, "carried"),
    _header("Mom-Reply-To", _TEXT, "carried; a destination such as /queue/answers"),
    _header("Mom-Type", _TEXT, "carried"),
    _header("Mom-Group", {**_TEXT, "maxLength": 255}, "messages of a group go to one consumer at a time"),
    _header("traceparent", _TEXT, "carried, and returned"),
]
_MESSAGE_BODY: _Json = {
    "description": "The message itself, byte for byte. Its media type is kept. Headers `Mom-Header-<name>` "
    "and `ce-<name>` become headers of the message.",
    "required": False,
    "content": {"*/*": {}},
}


def _json_body(name: str, *, required: bool = True) -> _Json:
    return {"required": required, "content": {"application/json": {"schema": _ref(name)}}}


def _json(about: str, schema: _Json, headers: _Json | None = None) -> _Json:
    return {
        "description": about,
        "content": {"application/json": {"schema": schema}},
        "headers": {"Request-Id": _ref("RequestId", "headers"), **(headers or {})},
    }


def _empty(about: str) -> _Json:
    return {"description": about, "headers": {"Request-Id": _ref("RequestId", "headers")}}


def _operation(
    operation: str,
    about: str,
    replies: _Json,
    *problems: int,
    parameters: list[_Json] | None = None,
    body: _Json | None = None,
    login: bool = True,
) -> _Json:
    statuses = (400, *((401, 403) if login else ()), *problems)
    return {
        "operationId": operation,
        "summary": about,
        "tags": ["messages"],
        "parameters": parameters or [],
        **({"requestBody": body} if body else {}),
        "responses": {
            **replies,
            **{str(status): _ref(f"Problem{status}", "responses") for status in sorted({*statuses, 405})},
        },
        **({} if login else {"security": []}),
    }


_BATCH_BODY: _Json = {
    "required": True,
    "content": {
        "application/json": {"schema": _array(_ref("Item"), 1000)},
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "one item a line, as many as 100,000"}
        },
    },
}
_BATCH_REPLY: _Json = {
    "description": "one result for each item, in order",
    "headers": {"Request-Id": _ref("RequestId", "headers")},
    "content": {
        "application/json": {"schema": _object({"results": _array(_ref("BatchResult"))})},
        "application/x-ndjson": {"schema": {"description": "a BatchResult a line"}},
    },
}
_BYTES: _Json = {"description": "the bytes of a message in its media type", "content": {"*/*": {}}}
_PUBLISHED_REPLY = _json("stored", _ref("Published"), {"Location": {"schema": _TEXT}})
_JOB_LOCATION: _Json = {"Location": {"schema": _TEXT}}
_LINES: _Json = {
    "description": "lines of JSON",
    "content": {"application/x-ndjson": {}},
}
_PAST_REPLY = _json("the past, up to the last second", _ref("DestinationStatistics"))
_WINDOW = [
    _parameter("window_s", _whole(1, 86_400, 600), "how far back"),
    _parameter("step_s", _whole(1, 3_600), "length of a step; made longer where the past is coarser"),
]
_ATOMIC = _parameter("atomic", _TRUTH, "one transaction: all or nothing; for application/json")

_PATHS: _Json = {
    "/queues/{name}/messages": {
        "post": _operation(
            "publish_to_queue", "Publish one message", {"201": _PUBLISHED_REPLY}, 408, 413, 415, 422, 503,
            parameters=[_QUEUE, *_PUBLISH_HEADERS], body=_MESSAGE_BODY,
        ),
        "get": _operation(
            "browse_queue", "Look at the messages of a queue; nothing changes",
            {"200": _json("messages in the order of delivery", _ref("MessagePage"))}, 404, 503,
            parameters=[
                _QUEUE,
                _parameter("limit", _whole(1, 500, 50), "most messages of a page"),
                _AFTER,
                _parameter(
                    "state", {"enum": ["ready", "unsettled", "leased", "delayed"]}, "leased is unsettled"
                ),
                _parameter("fields", _TEXT, "members of the items, separated by commas"),
                *_CONDITIONS,
            ],
        ),
        "delete": _operation(
            "purge_queue", "Remove everything that waits in a queue", {"204": _empty("removed")}, 404, 503,
            parameters=[_QUEUE, _parameter("all", {"const": True}, "must be true", required=True)],
        ),
    },
    "/queues/{name}/messages/batch": {
        "post": _operation(
            "publish_batch_to_queue", "Publish many messages", {"200": _BATCH_REPLY}, 408, 413, 415, 422, 503,
            parameters=[_QUEUE, _ATOMIC], body=_BATCH_BODY,
        ),
    },
    "/topics/{name}/messages": {
        "post": _operation(
            "publish_to_topic", "Publish one message", {"201": _PUBLISHED_REPLY},
            408, 409, 413, 415, 422, 503,
            parameters=[
                _TOPIC,
                _parameter("mandatory", _TRUTH, "refuse it (409) when nobody is subscribed"),
                *_PUBLISH_HEADERS,
            ],
            body=_MESSAGE_BODY,
        ),
        "get": _operation(
            "browse_history", "Look at what a topic retains; nothing changes",
            {"200": _json("messages in the order of the journal", _ref("HistoryPage"))}, 410, 503,
            parameters=[
                _TOPIC,
                _parameter("from", _TEXT, "first, last, seq:<number>, time:<ms or RFC 3339>; next is one"),
                _parameter("limit", _whole(1, 500, 50), "most messages of a page"),
            ],
        ),
    },
    "/topics/{name}/messages/batch": {
        "post": _operation(
            "publish_batch_to_topic", "Publish many messages", {"200": _BATCH_REPLY}, 408, 413, 415, 422, 503,
            parameters=[_TOPIC, _ATOMIC], body=_BATCH_BODY,
        ),
    },
    "/queues/{name}/receive": {
        "post": _operation(
            "receive", "Take messages, waiting for the first",
            {
                "200": {
                    **_json("what there is; possibly nothing", _ref("Received")),
                    # With raw=true a message may itself be JSON.
                    "content": {"application/json": {"schema": {"anyOf": [_ref("Received"), {}]}}, "*/*": {}},
                },
                "204": _empty("no message, for raw=true"),
            },
            408, 413, 415, 422, 503,
            parameters=[
                _QUEUE,
                _parameter("raw", _TRUTH, "the bytes of one message, its facts as Mom- headers"),
                _parameter("max", _whole(1, 1000, 1), "as in the body"),
            ],
            body=_json_body("ReceiveRequest", required=False),
        ),
    },
    "/queues/{name}/events": {
        "get": _operation(
            "stream_events", "Messages as server-sent events; settle each by its receipt",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": _TEXT}}}}, 503,
            parameters=[
                _QUEUE,
                _parameter("credit", _whole(1, 100, 1), "most unsettled messages of the stream"),
                _SELECTOR,
            ],
        ),
    },
    "/topics/{name}/subscriptions": {
        "get": _operation(
            "list_subscriptions_of_topic", "The durable and shared subscriptions of a topic",
            {"200": _json("subscriptions", _ref("SubscriptionPage"))}, 503,
            parameters=[_TOPIC, _parameter("limit", _whole(1, 500, 100), "most of a page"), _AFTER],
        ),
    },
    "/subscriptions": {
        "get": _operation(
            "list_subscriptions", "All durable and shared subscriptions",
            {"200": _json("subscriptions", _ref("SubscriptionPage"))}, 503,
            parameters=[
                _parameter("topic", _TEXT, "those of this topic filter alone"),
                _parameter("limit", _whole(1, 500, 100), "most of a page"),
                _AFTER,
            ],
        ),
    },
    "/subscriptions/{name}": {
        "get": _operation(
            "get_subscription", "One durable subscription",
            {"200": _json("the subscription", _ref("Subscription"))}, 404, 503,
            parameters=[_SUBSCRIPTION],
        ),
        "delete": _operation(
            "delete_subscription", "Delete a durable subscription and all that it keeps",
            {"204": _empty("deleted")}, 404, 409, 503,
            parameters=[_SUBSCRIPTION],
        ),
    },
    "/queues": {
        "get": _operation(
            "list_queues", "All queues", {"200": _json("queues", _ref("QueuePage"))},
            parameters=[*_LISTING, _parameter("empty", _TRUTH, "whether nothing waits or is unsettled")],
        ),
    },
    "/queues/{name}": {
        "get": _operation(
            "get_queue", "What is known of a queue, and what holds for it",
            {"200": _json("the queue", _ref("Queue"), _VERSION_HEADER)}, 404, 503, parameters=[_QUEUE],
        ),
    },
    "/topics": {
        "get": _operation(
            "list_topics", "All topics that were published to since the node started, or declared",
            {"200": _json("topics", _ref("TopicPage"))}, parameters=_LISTING,
        ),
    },
    "/topics/{name}": {
        "get": _operation(
            "get_topic", "What is known of a topic, and what holds for it",
            {"200": _json("the topic", _ref("Topic"), _VERSION_HEADER)}, 404, 503, parameters=[_TOPIC],
        ),
    },
    "/messages/{id}": {
        "get": _operation(
            "get_message", "One message", {"200": _json("the message", _ref("BrowsedMessage"))}, 404, 503,
            parameters=[_ID, _parameter("queue", _NAME, "where it is", required=True)],
        ),
        "delete": _operation(
            "delete_message", "Remove one message that waits", {"204": _empty("removed")}, 404, 409, 503,
            parameters=[_ID, _parameter("queue", _NAME, "where it is", required=True)],
        ),
    },
    "/jobs": {
        "get": _operation(
            "list_jobs", "All jobs, the newest first", {"200": _json("jobs", _ref("JobPage"))},
            parameters=[_parameter("limit", _whole(1, 500, 50), "most jobs of a page"), _AFTER],
        ),
        "post": _operation(
            "begin_job", "Do something to many messages, or plan it",
            {
                "200": _json("what would be done; nothing was changed", _ref("Plan")),
                "202": _json("it has begun", _ref("Job"), _JOB_LOCATION),
            },
            404, 408, 409, 413, 415, 422, 503,
            body=_json_body("JobRequest"),
        ),
    },
    "/jobs/{id}": {
        "get": _operation(
            "get_job", "How far a job is", {"200": _json("the job", _ref("Job"))}, 404, parameters=[_JOB_ID]
        ),
    },
    "/jobs/{id}/cancel": {
        "post": _operation(
            "cancel_job", "End a job; what it has done stays", {"200": _json("the job", _ref("Job"))},
            404, 409, parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/undo": {
        "post": _operation(
            "undo_job", "Move back what a move or retry has moved and nobody has taken since",
            {"202": _json("the job that does it", _ref("Job"), _JOB_LOCATION)},
            404, 409, 503, parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/results": {
        "get": _operation(
            "get_job_results", "What became of each message, so far", {"200": _LINES}, 404,
            parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/export": {
        "get": _operation(
            "get_export", "The messages of an export", {"200": _LINES}, 404, 409, parameters=[_JOB_ID]
        ),
    },
    "/queues/{name}/import": {
        "post": _operation(
            "import_messages", "Upload messages; a job publishes them",
            {"202": _json("all lines have arrived", _ref("Job"), _JOB_LOCATION)},
            404, 408, 409, 413, 415, 503,
            parameters=[_QUEUE],
            body={
                "required": True,
                "content": {
                    "application/x-ndjson": {"schema": {"type": "string", "description": "an Item a line"}}
                },
            },
        ),
    },
    "/messages/{id}/why": {
        "get": _operation(
            "explain_message", "Why a message is where it is",
            {"200": _json("reasons, the weightiest first", _ref("Explanation"))}, 404, 503,
            parameters=[_ID, _parameter("queue", _NAME, "where it is", required=True)],
        ),
    },
    "/messages/{id}/body": {
        "get": _operation(
            "get_message_body", "The bytes of one message", {"200": _BYTES}, 404, 503,
            parameters=[_ID, _parameter("queue", _NAME, "where it is", required=True)],
        ),
    },
    "/leases/{receipt}": {
        "delete": _operation(
            "acknowledge", "Acknowledge a message", {"204": _empty("it will not come again")}, 404, 409, 503,
            parameters=[_RECEIPT],
        ),
        "patch": _operation(
            "extend_lease", "Keep a message longer", {"204": _empty("extended, from now")},
            404, 408, 409, 413, 415, 503,
            parameters=[_RECEIPT], body=_json_body("ExtendRequest"),
        ),
    },
    "/leases/{receipt}/nack": {
        "post": _operation(
            "nack", "Give a message back", {"204": _empty("given back")}, 404, 408, 409, 413, 415, 422, 503,
            parameters=[_RECEIPT], body=_json_body("NackRequest", required=False),
        ),
    },
    "/leases/settle": {
        "post": _operation(
            "settle", "Settle many messages, each with its own result",
            {"200": _json("results in the order of the request", _ref("SettleResult"))},
            408, 413, 415, 422, 503,
            body=_json_body("SettleRequest"),
        ),
    },
    "/queues/{name}/consumers": {
        "get": _operation(
            "list_consumers", "Who consumes a queue; the first 1,000",
            {"200": _json("consumers", _ref("ConsumerPage"))}, 404,
            parameters=[_QUEUE],
        ),
    },
    "/connections": {
        "get": _operation(
            "list_connections", "STOMP connections, oldest first",
            {"200": _json("connections", _ref("ConnectionPage"))},
            parameters=[
                _parameter("limit", _whole(1, 500, 100), "most connections of a page"),
                _AFTER,
                _parameter("user", _TEXT, "of this user alone"),
            ],
        ),
    },
    "/connections/{id}": {
        "get": _operation(
            "get_connection", "One connection and its subscriptions",
            {"200": _json("the connection", _ref("ConnectionDetails"))}, 404,
            parameters=[_CONNECTION_ID],
        ),
        "delete": _operation(
            "close_connection", "End a connection; its client is told why",
            {"204": _empty("told, and ended")}, 404, 408, 413, 415,
            parameters=[_CONNECTION_ID], body=_json_body("CloseRequest", required=False),
        ),
    },
    "/queues/{name}/stats": {
        "get": _operation(
            "get_queue_statistics", "The past of a queue, as columns", {"200": _PAST_REPLY}, 404,
            parameters=[_QUEUE, *_WINDOW],
        ),
    },
    "/topics/{name}/stats": {
        "get": _operation(
            "get_topic_statistics", "The past of a topic, as columns", {"200": _PAST_REPLY}, 404,
            parameters=[_TOPIC, *_WINDOW],
        ),
    },
    "/stats": {
        "get": _operation(
            "get_statistics", "What the node does now",
            {"200": _json("what /topic/$mom.stats tells as well", _ref("Statistics"))},
        ),
    },
    "/stats/stream": {
        "get": _operation(
            "stream_statistics", "What the node does, as a server-sent event a second",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": _TEXT}}}}, 503,
            parameters=[
                _parameter("destinations", _TEXT, "of these alone: up to 50 names, with commas between them")
            ],
        ),
    },
    "/limits": {
        "get": _operation(
            "get_limits", "What one request may ask for; sizes in bytes, times in seconds",
            {"200": _json("limits", {"type": "object", "additionalProperties": {"type": "number"}})},
        ),
    },
    "/health/live": {
        "get": _operation(
            "health_live", "Whether the process answers", {"200": _json("it does", _ref("Health"))},
            login=False,
        ),
    },
    "/health/ready": {
        "get": _operation(
            "health_ready", "Whether the node serves", {"200": _json("it does", _ref("Health"))},
            503, login=False,
        ),
    },
    "/openapi.json": {
        "get": _operation(
            "get_openapi", "This document", {"200": _json("OpenAPI 3.1", {"type": "object"})}, login=False
        ),
    },
}  # fmt: skip


def _problem_replies() -> _Json:
    """One reply for each status that a problem has."""
    titles: dict[int, list[str]] = {}
    for problem in PROBLEMS.values():
        titles.setdefault(problem.status, []).append(problem.name)
    more: dict[int, _Json] = {
        401: {"WWW-Authenticate": {"schema": _TEXT, "required": True}},
        405: {"Allow": {"schema": _TEXT, "required": True}},
        503: {"Retry-After": {"schema": _TEXT}},
    }
    return {
        f"Problem{status}": {
            "description": ", ".join(names),
            "headers": {"Request-Id": _ref("RequestId", "headers"), **more.get(status, {})},
            "content": {MEDIA_TYPE: {"schema": _ref("Problem")}},
        }
        for status, names in titles.items()
    }


def document(control: Mapping[str, Any] | None = None) -> _Json:
    """The whole description; with that of the control plane (whose paths begin with /api/v1) joined in."""
    paths = {f"/api/v1{path}": operations for path, operations in _PATHS.items()}
    components: _Json = {
        "schemas": dict(_SCHEMAS),
        "responses": _problem_replies(),
        "headers": {"RequestId": {"schema": _TEXT, "required": True}},
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "mom_…"},
            "password": {"type": "http", "scheme": "basic"},
        },
    }
    if control is not None:
        for path, operations in control.get("paths", {}).items():
            paths[path] = {**operations, **paths.get(path, {})}
        for kind, entries in control.get("components", {}).items():
            components[kind] = {**entries, **components.get(kind, {})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MOM",
            "version": _VERSION,
            "description": "Messages over HTTP. A cookie of the console is taken from its own pages alone; "
            "other requests without credentials need the header X-Requested-With. Errors are problems "
            "(RFC 9457).",
        },
        "paths": paths,
        "components": components,
        "security": [{"token": []}, {"password": []}],
    }
