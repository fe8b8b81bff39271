"""Sites: the brokers of the cluster, to whose applications messages and requests are sent."""

from __future__ import annotations

from broker_app.features.channels.requests import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS
from broker_app.net.rest.openapi.operations import (
    AFTER,
    empty_reply,
    in_path,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    PAGING,
    TEXT,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)
from mom_client.channel_parts import MAX_PARTS

_COUNTS: Json = {"type": "object", "additionalProperties": COUNT}
SCHEMAS: Json = {
    "SitePage": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "name": {**TEXT, "description": "of its broker"},
                        "is_here": {**BOOLEAN, "description": "this broker"},
                        "is_master": {**BOOLEAN, "description": "where messages to $master go now"},
                        "linked": BOOLEAN,
                        "handlers": {"type": ["integer", "null"], "description": "null: it is not known"},
                        "functions": array_of(
                            {**TEXT, "description": "a reflex of this broker that is one of its handlers"}
                        ),
                        "in_flight": {**COUNT, "description": "requests to there that wait for an answer"},
                        "sent": {**COUNT, "description": "messages and requests from here to there"},
                        "received": {**COUNT, "description": "messages and requests from there to here"},
                        "dropped": {
                            **_COUNTS,
                            "description": "of what came from there, by reason: noserver (a message without "
                            "a handler here), late (an answer after its time), busy",
                        },
                        "failed": {**_COUNTS, "description": "requests to there, by status"},
                        "round_trip_ms": {
                            "type": ["number", "null"],
                            "minimum": 0,
                            "description": "the average time of the latest answers",
                        },
                    },
                    required=(),
                )
            ),
            **PAGING,
        }
    ),
    "Parts": object_of(
        {
            "parts": array_of(
                object_of(
                    {
                        "body": {**TEXT, "description": "a text"},
                        "body_base64": {"type": "string", "contentEncoding": "base64"},
                    },
                    required=(),
                ),
                MAX_PARTS,
            )
        }
    ),
}

_SITE = in_path("site", "name of its broker, or `$master`", {"type": "string", "minLength": 1})
_PARTS = parameter(
    "parts", BOOLEAN, "true: the body is JSON with the parts, as in `Parts`; else it is one part as it is"
)
_BODY: Json = {"required": False, "content": {"*/*": {}}}
PATHS: Json = {
    "/sites": {
        "get": operation(
            "list_sites",
            "The sites of message channels: this broker and the others of its cluster",
            {"200": json_reply("a page of sites", ref("SitePage"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "rows of a page"),
                AFTER,
                parameter("sort", TEXT, "such as -in_flight,name"),
                parameter("fields", TEXT, "members, with commas"),
                parameter("q", TEXT, "words of the name, or a pattern"),
            ],
        ),
    },
    "/sites/{site}/messages": {
        "post": operation(
            "send_message_to_site",
            "Send a message to an application at a site; it is not stored, and has no answer",
            {"204": empty_reply("it was handed over: to a handler's connection, or to the link")},
            408,
            413,
            415,
            503,
            parameters=[_SITE, _PARTS],
            body=_BODY,
        ),
    },
    "/sites/{site}/requests": {
        "post": operation(
            "send_request_to_site",
            "Send a request to an application at a site, and wait for its answer; it is never repeated",
            {
                "200": {
                    "description": "the answer: its bytes, or with multiple=true its parts",
                    "content": {
                        "application/octet-stream": {},
                        "application/json": {"schema": ref("Parts")},
                    },
                    "headers": {"Request-Id": ref("RequestId", "headers")},
                }
            },
            408,
            409,
            413,
            415,
            502,
            503,
            parameters=[
                _SITE,
                _PARTS,
                parameter("multiple", BOOLEAN, "the answer may have several parts, and is JSON"),
                parameter("timeout_ms", whole(1, MAX_TIMEOUT_MS, DEFAULT_TIMEOUT_MS), "how long it may take"),
            ],
            body=_BODY,
        ),
    },
}
