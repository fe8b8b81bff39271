"""Callbacks while they run."""

from __future__ import annotations

from broker_app.features.callbacks.webhooks.report import (
    Breaker,
    CallbackTest,
    Push,
    SampleRequest,
    SampleResponse,
)
from broker_app.net.rest.features.callback_status import CallbackStatus
from broker_app.net.rest.openapi.operations import empty_reply, in_path, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    PAGING,
    TEXT,
    Json,
    array_of,
    object_of,
    of_types,
    ref,
    whole,
)

_NAME = in_path("name", "name of the callback", {"type": "string", "minLength": 1, "maxLength": 64})
_TOKEN = parameter("token", TEXT, "as in the address that the receiver was sent", required=True)

SCHEMAS: Json = {
    **of_types(CallbackStatus, Breaker, Push, CallbackTest, SampleRequest, SampleResponse),
    "CallbackStatusList": object_of({"items": array_of(ref("CallbackStatus"))}),
    "PushPage": object_of({"items": array_of(ref("Push"), 100), **PAGING}),
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
