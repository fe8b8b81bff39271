"""Callbacks while they run."""

from __future__ import annotations

from broker_app.features.callbacks.webhooks.breaker import STATES as BREAKER_STATES
from broker_app.features.callbacks.webhooks.callback import DESIRED_STATES, MODES
from broker_app.features.callbacks.webhooks.host import PAUSES
from broker_app.features.callbacks.webhooks.verdict import OUTCOMES
from broker_app.features.callbacks.webhooks.webhook import STATES
from broker_app.net.rest.openapi.operations import empty_reply, in_path, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    HEALTH,
    OPTIONAL_TIME,
    PAGING,
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

_NAME = in_path("name", "name of the callback", {"type": "string", "minLength": 1, "maxLength": 64})
_OUTCOME: Json = {"enum": list(OUTCOMES)}
_OPTIONAL_SECONDS: Json = {**SECONDS, "type": ["number", "null"]}
_HEADERS: Json = {"type": "object", "additionalProperties": TEXT}
_TOKEN = parameter("token", TEXT, "as in the address that the receiver was sent", required=True)

_PUSH = object_of(
    {
        "at": TIME,
        "id": {**TEXT, "description": "of the message or the notification, as in webhook-id"},
        "attempt": {"type": "integer", "minimum": 1},
        "outcome": _OUTCOME,
        "status": {**whole(0, 999), "description": "of the answer; 0 without one"},
        "seconds": SECONDS,
        "detail": {**TEXT, "description": "why it was not accepted"},
    }
)

SCHEMAS: Json = {
    "Push": _PUSH,
    "CallbackStatus": object_of(
        {
            "name": TEXT,
            "owner": TEXT,
            "source": {**TEXT, "description": "address of the queue or topic"},
            "url": TEXT,
            "mode": {"enum": list(MODES)},
            "desired": {"enum": list(DESIRED_STATES)},
            "state": {"enum": list(STATES)},
            "health": HEALTH,
            "reason": {**TEXT, "description": "why it does not run"},
            "breaker": object_of(
                {
                    "host": {**TEXT, "description": "host and port; an owner has one breaker for each"},
                    "state": {"enum": list(BREAKER_STATES)},
                    "until": {**OPTIONAL_TIME, "description": "until when nothing is pushed there"},
                    "pause": {
                        "enum": ["", *PAUSES],
                        "description": "why nothing is pushed until then, unless it is the breaker: the "
                        "receiver asked for it (Retry-After), or no worker takes requests",
                    },
                }
            ),
            "pending": {**COUNT, "description": "messages that wait, those in flight too"},
            "in_flight": {**COUNT, "description": "pushes without an answer"},
            "pushes": object_of(dict.fromkeys(OUTCOMES, COUNT)),
            "failures_in_row": {**COUNT, "description": "pushes since the last accepted one"},
            "push_seconds": {**SECONDS, "description": "all pushes together"},
            "coalesced": {**COUNT, "description": "arrivals that were reported together with an earlier one"},
            "p50_s": {**_OPTIONAL_SECONDS, "description": "median of the last 100 pushes"},
            "p95_s": _OPTIONAL_SECONDS,
            "accepted_at": {**OPTIONAL_TIME, "description": "when a push was accepted last"},
            "last": {**or_null(_PUSH), "description": "the push that ended last"},
        }
    ),
    "CallbackStatusList": object_of({"items": array_of(ref("CallbackStatus"))}),
    "PushPage": object_of({"items": array_of(ref("Push"), 100), **PAGING}),
    "CallbackTest": object_of(
        {
            "ok": {**BOOLEAN, "description": "whether the receiver accepted it"},
            "outcome": _OUTCOME,
            "detail": TEXT,
            "seconds": SECONDS,
            "request": object_of(
                {
                    "method": TEXT,
                    "url": TEXT,
                    "headers": {**_HEADERS, "description": "credentials and signature are not shown"},
                    "body": TEXT,
                }
            ),
            "response": or_null(object_of({"status": whole(0, 999), "headers": _HEADERS, "body": TEXT})),
        }
    ),
}

PATHS: Json = {
    "/webhooks": {
        "get": operation(
            "list_callback_status", "How all callbacks stand that the client may see, by name",
            {"200": json_reply("callbacks", ref("CallbackStatusList"))},
        ),
    },
    "/callbacks/{name}/status": {
        "get": operation(
            "get_callback_status", "How a callback stands: its state, its pushes and the breaker of its host",
            {"200": json_reply("the callback", ref("CallbackStatus"))}, 404, parameters=[_NAME],
        ),
    },
    "/callbacks/{name}/pushes": {
        "get": operation(
            "list_pushes", "The last pushes of a callback, the newest first; 100 are kept",
            {"200": json_reply("pushes", ref("PushPage"))}, 404,
            parameters=[_NAME, parameter("limit", whole(1, 500, 100), "most pushes of a page")],
        ),
    },
    "/callbacks/{name}/push": {
        "post": operation(
            "push_callback",
            "Push now what waits for its next attempt; starts a callback again that its receiver has ended",
            {"200": json_reply("the status", ref("CallbackStatus"))}, 404, parameters=[_NAME],
        ),
    },
    "/callbacks/{name}/test": {
        "post": operation(
            "test_callback", "Send a signed sample, and return the request and the answer",
            {"200": json_reply("what came of it", ref("CallbackTest"))}, 404, 409, 503, parameters=[_NAME],
        ),
    },
    "/callbacks/{name}/confirm": {
        method: operation(
            f"confirm_callback_by_{method}", "A receiver agrees to be called, at the address it was sent",
            {"204": empty_reply("the callback may push")}, 404, parameters=[_NAME, _TOKEN], login=False,
        )
        for method in ("get", "post")
    },
}  # fmt: skip
