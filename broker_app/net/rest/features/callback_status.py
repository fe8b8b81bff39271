"""The status of callbacks with their health, for REST, pages and system topics."""

from __future__ import annotations

from typing import Annotated

from broker_app.base.reply_types import about, one_of
from broker_app.features.callbacks.webhooks.report import CallbackReport
from broker_app.telemetry.component_health import CALLBACK, HEALTH, health_of


class CallbackStatus(CallbackReport):
    """The state of a callback with its health."""

    health: Annotated[str, one_of(HEALTH), about("whether it works; `state` is what it does at present")]


def status(report: CallbackReport) -> CallbackStatus:
    """A callback with its health."""
    return {**report, "health": health_of(CALLBACK, report)}
