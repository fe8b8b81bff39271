"""Bridges while they run, and their queues."""

from __future__ import annotations

from broker_app.base.events import KINDS
from broker_app.features.bridge.connection_test import BridgeTrial, TrialStep
from broker_app.features.bridge.pipe_reports import (
    Orphan,
    OrphanError,
)
from broker_app.net.rest.features.bridge_status import (
    BridgeError,
    BridgeEvent,
    BridgeStatus,
    Flow,
    ForwardingStatus,
    Mark,
)
from broker_app.net.rest.openapi import messages
from broker_app.net.rest.openapi.operations import (
    AFTER,
    QUEUE,
    empty_reply,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    PAGING,
    TEXT,
    Json,
    array_of,
    object_of,
    of_types,
    ref,
    whole,
)
from broker_app.telemetry.event_log import EventStatus
from mom_client.storeandforward import MAX_BROKER, MAX_QUEUE

_NAME: Json = {"type": "string", "minLength": 1, "maxLength": MAX_BROKER}
_BRIDGE = in_path("name", "name of the bridge", _NAME)
_OF_BRIDGE = in_path("bridge", "name of the bridge", _NAME)
_ONE_QUEUE = {"queue": {"type": ["string", "null"], "maxLength": MAX_QUEUE, "description": "only one flow"}}

_OF_MARK = [
    parameter("sender", TEXT, "the other broker, with the tag of its journal; required"),
    parameter("source", TEXT, "name of the queue there; required"),
]

SCHEMAS: Json = {
    "Forwarding": of_types(ForwardingStatus)["ForwardingStatus"],
    **of_types(
        BridgeStatus,
        Flow,
        BridgeError,
        BridgeEvent,
        Orphan,
        OrphanError,
        Mark,
        BridgeTrial,
        TrialStep,
    ),
    "BridgeEventPage": object_of({"items": array_of(ref("BridgeEvent")), **PAGING}),
    "BridgeChoice": object_of(_ONE_QUEUE, required=()),
    "MarkOwner": object_of({"owner": {**TEXT, "minLength": 1, "maxLength": 150}}),
    "Nothing": object_of({}),
    "LoggedEventPage": object_of(
        {
            "items": array_of(of_types(EventStatus)["EventStatus"]),
            **PAGING,
        }
    ),
}

PATHS: Json = {
    "/events": {
        "get": operation(
            "list_events",
            "What happened to bridges, files of the configuration and alerts, the newest first",
            {"200": json_reply("events", ref("LoggedEventPage"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "most events of a page"),
                AFTER,
                parameter("kind", {"enum": list(KINDS)}, "only of this kind"),
                parameter("name", TEXT, "of this resource only"),
            ],
        ),
    },
    "/forwarding": {
        "get": operation(
            "get_forwarding", "How all bridges stand, with their flows; queues without a bridge",
            {"200": json_reply("bridges", ref("Forwarding"))},
            parameters=[parameter("flows", {**BOOLEAN, "default": True}, "false: only sums")],
        ),
    },
    "/forwarding/incoming": {
        "delete": operation(
            "forget_incoming",
            "Forget how far another broker has come with a queue; what it was not answered may come twice",
            {"204": empty_reply("forgotten")}, 404, 409, 503,
            parameters=_OF_MARK,
        ),
        "patch": operation(
            "hand_over_incoming",
            "Let another user continue a queue of another broker, from its replication offset",
            {"204": empty_reply("handed over")}, 404, 408, 409, 413, 415, 503, parameters=_OF_MARK,
            body=json_body("MarkOwner"),
        ),
    },
    "/bridges/{name}/status": {
        "get": operation(
            "get_bridge_status", "How a bridge stands: its connection and its flows",
            {"200": json_reply("the bridge", ref("BridgeStatus"))}, 404, parameters=[_BRIDGE],
        ),
    },
    "/bridges/{name}/events": {
        "get": operation(
            "list_bridge_events", "What happened to a bridge, the newest first; the last 200 are kept",
            {"200": json_reply("events", ref("BridgeEventPage"))}, 404,
            parameters=[_BRIDGE, parameter("limit", whole(1, 500, 100), "most events of a page")],
        ),
    },
    "/bridges/{name}/retry": {
        "post": operation(
            "retry_bridge", "Try again now what waits for its next attempt: all of a bridge, or one flow",
            {"200": json_reply("the status", ref("BridgeStatus"))}, 404, 408, 413, 415,
            parameters=[_BRIDGE], body=json_body("BridgeChoice", required=False),
        ),
    },
    "/bridges/{name}/test": {
        "post": operation(
            "test_bridge", "Test the connection and the rights of a flow, step by step",
            {"200": json_reply("what came of it", ref("BridgeTrial"))}, 404, 408, 413, 415, 503,
            parameters=[_BRIDGE], body=json_body("BridgeChoice", required=False),
        ),
    },
    "/bridges/{bridge}/queues/{name}": {
        "get": operation(
            "get_bridge_queue", "What is known of a queue that waits here for one of a remote broker",
            {"200": json_reply("the queue", ref("Queue"))}, 404, 503, parameters=[_OF_BRIDGE, QUEUE],
        ),
        "post": operation(
            "make_bridge_queue", "Make the queue, as its first use would",
            {
                "200": json_reply("it was there", ref("Queue")),
                "201": json_reply("made", ref("Queue"), {"Location": {"schema": TEXT}}),
            },
            404, 408, 409, 413, 415, 422, 503,
            parameters=[_OF_BRIDGE, QUEUE], body=json_body("Nothing", required=False),
        ),
    },
    "/bridges/{bridge}/queues/{name}/messages": {
        method: {
            **operation,
            "operationId": operation["operationId"].replace("queue", "bridge_queue"),
            "parameters": [_OF_BRIDGE, *operation["parameters"]],
            "responses": {**operation["responses"], "404": {"$ref": "#/components/responses/Problem404"}},
        }
        for method, operation in messages.PATHS["/queues/{name}/messages"].items()
        if method in ("get", "post")
    },
}  # fmt: skip
