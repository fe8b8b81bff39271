"""Alerts: conditions that need an operator's attention, by rules that are built in and can be changed.

`conditions` has all of them, `checks` finds where they hold, `alert_state` decides which fire and end,
`evaluator` runs that in a node, `texts` has the sentences.
"""

from broker_app.telemetry.alerts.alert import ACKNOWLEDGED, ENDED, FIRING, SILENCED, Alert
from broker_app.telemetry.alerts.alert_state import AlertEvent, AlertState
from broker_app.telemetry.alerts.checks import ConditionChecks
from broker_app.telemetry.alerts.condition import Violation
from broker_app.telemetry.alerts.evaluator import AlertEvaluator
from broker_app.telemetry.alerts.rule import DEFAULT_RULES, AlertRule

__all__ = [
    "ACKNOWLEDGED",
    "DEFAULT_RULES",
    "ENDED",
    "FIRING",
    "SILENCED",
    "Alert",
    "AlertEvaluator",
    "AlertEvent",
    "AlertRule",
    "AlertState",
    "ConditionChecks",
    "Violation",
]
