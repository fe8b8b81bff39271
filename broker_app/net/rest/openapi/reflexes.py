"""Reflexes: state and statistics, trials, and restarts of libraries."""

from __future__ import annotations

from broker_app.net.rest.features.reflexes import TRIED
from broker_app.net.rest.openapi.operations import in_path, json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import COUNT, HEALTH, TEXT, Json, array_of, object_of, or_null, ref
from broker_app.reflex.declaration import KINDS, ON_FAILURE

_MS: Json = {"type": ["number", "null"], "description": "milliseconds, of the last minute; null: no calls"}
_STATES = ("running", "starting", "failed", "unusable", "disabled")
_STEP = object_of(
    {
        "name": TEXT,
        "library": TEXT,
        "function": TEXT,
        "result": {"enum": ["accepted", "refused", "not asked"]},
        "reason": or_null(TEXT),
        "failure": {**or_null(TEXT), "description": "why the function failed; only operators see it"},
        "headers": {"type": "object", "description": "headers that it set; null: removed"},
        "messages": {
            **array_of(object_of({"destination": TEXT, "headers": {"type": "object"}, "bytes": COUNT})),
            "description": "further messages that it would publish",
        },
        "marks": {**array_of(TEXT), "description": "on the registration"},
        "micros": {**COUNT, "description": "microseconds that it took"},
    }
)

SCHEMAS: Json = {
    "ReflexStatus": object_of(
        {
            "name": TEXT,
            "kind": {"enum": list(KINDS)},
            "service": TEXT,
            "event": TEXT,
            "library": TEXT,
            "function": TEXT,
            "options": {"type": "object", "description": "what the function receives"},
            "time_limit_s": {"type": "number"},
            "on_failure": {"enum": list(ON_FAILURE)},
            "enabled": {"type": "boolean"},
            "origin": {**or_null(TEXT), "description": "the line of the file of the setting reflex_file"},
            "state": {
                "enum": list(_STATES),
                "description": "failed: its library is not called for a while; unusable: see error",
            },
            "health": HEALTH,
            "error": or_null(TEXT),
            "calls": COUNT,
            "refusals": COUNT,
            "failures": {**COUNT, "description": "errors, crashes, and calls that took too long"},
            "failures_in_row": {**COUNT, "description": "failures since the last verdict"},
            "unpublished": {**COUNT, "description": "further messages that were refused"},
            "p50_ms": _MS,
            "p99_ms": _MS,
            "last_failure": TEXT,
            "last_failure_at": {"type": ["string", "null"], "format": "date-time"},
        }
    ),
    "ReflexLibrary": object_of(
        {
            "name": TEXT,
            "state": {"enum": list(_STATES)},
            "pid": {"type": ["integer", "null"], "description": "of its process"},
            "starts": {**COUNT, "description": "processes that were started"},
            "functions": array_of(TEXT),
            "failures_in_row": COUNT,
            "error": or_null(TEXT),
        }
    ),
    "ReflexStatusList": object_of(
        {"items": array_of(ref("ReflexStatus")), "libraries": array_of(ref("ReflexLibrary"))}
    ),
    "ReflexTrialRequest": object_of(
        {
            "service": {**TEXT, "description": "queue, address, or the name of a service that registers"},
            "kind": {"enum": list(TRIED), "default": TRIED[0]},
            "headers": {"type": "object", "additionalProperties": TEXT},
            "body": TEXT,
            "body_base64": or_null(TEXT),
            "user": {**or_null(TEXT), "description": "default: the current user"},
            "machine": {**TEXT, "description": "of a registration"},
            "type": {**TEXT, "description": "of a registration; of a message it is the header type"},
        },
        required=("service",),
    ),
    "ReflexTrial": object_of(
        {
            "accepted": {"type": "boolean"},
            "reflex": {**or_null(TEXT), "description": "the one that refused"},
            "reason": or_null(TEXT),
            "headers": {"type": "object", "description": "of the message at the end"},
            "steps": array_of(_STEP),
        }
    ),
}

PATHS: Json = {
    "/reflex-status": {
        "get": operation(
            "list_reflex_status",
            "The reflexes of files and of the configuration in their order, with state and statistics",
            {"200": json_reply("reflexes", ref("ReflexStatusList"))},
            parameters=[parameter("destination", TEXT, "only those that may fire for this address")],
        )
    },
    "/reflex-test": {
        "post": operation(
            "test_reflexes",
            "Ask the reflexes about a message or a registration; nothing is published",
            {"200": json_reply("the steps", ref("ReflexTrial"))},
            413,
            415,
            body=json_body("ReflexTrialRequest"),
        )
    },
    "/reflex-libraries/{name}/restart": {
        "post": operation(
            "restart_reflex_library",
            "Start another process of a library, which loads its code again",
            {"204": {"description": "it is starting"}},
            404,
            parameters=[in_path("name", "name of the library")],
        )
    },
}
