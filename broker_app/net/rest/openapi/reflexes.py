"""Reflexes: state and statistics, trials, and restarts of libraries."""

from __future__ import annotations

from broker_app.net.rest.features.reflexes import TRIED
from broker_app.net.rest.openapi.operations import in_path, json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import TEXT, Json, object_of, of_types, or_null, ref
from broker_app.reflex.report import (
    ReflexLibrary,
    ReflexMessage,
    ReflexStatus,
    ReflexStatusList,
    ReflexStep,
    ReflexTrial,
)

SCHEMAS: Json = {
    **of_types(
        *(ReflexStatusList, ReflexStatus, ReflexLibrary, ReflexTrial, ReflexStep, ReflexMessage),
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
