"""The badge of a component on pages: its health, with an icon and a tone, and its state in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.utils.translation import gettext_lazy as _

from broker_app.telemetry.component_health import DEGRADED, FAILING, OFF, PAUSED, RUNNING, STALLED

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


class State(NamedTuple):
    """A state with an icon, so that it does not depend on colour."""

    word: StrPromise | str
    icon: str
    tone: str
    detail: StrPromise | str = ""


#: by health of a component
HEALTH_BADGES: Final = {
    RUNNING: State(_("running"), "circle-check", "good"),
    DEGRADED: State(_("degraded"), "triangle-alert", "warn"),
    STALLED: State(_("stalled"), "hourglass", "bad"),
    FAILING: State(_("failing"), "circle-x", "bad"),
    PAUSED: State(_("paused"), "circle-pause", "quiet"),
    OFF: State(_("off"), "circle-off", "quiet"),
}


def health_badge(row: Mapping[str, Any], states: Mapping[str, StrPromise]) -> State:
    """The badge of a component of any kind: green only if it works. `states` has the states that say more
    than the health."""
    return HEALTH_BADGES[row["health"]]._replace(detail=states.get(row["state"], ""))
