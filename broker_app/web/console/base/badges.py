"""The badges of states on pages: what `base.states` has of each, in the language of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as translated

from broker_app.base.states import HEALTH, Family, State
from broker_app.telemetry.component_health import PAUSED

#: states that say no more than the health of a component
_PLAIN: Final = ("running", "paused", "failed")


class Badge(NamedTuple):
    """A word with an icon and a tone, and what it may be followed by."""

    word: str
    icon: str
    tone: str
    detail: str = ""


def badge(state: State) -> Badge:
    """The badge of a state."""
    return Badge(translated(state.label), state.sign.icon, state.sign.tone)


def health_badge(row: Mapping[str, Any], family: Family) -> Badge:
    """The badge of a component of any kind: green only if it works, with its state where that says more."""
    found = badge(HEALTH[row["health"]])
    if row["health"] == PAUSED or row["state"] in _PLAIN:
        return found
    return found._replace(detail=translated(family[row["state"]].label))
