"""The alerts of a node that has none, for nodes of tests that only answer."""

from types import SimpleNamespace

from broker_app.telemetry.alerts.alert_state import AlertState

NO_ALERTS = SimpleNamespace(state=AlertState())
