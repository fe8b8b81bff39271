"""Bridges while they run, and their queues."""

from __future__ import annotations

from broker_app.features.bridge.remote import DESIRED_STATES
from broker_app.net.rest.features.bridges import MAX_FLOWS
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
    COUNT,
    HEALTH,
    OPTIONAL_TIME,
    PAGING,
    RATE,
    SECONDS,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    or_null,
    ref,
    whole,
)
from broker_app.telemetry.event_log import KINDS
from mom_client.storeandforward import MAX_BROKER, MAX_QUEUE

_NAME: Json = {"type": "string", "minLength": 1, "maxLength": MAX_BROKER}
_ERROR = object_of(
    {
        "code": {**TEXT, "description": "such as REFUSED, TLS, LOGIN, AUTH_SYNC_QUEUE"},
        "detail": TEXT,
        "at": TIME,
    }
)
_DELIVERY: Json = {
    "enum": ["exactly-once", "at-least-once", None],
    "description": "at-least-once to a broker that is no MOM; null: not known without a connection",
}
_SUMS: Json = {
    "in_flight": {**COUNT, "description": "sent and not answered yet"},
    "sent": {**COUNT, "description": "accepted, refused, unanswered and in flight together"},
    "accepted": COUNT,
    "refused": COUNT,
    "unanswered": {**COUNT, "description": "the connection was lost before an answer"},
    "duplicate": {**COUNT, "description": "of the unanswered, those that had arrived"},
    "gap": {**COUNT, "description": "what the remote broker counts otherwise; 0, or something is wrong"},
    "dead_lettered": {**COUNT, "description": "made dead letters after too many refusals"},
    "bytes": {**COUNT, "description": "of bodies that were accepted"},
    "arrived_rate": RATE,
    "sent_rate": RATE,
    "accepted_rate": RATE,
}
_FLOW = object_of(
    {
        "queue": {**TEXT, "description": "of the remote broker"},
        "source": {**TEXT, "description": "address of the queue here"},
        "state": {"enum": ["suspended", "starting", "running", "retrying", "stalled", "failed"]},
        "paused": BOOLEAN,
        "error": {**or_null(_ERROR), "description": "the last one, until something is accepted"},
        "progress_at": {**OPTIONAL_TIME, "description": "when something was accepted last"},
        "depth": {**COUNT, "description": "messages here, those in flight too"},
        "oldest_s": SECONDS,
        **_SUMS,
    }
)
_MARK = object_of(
    {
        "sender": {**TEXT, "description": "the other broker, with the tag of its journal"},
        "source": {**TEXT, "description": "name of the queue there"},
        "owner": {**TEXT, "description": "the user that forwards; only this user can continue it"},
        "accepted": {**COUNT, "description": "number of the last message that was taken over"},
        "count": {**COUNT, "description": "how many were taken over"},
        "at": OPTIONAL_TIME,
    }
)
_ORPHAN = object_of(
    {
        "bridge": TEXT,
        "queue": TEXT,
        "source": TEXT,
        "depth": COUNT,
        "error": object_of({"code": TEXT, "detail": TEXT}),
    }
)
_STANDING: Json = {
    "name": TEXT,
    "address": {**TEXT, "description": "of the remote broker, without credentials"},
    "desired": {"enum": list(DESIRED_STATES)},
    "drained": {**BOOLEAN, "description": "it is draining and nothing is left"},
    "state": {"enum": ["suspended", "connecting", "running", "retrying", "failed"]},
    "health": HEALTH,
    "error": or_null(_ERROR),
    "attempts": {**COUNT, "description": "failed attempts since the last connection"},
    "connected_at": OPTIONAL_TIME,
    "server": {**TEXT, "description": "what the remote broker calls itself; empty without a connection"},
    "delivery": _DELIVERY,
    "progress_at": OPTIONAL_TIME,
    "backlog": {**COUNT, "description": "messages here, over all flows"},
    "oldest_s": SECONDS,
    **_SUMS,
    "flow_count": COUNT,
}
_FLOWS = array_of(ref("Flow"), MAX_FLOWS)
_EVENT = object_of(
    {
        "at": TIME,
        "first_at": TIME,
        "event": {**TEXT, "description": "such as connected, retrying, refused, stalled, gap"},
        "queue": {**TEXT, "description": "of a flow; empty: of the connection"},
        "code": TEXT,
        "detail": TEXT,
        "times": {"type": "integer", "minimum": 1, "description": "in a row"},
    }
)
_STEP = object_of(
    {
        "name": {"enum": ["dns", "tcp", "tls", "websocket", "login", "sync-queue", "target"]},
        "ok": {"type": ["boolean", "null"], "description": "null: not tried, because of the step before"},
        "detail": TEXT,
        "fix": {**TEXT, "description": "what to do; empty where nothing is wrong"},
        "seconds": SECONDS,
    }
)
_BRIDGE = in_path("name", "name of the bridge", _NAME)
_OF_BRIDGE = in_path("bridge", "name of the bridge", _NAME)
_ONE_QUEUE = {"queue": {"type": ["string", "null"], "maxLength": MAX_QUEUE, "description": "only one flow"}}

_OF_MARK = [
    parameter("sender", TEXT, "the other broker, with the tag of its journal; required"),
    parameter("source", TEXT, "name of the queue there; required"),
]

SCHEMAS: Json = {
    "Flow": _FLOW,
    "Forwarding": object_of(
        {
            "bridges": array_of(
                {
                    **object_of({**_STANDING, "flows": _FLOWS}),
                    "required": list(_STANDING),
                    "description": "what the client may browse of them; without flows if so asked",
                }
            ),
            "orphans": {**array_of(_ORPHAN), "description": "queues whose bridge is not configured"},
            "incoming": {
                **array_of(_MARK),
                "description": "what other brokers forward to this one, the newest first; for administrators",
            },
        }
    ),
    "BridgeStatus": object_of({**_STANDING, "flows": _FLOWS}),
    "BridgeEventPage": object_of({"items": array_of(_EVENT), **PAGING}),
    "BridgeChoice": object_of(_ONE_QUEUE, required=()),
    "MarkOwner": object_of({"owner": {**TEXT, "minLength": 1, "maxLength": 150}}),
    "BridgeTrial": object_of(
        {
            "ok": BOOLEAN,
            "server": TEXT,
            "delivery": _DELIVERY,
            "seconds": SECONDS,
            "steps": array_of(_STEP, 7),
        }
    ),
    "Nothing": object_of({}),
    "LoggedEventPage": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": TEXT,
                        "at": TIME,
                        "kind": {"enum": list(KINDS)},
                        "name": {
                            **TEXT,
                            "description": "of the bridge or the alert rule, or the files that changed",
                        },
                        "event": TEXT,
                        "code": {**TEXT, "description": "of a trouble; empty where there is none"},
                        "detail": TEXT,
                        "facts": {"type": "object"},
                    }
                )
            ),
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
