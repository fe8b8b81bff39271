"""The status of callbacks with their health, for REST, pages and system topics."""

from __future__ import annotations

from broker_app.features.callbacks.webhooks.report import CallbackReport
from broker_app.telemetry.component_health import CALLBACK, Health, health_of


class CallbackStatus(CallbackReport):
    """The state of a callback with its health."""

    health: Health


def status(report: CallbackReport) -> CallbackStatus:
    """A callback with its health."""
    return {**report, "health": health_of(CALLBACK, report)}
