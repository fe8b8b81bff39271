"""Events of the links of a cluster, and of its keeper, for the event log."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from broker_app.base.events import KEEPER_AWAY, KEEPER_BACK, LINK_DOWN, LINK_REFUSED, LINK_UP
from broker_app.features.cluster.report import ClusterReport
from broker_app.telemetry.event_log import EventLog

#: by what happens to a link (`Cluster.listeners`)
_LINK: Final = MappingProxyType({"up": LINK_UP, "down": LINK_DOWN, "refused": LINK_REFUSED})


class ClusterNotices:
    """Writes into `events`. `read` returns the report about the cluster."""

    def __init__(self, events: EventLog, read: Callable[[], ClusterReport]) -> None:
        self._events = events
        self._read = read
        self._keeper_state = ""

    def link(self, change: str, broker: str, reason: str) -> None:
        """Note that the link to another broker is up, down or refused."""
        self._events.report(_LINK[change], broker, detail=reason)

    def check_keeper(self) -> None:
        """Note that the keeper is away, or back. Called each second."""
        report = self._read()
        before, self._keeper_state = self._keeper_state, report.keeper_state
        if self._keeper_state and not before:
            self._events.report(KEEPER_AWAY, report.keeper, detail=report.keeper_state)
        elif before and not self._keeper_state:
            self._events.report(KEEPER_BACK, report.keeper)
