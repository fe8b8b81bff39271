"""Alerts, acknowledged and silenced."""

from __future__ import annotations

from broker_app.base.states import ALERT
from broker_app.features.notifications.target import LONGEST, MOST_TARGETS
from broker_app.features.notifications.target_tests import TargetTest
from broker_app.net.rest.node.alerts import MAX_REASON, MAX_SILENT_S
from broker_app.net.rest.openapi.operations import AFTER, in_path, json_body, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    PAGING,
    TEXT,
    Json,
    array_of,
    number,
    object_of,
    of_types,
    ref,
    request_of,
    whole,
)
from broker_app.telemetry.alerts.texts import AlertStatus

_REASON: Json = {"type": "string", "maxLength": MAX_REASON, "default": ""}
_ID = in_path("id", "id of the alert")

SCHEMAS: Json = {
    "Alert": of_types(AlertStatus)["AlertStatus"],
    **of_types(TargetTest),
    "NotificationTests": object_of({"items": array_of(ref("TargetTest"))}),
    "NotificationTestTargets": object_of(
        {
            "targets": {
                **array_of({"type": "string", "maxLength": LONGEST}, MOST_TARGETS),
                "default": [],
                "description": "queue:NAME, https://HOST/PATH, mailto:ADDRESS; none: those of alert_notify",
            }
        },
        required=(),
    ),
    "AlertsPage": object_of({"items": array_of(ref("Alert")), **PAGING}),
    "AlertAcknowledgement": object_of({"reason": _REASON}, required=()),
    "AlertSilence": request_of(
        {
            "for_s": {
                **number(0, MAX_SILENT_S),
                "description": "0 ends a silence or an acknowledgement",
            },
            "reason": _REASON,
        },
        required=("for_s",),
    ),
}

PATHS: Json = {
    "/alerts": {
        "get": operation(
            "list_alerts", "Alerts that are open, the worst first; then those that ended, the newest first",
            {"200": json_reply("alerts", ref("AlertsPage"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "most alerts of a page"),
                AFTER,
                parameter("state", TEXT, f"only of these: {', '.join(ALERT)}, separated by commas"),
            ],
        ),
    },
    "/alerts/test": {
        "post": operation(
            "test_notification", "Send a notification to targets now, once, and show what each answers",
            {"200": json_reply("what came of it", ref("NotificationTests"))}, 408, 409, 413, 415, 503,
            body=json_body("NotificationTestTargets", required=False),
        ),
    },
    "/alerts/{id}/acknowledge": {
        "post": operation(
            "acknowledge_alert", "Acknowledge an alert; there are no further notifications until it ends",
            {"200": json_reply("the alert", ref("Alert"))}, 404, 408, 409, 413, 415,
            parameters=[_ID], body=json_body("AlertAcknowledgement", required=False),
        ),
    },
    "/alerts/{id}/silence": {
        "post": operation(
            "silence_alert", "Silence an alert, and later ones of its rule and subject, for a while",
            {"200": json_reply("the alert", ref("Alert"))}, 404, 408, 409, 413, 415,
            parameters=[_ID], body=json_body("AlertSilence"),
        ),
    },
}  # fmt: skip
