"""The health of components with labels and signs for pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from broker_app.telemetry.component_health import DEGRADED, FAILING, OFF, PAUSED, RUNNING, STALLED
from broker_app.web.console.forwarding.bridge_status import State

_LABELS: Final = {
    RUNNING: State(_("running"), "●", "good"),
    DEGRADED: State(_("degraded"), "▲", "warn"),
    STALLED: State(_("stalled"), "▲", "bad"),
    FAILING: State(_("failing"), "■", "bad"),
    PAUSED: State(_("paused"), "‖", "quiet"),
    OFF: State(_("off"), "‖", "quiet"),
}


def shown_state(row: Mapping[str, Any], states: Mapping[str, State]) -> State:
    """The label of a component's state; of one that runs, of its health: green only if it works."""
    return _LABELS[row["health"]] if row["state"] == RUNNING else states[row["state"]]
