"""Reflexes: state and statistics, trials, and restarts of libraries."""

from __future__ import annotations

from broker_app.net.rest.features.reflex_trials import KINDS as STORED
from broker_app.net.rest.features.reflexes import TRIED
from broker_app.net.rest.openapi.operations import in_path, json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import TEXT, Json, object_of, of_types, or_null, ref, whole
from broker_app.reflex import declaration
from broker_app.reflex.report import (
    ReflexLibrary,
    ReflexMessage,
    ReflexStatus,
    ReflexStatusList,
    ReflexStep,
    ReflexTrial,
)
from broker_app.reflex.stored_trials import (
    DEFAULT_MESSAGES,
    MOST_MESSAGES,
    StoredTrial,
    TriedMessage,
    TriedMessages,
)

#: a reflex as it is configured, without name and position
_DRAFT: Json = object_of(
    {
        "library": TEXT,
        "function": TEXT,
        "kind": {"enum": list(STORED), "default": STORED[0]},
        "service": {**TEXT, "default": "*"},
        "event": {**TEXT, "default": "*"},
        "options": {"type": "object"},
        "time_limit_s": {
            "type": "number", "minimum": declaration.LEAST_LIMIT_S, "maximum": declaration.MOST_LIMIT_S,
        },
        "on_failure": {"enum": list(declaration.ON_FAILURE)},
    },
    required=("library", "function"),
)  # fmt: skip

SCHEMAS: Json = {
    **of_types(
        *(ReflexStatusList, ReflexStatus, ReflexLibrary, ReflexTrial, ReflexStep, ReflexMessage),
        *(StoredTrial, TriedMessages, TriedMessage),
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
    "StoredTrialRequest": object_of(
        {
            "destination": {**TEXT, "description": "a queue, or the address of a topic with a history"},
            "reflex": {**or_null(TEXT), "description": "only this one, also when it is disabled"},
            "declaration": {
                **or_null(_DRAFT),
                "description": "of a reflex that need not be saved; without both: all that are enabled",
            },
            "kind": {"enum": list(STORED), "default": STORED[0], "description": "of all that are enabled"},
            "limit": {**whole(1, MOST_MESSAGES), "default": DEFAULT_MESSAGES},
        },
        required=("destination",),
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
            changes_nothing=True,
        )
    },
    "/reflex-test/messages": {
        "post": operation(
            "test_reflexes_with_stored",
            "Ask reflexes about the newest stored messages of a destination; nothing is changed",
            {"200": json_reply("how many would be refused and changed", ref("StoredTrial"))},
            404,
            409,
            413,
            415,
            body=json_body("StoredTrialRequest"),
            changes_nothing=True,
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
