"""Information about the node."""

from __future__ import annotations

from broker_app.net.broker_state import STATES
from broker_app.net.rest.node.broker import MAX_DELAY_S
from broker_app.net.rest.node.mirrors import MAX_REASON
from broker_app.net.rest.node.node_info import NEARLY_FULL
from broker_app.net.rest.openapi.operations import json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    SECONDS,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)
from broker_app.telemetry.metrics.detailed_metrics import LIMIT, MAX_LIMIT
from broker_app.telemetry.metrics.families import DESTINATION, FLOW

_ORDERED: Json = {**object_of({"by": TEXT, "reason": TEXT, "at": TIME}), "type": ["object", "null"]}

_ORDER: Json = {
    "name": {**TEXT, "description": "of the broker, so that no other one gets the order"},
    "reason": {**TEXT, "maxLength": MAX_REASON, "description": "kept in the audit log"},
}
SCHEMAS: Json = {
    "Health": object_of(
        {
            "status": {"enum": ["live", "ready"]},
            "degraded": {"enum": [NEARLY_FULL], "description": "while its store has little space left"},
        },
        required=("status",),
    ),
    "BrokerOrder": object_of(_ORDER, required=("name",)),
    "ShutdownOrder": object_of(
        {
            **_ORDER,
            "no_failover": {
                **BOOLEAN,
                "description": "no other member of an enhanced cluster takes over: the messages wait for the "
                "broker",
            },
            "delay_s": {
                **SECONDS,
                "maximum": MAX_DELAY_S,
                "description": "until the broker stops; meanwhile it is quiesced, and unquiesce calls it "
                "off. 0: at once",
            },
        },
        required=("name",),
    ),
    "Broker": object_of(
        {
            "name": TEXT,
            "version": TEXT,
            "state": {
                "enum": list(STATES),
                "description": "QUIESCE_COMPLETE: it is quiesced, and no client is connected any more",
            },
            "quiesced": {**_ORDERED, "description": "while new clients are refused"},
            "paused": {**_ORDERED, "description": "while no client is served"},
            "shutdown": {
                **object_of({"by": TEXT, "reason": TEXT, "at": TIME, "due": TIME, "left_s": SECONDS}),
                "type": ["object", "null"],
                "description": "that is planned: it stops when it is due",
            },
            "clients": {
                **object_of({"stomp": COUNT, "json": COUNT, "rest": COUNT}),
                "description": "connections; of REST, requests that wait for messages",
            },
            "other_addresses": {**array_of(TEXT), "description": "to which refused clients are sent"},
            "started_at": TIME,
            "restart_refusal": {**TEXT, "description": "why it cannot be restarted; empty if it can"},
        }
    ),
}

_METRICS: Json = {
    "description": "the format of Prometheus, or of OpenMetrics if the client accepts it",
    "content": {"text/plain": {}, "application/openmetrics-text": {}},
}


def _order(name: str, about: str) -> Json:
    """An order that is carried out at once."""
    return {
        "post": operation(
            name, about, {"200": json_reply("the broker afterwards", ref("Broker"))}, 408, 413, 415,
            body=json_body("BrokerOrder"),
        )
    }  # fmt: skip


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
    "/broker": {
        "get": operation(
            "get_broker", "The state of this broker, for administrators",
            {"200": json_reply("the broker", ref("Broker"))},
        ),
    },
    "/broker/quiesce": _order("quiesce_broker", "Refuse new clients; those that are connected go on"),
    "/broker/unquiesce": _order("unquiesce_broker", "Take new clients again"),
    "/broker/pause": _order("pause_broker", "Read nothing from clients, and deliver nothing to them"),
    "/broker/resume": _order("resume_broker", "Serve clients again"),
    "/broker/restart": {
        "post": operation(
            "restart_broker", "Stop the broker as for a shutdown, and start it again with the same options",
            {"202": json_reply("it restarts", object_of({"name": TEXT}))},
            408, 409, 413, 415, body=json_body("BrokerOrder"),
        ),
    },
    "/shutdown": {
        "post": operation(
            "shut_down", "Stop the broker, at once or later, as an administrator; clients are notified",
            {
                "202": json_reply(
                    "it stops, at once or when it is due",
                    object_of({"name": TEXT, "due": TIME}, required=("name",)),
                )
            },
            408, 409, 413, 415, body=json_body("ShutdownOrder"),
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
