"""Brokers that share a journal."""

from __future__ import annotations

from broker_app.net.rest.node.mirror_status import (
    FailoverBroker,
    FailoverList,
    MirrorBroker,
    MirrorLease,
    MirrorLoss,
    MirrorPause,
    Mirrors,
    PrivateJournalStatus,
    Takeover,
)
from broker_app.net.rest.node.mirrors import MAX_PAUSE_S, MAX_REASON, MIN_PAUSE_S
from broker_app.net.rest.openapi.operations import in_path, json_body, json_reply, operation
from broker_app.net.rest.openapi.schemas import (
    TEXT,
    Json,
    array_of,
    object_of,
    of_types,
    ref,
    request_of,
)

_COUNT: Json = {"type": "integer", "minimum": 0}
_SECONDS: Json = {"type": "number"}
_REASON: Json = {"type": "string", "maxLength": MAX_REASON}
_DRY_RUN: Json = {
    "type": "boolean",
    "default": False,
    "description": "change nothing, show what would be lost",
}
_NAME = in_path("name", "name of the broker")
SCHEMAS: Json = {
    **of_types(
        *(FailoverList, FailoverBroker, Mirrors, MirrorLease, MirrorBroker, PrivateJournalStatus),
        *(MirrorLoss, MirrorPause, Takeover),
    ),
    "MirrorsPage": object_of({"items": array_of(ref("Mirrors"))}),
    "Switchover": object_of(
        {
            "to": {**TEXT, "default": "", "description": "id of a standby, else the one nearest to the end"},
            "reason": {**_REASON, "default": ""},
            "dry_run": _DRY_RUN,
        },
        required=(),
    ),
    "SwitchoverAnswer": object_of(
        {"to": TEXT, "would_be_lost": ref("MirrorLoss"), "dry_run": {"type": "boolean"}}
    ),
    "ForcedTakeover": object_of(
        {
            "expect_epoch": {**_COUNT, "description": "of the lease as it was seen"},
            "reason": _REASON,
            "accept_loss": {"type": "boolean", "default": False},
            "dry_run": _DRY_RUN,
        },
        required=("expect_epoch", "reason"),
    ),
    "MirrorPauseOrder": request_of(
        {
            "for_s": {**_SECONDS, "minimum": MIN_PAUSE_S, "maximum": MAX_PAUSE_S},
            "reason": {**_REASON, "default": ""},
        },
        required=("for_s",),
    ),
    "MirrorPauseAnswer": object_of({"pause": {"oneOf": [ref("MirrorPause"), {"type": "null"}]}}),
    "MirrorDrill": object_of(
        {
            "could_serve": {"type": "boolean", "description": "every check has passed"},
            "took_s": _SECONDS,
            "checks": array_of(
                object_of(
                    {"name": TEXT, "ok": {"type": "boolean"}, "detail": {**TEXT, "description": "a sentence"}}
                )
            ),
        }
    ),
    "ForcedTakeoverAnswer": object_of({"would_be_lost": ref("MirrorLoss"), "dry_run": {"type": "boolean"}}),
}

PATHS: Json = {
    "/failover-list": {
        "get": operation(
            "get_failover_list",
            "The brokers of this name for clients, the active one first; also at /failover-list",
            {"200": json_reply("the brokers", ref("FailoverList"))}, login=False,
        ),
    },
    "/mirrors": {
        "get": operation(
            "list_mirrors", "The status of this broker's mirrors; none where the journal is not shared",
            {"200": json_reply("mirrors", ref("MirrorsPage"))}, 503,
        ),
    },
    "/mirrors/{name}": {
        "get": operation(
            "get_mirrors", "The status of a broker's mirrors",
            {"200": json_reply("mirrors", ref("Mirrors"))}, 404, 503, parameters=[_NAME],
        ),
    },
    "/mirrors/{name}/switchover": {
        "post": operation(
            "switch_over", "Have another broker take over without loss; the active one becomes a standby",
            {
                "200": json_reply("what a dry run found", ref("SwitchoverAnswer")),
                "202": json_reply("it has begun", ref("SwitchoverAnswer")),
            },
            404, 408, 409, 413, 415, 503, parameters=[_NAME], body=json_body("Switchover", required=False),
        ),
    },
    "/mirrors/{name}/takeover": {
        "post": operation(
            "take_over", "At a standby: take the journal over by force. Non-persistent messages are lost",
            {
                "200": json_reply("what a dry run found", ref("ForcedTakeoverAnswer")),
                "202": json_reply("it has begun", ref("ForcedTakeoverAnswer")),
            },
            404, 408, 409, 413, 415, 503, parameters=[_NAME], body=json_body("ForcedTakeover"),
        ),
    },
    "/mirrors/{name}/pause": {
        "post": operation(
            "pause_takeovers", "Have no standby take over by itself until the pause ends, as for maintenance",
            {"200": json_reply("the pause", ref("MirrorPauseAnswer"))},
            404, 408, 413, 415, 503, parameters=[_NAME], body=json_body("MirrorPauseOrder"),
        ),
    },
    "/mirrors/{name}/resume": {
        "post": operation(
            "resume_takeovers", "Have standbys take over again",
            {"200": json_reply("no pause", ref("MirrorPauseAnswer"))}, 404, 503, parameters=[_NAME],
        ),
    },
    "/mirrors/{name}/drill": {
        "post": operation(
            "drill_takeover", "At a standby: try all that a takeover needs, but the lease; nothing changes",
            {"200": json_reply("each check", ref("MirrorDrill"))}, 404, 409, parameters=[_NAME],
        ),
    },
}  # fmt: skip
