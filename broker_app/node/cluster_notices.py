"""Changes of the links of a cluster, and of its keeper, for the event log."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.features.cluster.report import ClusterReport, LinkReport
from broker_app.telemetry.event_log import CLUSTER, EventLog

#: codes of events
DOWN, REFUSED, AWAY = "LINK_DOWN", "LINK_REFUSED", "KEEPER_AWAY"
_UP = "up"


class ClusterNotices:
    """Compares what `read` returns with the report before, and writes into `events` what has changed."""

    def __init__(self, read: Callable[[], ClusterReport | None], events: EventLog) -> None:
        self._read = read
        self._events = events
        self._links: dict[str, LinkReport] = {}
        self._is_away = False

    def each_second(self) -> None:
        """Note what has changed in the last second."""
        report = self._read()
        if report is None:
            return
        before, self._links = self._links, {link.broker: link for link in report.links}
        for link in report.links:
            self._note(link, before.get(link.broker))
        is_away, self._is_away = self._is_away, bool(report.keeper_state)
        if self._is_away and not is_away:
            self._events.note(CLUSTER, report.keeper, "keeper away", code=AWAY, detail=report.keeper_state)
        elif is_away and not self._is_away:
            self._events.note(CLUSTER, report.keeper, "keeper back")

    def _note(self, link: LinkReport, before: LinkReport | None) -> None:
        state = before.state if before is not None else ""
        name, reason = link.broker, link.reason
        if link.state == _UP:
            if before is None or state != _UP or before.since != link.since:
                self._events.note(CLUSTER, name, "link up", detail=f"at {link.address}")
        elif link.state == state:
            pass  # it is tried again and again
        elif link.state == "refused":
            self._events.note(CLUSTER, name, "link refused", code=REFUSED, detail=reason)
        elif link.state == "stopped":
            self._events.note(CLUSTER, name, "link stopped", detail=reason)
        elif state == _UP:
            self._events.note(CLUSTER, name, "link down", code=DOWN, detail=reason)
