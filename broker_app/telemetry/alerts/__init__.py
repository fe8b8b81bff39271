"""Alerts: what needs somebody's attention, by rules that hold from the start and can be changed.

`rule` says what is looked for, `symptoms` looks, `watch` decides what fires and what becomes of it, `duty`
runs that in a node, `telling` finds the words.
"""

from broker_app.telemetry.alerts.alert import ACKNOWLEDGED, ENDED, FIRING, SILENCED, Alert
from broker_app.telemetry.alerts.alert_state import Told, Watch
from broker_app.telemetry.alerts.conditions import Symptom, Symptoms
from broker_app.telemetry.alerts.evaluator import Duty
from broker_app.telemetry.alerts.rule import DEFAULT_RULES, AlertRule

__all__ = [
    "ACKNOWLEDGED",
    "DEFAULT_RULES",
    "ENDED",
    "FIRING",
    "SILENCED",
    "Alert",
    "AlertRule",
    "Duty",
    "Symptom",
    "Symptoms",
    "Told",
    "Watch",
]
