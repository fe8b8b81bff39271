"""Roles: what a user may do whatever the rules are. Users without a role may do what rules allow.

An administrator may do everything. A monitor sees what an administrator sees and changes nothing: rules that
allow more do not apply to it. Every interface takes the role, its rights and its refusal from here.
"""

from __future__ import annotations

from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.destination import TOPIC, Destination
from broker_app.net.policy.system_topics import is_of_broker
from broker_app.rules.event import BROWSE, READ, RECEIVE

MONITOR: Final = "monitor"
#: the rights of a monitor to every destination
MONITOR_RIGHTS: Final = (BROWSE, READ)
#: why a monitor is refused what changes something
MONITOR_SENTENCE: Final = "the role monitor sees everything and changes nothing"
#: the methods of HTTP that change nothing, whatever they are asked of
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def monitor_may(right: str, destination: Destination) -> bool:
    """Return True if a monitor has a right to a destination: to look into each, and to receive what the
    broker itself publishes. To receive anything else takes it from others, or makes others wait for it."""
    if right == RECEIVE:
        return destination.kind == TOPIC and is_of_broker(destination)
    return right in MONITOR_RIGHTS


def monitor_refusal(user: str, what: str = "do this") -> Refused:
    """The refusal of a change that a monitor asks for."""
    return Refused("not-allowed", f"{user} may not {what}: {MONITOR_SENTENCE}", role=MONITOR)
