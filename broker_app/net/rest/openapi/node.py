"""Information about the node."""

from __future__ import annotations

from broker_app.net.rest.node.mirrors import MAX_REASON
from broker_app.net.rest.node.node_info import NEARLY_FULL
from broker_app.net.rest.openapi.operations import json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import TEXT, Json, object_of, ref, whole
from broker_app.telemetry.metrics.detailed_metrics import LIMIT, MAX_LIMIT
from broker_app.telemetry.metrics.families import DESTINATION, FLOW

SCHEMAS: Json = {
    "Health": object_of(
        {
            "status": {"enum": ["live", "ready"]},
            "degraded": {"enum": [NEARLY_FULL], "description": "while its store has little space left"},
        },
        required=("status",),
    ),
    "Shutdown": object_of(
        {
            "name": {**TEXT, "description": "of the broker, so that no other one is shut down"},
            "reason": {**TEXT, "maxLength": MAX_REASON, "description": "kept in the audit log"},
        },
        required=("name",),
    ),
}

_METRICS: Json = {
    "description": "the format of Prometheus, or of OpenMetrics if the client accepts it",
    "content": {"text/plain": {}, "application/openmetrics-text": {}},
}

PATHS: Json = {
    "/metrics": {
        "get": operation(
            "get_metrics", "Metrics of the node, for Prometheus; also at /metrics. For administrators",
            {"200": _METRICS},
        ),
    },
    "/metrics/detailed": {
        "get": operation(
            "get_detailed_metrics", "Metrics of single destinations, or of single flows of bridges",
            {"200": _METRICS},
            parameters=[
                parameter("family", {"enum": [DESTINATION, FLOW]}, "which of them; else destinations"),
                parameter("name", TEXT, "a pattern of names: orders.* is one level, orders.> all below"),
                parameter("limit", whole(1, MAX_LIMIT), f"most of them, else {LIMIT}"),
            ],
        ),
    },
    "/limits": {
        "get": operation(
            "get_limits", "What one request may ask for; sizes in bytes, times in seconds",
            {"200": json_reply("limits", {"type": "object", "additionalProperties": {"type": "number"}})},
        ),
    },
    "/shutdown": {
        "post": operation(
            "shut_down", "Stop the broker, as an administrator; clients are notified",
            {"202": json_reply("it stops", object_of({"name": TEXT}))},
            413, 415, body=json_body("Shutdown"),
        ),
    },
    "/health/live": {
        "get": operation(
            "health_live", "Whether the process answers", {"200": json_reply("it does", ref("Health"))},
            login=False,
        ),
    },
    "/health/ready": {
        "get": operation(
            "health_ready", "Whether the node serves, and has space for messages",
            {"200": json_reply("it does", ref("Health"))}, 503, login=False,
        ),
    },
    "/openapi.json": {
        "get": operation(
            "get_openapi", "This document", {"200": json_reply("OpenAPI 3.1", {"type": "object"})},
            login=False,
        ),
    },
    "/asyncapi.json": {
        "get": operation(
            "get_asyncapi", "The description of STOMP, JSON over WebSocket, event streams and webhooks",
            {"200": json_reply("AsyncAPI 3.1", {"type": "object"})},
            login=False,
        ),
    },
}  # fmt: skip
