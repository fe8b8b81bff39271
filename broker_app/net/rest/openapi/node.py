"""Information about the node."""

from __future__ import annotations

from broker_app.net.rest.openapi.operations import json_reply, operation
from broker_app.net.rest.openapi.schemas import Json, object_of, ref

SCHEMAS: Json = {
    "Health": object_of({"status": {"enum": ["live", "ready"]}}),
}

PATHS: Json = {
    "/limits": {
        "get": operation(
            "get_limits", "What one request may ask for; sizes in bytes, times in seconds",
            {"200": json_reply("limits", {"type": "object", "additionalProperties": {"type": "number"}})},
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
            "health_ready", "Whether the node serves", {"200": json_reply("it does", ref("Health"))},
            503, login=False,
        ),
    },
    "/openapi.json": {
        "get": operation(
            "get_openapi", "This document", {"200": json_reply("OpenAPI 3.1", {"type": "object"})},
            login=False,
        ),
    },
}  # fmt: skip
