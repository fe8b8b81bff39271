"""Changes of the cluster in the event log."""

from __future__ import annotations

import msgspec

from broker_app.base.events import CLUSTER
from broker_app.features.cluster.report import ClusterReport, MemberReport, SuspicionReport
from broker_app.node.features.cluster_notices import ClusterNotices
from broker_app.telemetry.event_log import EventLog
from tests.support.clusters import a_report


class Noted:
    """The events of a cluster whose reports the test makes."""

    def __init__(self) -> None:
        #: seconds since 1970
        self.now = 1_750_000_000.0
        self.events = EventLog(lambda: self.now)
        self.report: ClusterReport = a_report(keeper="b3:7676")
        self.notices = ClusterNotices(self.events, lambda: self.report, lambda: self.now)

    def all(self) -> list[tuple[str, str, str, str]]:
        """(name, event, code, detail) of each, the oldest first."""
        noted = self.events.all()[::-1]
        assert {one.kind for one in noted} <= {CLUSTER}
        return [(one.name, one.event, one.code, one.detail) for one in noted]


def test_links_that_come_go_and_are_refused_are_in_the_event_log_with_the_reason() -> None:
    noted = Noted()
    noted.notices.link("up", "b2", "")
    noted.notices.link("down", "b2", "the connection was reset")
    noted.notices.link("refused", "b3", "autocreate.queue differs")
    assert noted.all() == [
        ("b2", "link up", "", ""),
        ("b2", "link down", "LINK_DOWN", "the connection was reset"),
        ("b3", "link refused", "LINK_REFUSED", "autocreate.queue differs"),
    ]


def test_a_keeper_that_goes_and_comes_back_is_in_the_event_log_once() -> None:
    noted = Noted()
    here, away = noted.report, a_report(keeper="b3:7676", keeper_state="it cannot be reached")
    for report in (here, away, away, here, here):
        noted.report = report
        noted.notices.check_keeper()
    assert noted.all() == [
        ("b3:7676", "keeper away", "KEEPER_AWAY", "it cannot be reached"),
        ("b3:7676", "keeper back", "", ""),
    ]


def test_a_member_that_is_suspect_is_in_the_event_log_with_what_becomes_of_it() -> None:
    noted = Noted()
    found = SuspicionReport(since=1_750_000_000.0, looks=0, by=["b1", "b4"])
    well = MemberReport(broker="b2", address="b2:7676", state="OPERATING", messages=1)
    suspect = msgspec.structs.replace(well, state="UNKNOWN", why="no heart-beat for 2.1 s", suspicion=found)
    later = msgspec.structs.replace(suspect, suspicion=msgspec.structs.replace(found, looks=1))
    other = msgspec.structs.replace(suspect, broker="b3")
    taken = msgspec.structs.replace(well, broker="b3", state="TAKEOVER_COMPLETE", taken_by="b1")
    for members in ([well], [suspect, other], [later, other], [well, other], [well, taken], [well, taken]):
        noted.notices.check_members(members)
        noted.now += 1.0
    assert noted.all() == [
        ("b2", "suspect", "MEMBER_SUSPECT", "suspected by b1, b4: no heart-beat for 2.1 s"),
        ("b3", "suspect", "MEMBER_SUSPECT", "suspected by b1, b4: no heart-beat for 2.1 s"),
        ("b2", "suspect no longer", "", "after 3.0 s: it sends heart-beats again"),
        ("b3", "suspect no longer", "", "after 4.0 s: b1 has taken it over"),
    ]
