"""Events of the links of a cluster, of its keeper and its members, for the event log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from broker_app.base.events import (
    KEEPER_AWAY,
    KEEPER_BACK,
    LINK_DOWN,
    LINK_REFUSED,
    LINK_UP,
    MEMBER_SUSPECT,
    NOT_SUSPECT,
)
from broker_app.features.cluster.report import ClusterReport, MemberReport, SuspicionReport
from broker_app.telemetry.event_log import EventLog

#: by what happens to a link (`Cluster.listeners`)
_LINK: Final = MappingProxyType({"up": LINK_UP, "down": LINK_DOWN, "refused": LINK_REFUSED})


class ClusterNotices:
    """Writes into `events`. `read` returns the report about the cluster; `clock` is in seconds since 1970."""

    def __init__(
        self, events: EventLog, read: Callable[[], ClusterReport], clock: Callable[[], float] = time.time
    ) -> None:
        self._events = events
        self._read = read
        self._clock = clock
        self._keeper_state = ""
        #: of the members that are suspect
        self._suspicions: dict[str, SuspicionReport] = {}

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

    def check_members(self, members: Sequence[MemberReport]) -> None:
        """Note which members of an enhanced cluster are suspect, and which are no longer. Called each
        second."""
        before, self._suspicions = self._suspicions, {}
        for member in members:
            found, known = member.suspicion, before.get(member.broker)
            if found is not None:
                self._suspicions[member.broker] = found
                if known is None:
                    self._events.report(
                        MEMBER_SUSPECT, member.broker, detail=member.why, by=", ".join(found.by)
                    )
            elif known is not None:
                suspect_s = self._clock() - known.since
                self._events.report(NOT_SUSPECT, member.broker, detail=_end(member), suspect_s=suspect_s)


def _end(member: MemberReport) -> str:
    """The reason why a member is suspect no longer."""
    if member.taken_by:
        return f"{member.taken_by} has taken it over"
    return member.why or "it sends heart-beats again"
