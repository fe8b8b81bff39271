"""Changes of the cluster in the event log."""

from __future__ import annotations

from broker_app.base.events import CLUSTER
from broker_app.features.cluster.report import ClusterReport
from broker_app.node.features.cluster_notices import ClusterNotices
from broker_app.telemetry.event_log import EventLog
from tests.support.clusters import a_report


class Noted:
    """The events of a cluster whose reports the test makes."""

    def __init__(self) -> None:
        self.events = EventLog(lambda: 1_750_000_000.0)
        self.report: ClusterReport = a_report(keeper="b3:7676")
        self.notices = ClusterNotices(self.events, lambda: self.report)

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
