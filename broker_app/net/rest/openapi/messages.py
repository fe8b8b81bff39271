"""Messages: publishing, browsing, and single messages."""

from __future__ import annotations

from broker_app.net.rest.openapi.operations import (
    AFTER,
    BEGINS,
    BYTES,
    CONDITIONS,
    IDEMPOTENCY_KEY,
    QUEUE,
    REPLAYED,
    TOPIC,
    empty_reply,
    header,
    in_path,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    COUNTS,
    HEADERS,
    NAME,
    OPTIONAL_TEXT,
    OPTIONAL_TIME,
    PAGING,
    TEXT,
    TIME,
    Json,
    array_of,
    number,
    object_of,
    ref,
    request_of,
    whole,
)

_MESSAGE_FIELDS: Json = {
    "id": TEXT,
    "time": TIME,
    "attempt": {"type": "integer", "minimum": 1},
    "redelivered": BOOLEAN,
    "priority": whole(0, 9),
    "persistent": BOOLEAN,
    "type": OPTIONAL_TEXT,
    "content_type": OPTIONAL_TEXT,
    "correlation_id": OPTIONAL_TEXT,
    "reply_to": OPTIONAL_TEXT,
    "headers": HEADERS,
    "trace": HEADERS,
    "body": {"description": "JSON for a JSON content type, text for a text one"},
    "body_base64": {"type": "string", "contentEncoding": "base64", "description": "any other body"},
}
_NOT_SHOWN: Json = {
    **array_of(TEXT),
    "description": "the other brokers of the cluster whose messages are missing: they could not be asked, or "
    "did not answer in time",
}
_HISTORY_NOT_SHOWN: Json = {
    **array_of(TEXT),
    "description": "the other brokers of the cluster: what was published at them is shown by them alone",
}
_OWNER: Json = {**TEXT, "description": "of a queue in a cluster: the broker that owns the message"}
#: members that not every message has: those of the body need the right to read it
_OPTIONAL = ("trace", "body", "body_base64", "truncated", "due", "broker")


def message(more: Json) -> Json:
    """A message as it is shown, with `more` members."""
    members = {**_MESSAGE_FIELDS, **more}
    return object_of(members, required=tuple(name for name in members if name not in _OPTIONAL))


BROWSED = message(
    {
        "position": COUNT,
        "size": COUNT,
        "state": {"enum": ["ready", "unsettled", "delayed"]},
        "due": {**TIME, "description": "of a delayed message: when it is due"},
        "broker": _OWNER,
        "truncated": BOOLEAN,
    }
)
ID = in_path("id", "of the message", {"type": "string", "minLength": 1})
_RESENT = "true: it was sent before and no reply came; if it is stored now, it is delivered as a repeat"
_PUBLISH_HEADERS = [
    IDEMPOTENCY_KEY,
    header("Mom-Persistent", {"enum": ["true", "false"]}, "survives a crash; default true on queues"),
    header("Mom-Priority", whole(0, 9), "higher first; default 4"),
    header("Mom-Expires-S", number(0.001, 315_360_000), "seconds it may wait"),
    header("Mom-Delay-S", number(0, 315_360_000), "seconds before which it is not delivered"),
    header("Mom-Deliver-At", TIME, "time before which it is not delivered"),
    header("Mom-Dedup-Id", {"type": "string", "minLength": 1, "maxLength": 1024}, "names repeats"),
    header("Mom-Resent", {"enum": ["true", "false"]}, _RESENT),
    header("Mom-Correlation-Id", TEXT, "carried"),
    header("Mom-Reply-To", TEXT, "carried; a destination such as /queue/answers"),
    header("Mom-Type", TEXT, "carried"),
    header("Mom-Group", {**TEXT, "maxLength": 255}, "messages of a group go to one consumer at a time"),
    header("traceparent", TEXT, "carried, and returned"),
]
_MESSAGE_BODY: Json = {
    "description": "The message itself, byte for byte. Its media type is kept. Headers `Mom-Header-<name>` "
    "and `ce-<name>` become headers of the message. `application/cloudevents+json` is stored as an event in "
    "binary mode would be; `application/cloudevents-batch+json` is answered as a batch is.",
    "required": False,
    "content": {"*/*": {}},
}
_BATCH_BODY: Json = {
    "required": True,
    "content": {
        "application/json": {"schema": array_of(ref("Item"), 1000)},
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "one item a line, as many as 100,000"}
        },
    },
}
_BATCH_REPLY: Json = {
    "description": "one result for each item, in order",
    "headers": {"Request-Id": ref("RequestId", "headers"), **REPLAYED},
    "content": {
        "application/json": {"schema": object_of({"results": array_of(ref("BatchResult"))})},
        "application/x-ndjson": {"schema": {"description": "a BatchResult a line"}},
    },
}
_PUBLISHED_REPLY = json_reply("stored", ref("Published"), {"Location": {"schema": TEXT}, **REPLAYED})
_ATOMIC = parameter("atomic", BOOLEAN, "one transaction: all or nothing; for application/json")

SCHEMAS: Json = {
    "Published": object_of(
        {
            "id": TEXT,
            "seq": {**COUNT, "description": "place in the broker's order"},
            "stored": {"enum": ["memory", "synced"], "description": "synced: it is on the disk"},
            "copies": {**COUNT, "description": "subscriptions of a topic that get it; 1 for a queue"},
            "duplicate": {**BOOLEAN, "description": "true: it repeats the message `id`, and was not stored"},
        },
        required=("id", "seq", "stored", "copies"),
    ),
    "Item": {
        **request_of(
            {
                "body": {"description": "JSON, or a string that is a text when the content type is not JSON"},
                "body_base64": {"type": "string", "contentEncoding": "base64"},
                "content_type": OPTIONAL_TEXT,
                "headers": {"type": ["object", "null"], "additionalProperties": TEXT},
                "persistent": {"type": ["boolean", "null"]},
                "priority": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                "expires_s": {"type": ["number", "null"], "minimum": 0.001, "maximum": 315_360_000},
                "correlation_id": OPTIONAL_TEXT,
                "reply_to": OPTIONAL_TEXT,
                "type": OPTIONAL_TEXT,
                "group": {**OPTIONAL_TEXT, "maxLength": 255},
                "traceparent": OPTIONAL_TEXT,
                "tracestate": OPTIONAL_TEXT,
                "delay_s": {"type": ["number", "null"], "minimum": 0, "maximum": 315_360_000},
                "deliver_at": {**TIME, "type": ["string", "null"]},
                "dedup_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024},
                "resent": {"type": ["boolean", "null"], "description": _RESENT},
            },
            required=(),
        ),
        "oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}],
    },
    "BatchResult": object_of(
        {"i": COUNT, "id": TEXT, "duplicate": BOOLEAN, "error": ref("Problem")}, required=("i",)
    ),
    "BrowsedMessage": BROWSED,
    # With `fields`, any member may be missing.
    "MessagePage": object_of(
        {
            "items": array_of({**BROWSED, "required": []}),
            **PAGING,
            "not_shown": _NOT_SHOWN,
            "scanned": {**COUNT, "description": "messages that were scanned for this page"},
            "stopped": {
                **BOOLEAN,
                "description": "true: it ended after 50,000 scanned messages or 2 s; continue with next",
            },
            "broker": {**TEXT, "description": "in a cluster, if all brokers are asked: the one that answers"},
        },
        required=("items", *PAGING, "not_shown", "scanned", "stopped"),
    ),
    "Digest": object_of(
        {
            "matches": COUNT,
            "bytes": COUNT,
            "oldest": OPTIONAL_TIME,
            "newest": OPTIONAL_TIME,
            "by_origin": {**COUNTS, "description": "of dead letters: the 20 queues where most of them died"},
            "by_reason": {**COUNTS, "description": "of dead letters: the 20 details, or reasons, of most"},
            "scanned": COUNT,
            "stopped": {**BOOLEAN, "description": "whether there are more than it looked at"},
            "approx_total": COUNT,
        }
    ),
    "HistoryPage": object_of(
        {
            "items": array_of({**BROWSED, "required": []}),
            **PAGING,
            "not_shown": _HISTORY_NOT_SHOWN,
            "unknown_position": {
                **BOOLEAN,
                "description": "true: the journal never gave the position of `from`; this is the first page",
            },
        },
        required=("items", *PAGING, "not_shown"),
    ),
    "Explanation": object_of(
        {
            "id": TEXT,
            "state": BROWSED["properties"]["state"],
            "reasons": array_of(object_of({"code": TEXT, "sentence": TEXT, "facts": {"type": "object"}})),
            "broker": _OWNER,
        },
        required=("id", "state", "reasons"),
    ),
}

PATHS: Json = {
    "/queues/{name}/messages": {
        "post": operation(
            "publish_to_queue", "Publish one message", {"200": _BATCH_REPLY, "201": _PUBLISHED_REPLY},
            408, 409, 413, 415, 422, 503,
            parameters=[QUEUE, *_PUBLISH_HEADERS], body=_MESSAGE_BODY,
            refused_while=BEGINS,
        ),
        "get": operation(
            "browse_queue", "Look at the messages of a queue; nothing changes",
            {"200": json_reply("messages in the order of delivery", ref("MessagePage"))}, 404, 503,
            parameters=[
                QUEUE,
                parameter("limit", whole(1, 500, 50), "most messages of a page"),
                AFTER,
                parameter("order", {"enum": ["oldest", "newest"]}, "which come first"),
                parameter(
                    "state", {"enum": ["ready", "unsettled", "leased", "delayed"]}, "leased is unsettled"
                ),
                parameter("fields", TEXT, "members of the items, separated by commas"),
                parameter(
                    "scope", {"enum": ["cluster", "broker"]},
                    "the messages of all brokers of the cluster (default), or of this one alone",
                ),
                *CONDITIONS,
            ],
        ),
        "delete": operation(
            "purge_queue", "Remove everything that waits in a queue", {"204": empty_reply("removed")},
            404, 503,
            parameters=[QUEUE, parameter("all", {"const": True}, "must be true", required=True)],
        ),
    },
    "/queues/{name}/digest": {
        "get": operation(
            "digest_queue", "Count the messages of a queue that fit, by where and why they died",
            {"200": json_reply("counts", ref("Digest"))}, 404, 503,
            parameters=[QUEUE, *CONDITIONS],
        ),
    },
    "/queues/{name}/messages/batch": {
        "post": operation(
            "publish_batch_to_queue", "Publish many messages", {"200": _BATCH_REPLY},
            408, 409, 413, 415, 422, 503,
            parameters=[QUEUE, _ATOMIC, IDEMPOTENCY_KEY], body=_BATCH_BODY,
            refused_while=BEGINS,
        ),
    },
    "/topics/{name}/messages": {
        "post": operation(
            "publish_to_topic", "Publish one message", {"200": _BATCH_REPLY, "201": _PUBLISHED_REPLY},
            408, 409, 413, 415, 422, 503,
            parameters=[
                TOPIC,
                parameter("mandatory", BOOLEAN, "refuse it (409) if there is no subscription"),
                *_PUBLISH_HEADERS,
            ],
            body=_MESSAGE_BODY,
            refused_while=BEGINS,
        ),
        "get": operation(
            "browse_history", "Look at what a topic retains; nothing changes",
            {"200": json_reply("messages in the order of the journal", ref("HistoryPage"))}, 410, 503,
            parameters=[
                TOPIC,
                parameter(
                    "from",
                    TEXT,
                    "first, last, seq:<number>, seq:<tag>-<number>, time:<ms or RFC 3339>; next is one",
                ),
                parameter("limit", whole(1, 500, 50), "most messages of a page"),
            ],
        ),
    },
    "/topics/{name}/messages/batch": {
        "post": operation(
            "publish_batch_to_topic", "Publish many messages", {"200": _BATCH_REPLY},
            408, 409, 413, 415, 422, 503,
            parameters=[TOPIC, _ATOMIC, IDEMPOTENCY_KEY], body=_BATCH_BODY,
            refused_while=BEGINS,
        ),
    },
    "/messages/{id}": {
        "get": operation(
            "get_message", "One message", {"200": json_reply("the message", ref("BrowsedMessage"))}, 404, 503,
            parameters=[ID, parameter("queue", NAME, "where it is", required=True)],
        ),
        "delete": operation(
            "delete_message", "Remove one message that waits", {"204": empty_reply("removed")}, 404, 409, 503,
            parameters=[ID, parameter("queue", NAME, "where it is", required=True)],
        ),
    },
    "/messages/{id}/queue": {
        "get": operation(
            "find_message", "The queue of a message, of those that you may browse; in a cluster everywhere",
            {
                "200": json_reply(
                    "where it is", object_of({"queue": NAME, "broker": _OWNER}, required=("queue",))
                )
            },
            404, 503, parameters=[ID],
        ),
    },
    "/messages/{id}/why": {
        "get": operation(
            "explain_message", "Why a message is where it is; in a cluster of the broker that owns it",
            {"200": json_reply("reasons, the weightiest first", ref("Explanation"))}, 404, 503,
            parameters=[
                ID,
                parameter("queue", NAME, "where it is", required=True),
                parameter(
                    "scope", {"enum": ["cluster", "broker"]},
                    "ask the other brokers of the cluster for what this one does not have (default), or not",
                ),
            ],
        ),
    },
    "/messages/{id}/body": {
        "get": operation(
            "get_message_body", "The bytes of one message", {"200": BYTES, "206": BYTES}, 404, 503,
            parameters=[
                ID,
                parameter("queue", NAME, "where it is", required=True),
                header("Range", TEXT, "`bytes=0-99`, `bytes=-100`: one stretch of them"),
            ],
        ),
    },
}  # fmt: skip
