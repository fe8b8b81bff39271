"""Changes of the cluster in the event log."""

from __future__ import annotations

from broker_app.features.cluster.report import ClusterReport
from broker_app.node.cluster_notices import ClusterNotices
from broker_app.telemetry.event_log import CLUSTER, EventLog
from tests.support.clusters import a_link, a_report


class Noted:
    """The events of a cluster whose reports the test makes."""

    def __init__(self) -> None:
        self.events = EventLog(lambda: 1_750_000_000.0)
        self._report: ClusterReport | None = None
        self._notices = ClusterNotices(lambda: self._report, self.events)

    def after(self, report: ClusterReport) -> list[tuple[str, str, str, str]]:
        """(name, event, code, detail) of what was noted."""
        before = self.events.total
        self._report = report
        self._notices.each_second()
        noted = self.events.all()[: self.events.total - before][::-1]
        assert {one.kind for one in noted} <= {CLUSTER}
        return [(one.name, one.event, one.code, one.detail) for one in noted]


def test_a_link_that_comes_goes_and_is_refused_is_in_the_event_log_with_its_reason() -> None:
    noted = Noted()
    connecting = a_link(state="connecting", reason="", since=1.0)
    assert noted.after(a_report(connecting)) == [], "it has not been there yet"
    assert noted.after(a_report(a_link(since=2.0))) == [("b2", "link up", "", "at b2.example:7676")]
    assert noted.after(a_report(a_link(since=2.0, sent=9))) == []
    lost = a_link(state="connecting", reason="the connection was reset", since=3.0)
    assert noted.after(a_report(lost)) == [("b2", "link down", "LINK_DOWN", "the connection was reset")]
    tried = a_link(state="connecting", reason="no route to host", since=3.0)
    assert noted.after(a_report(tried)) == [], "each attempt is not an event"
    refused = a_link(state="refused", reason="autocreate.queue differs", since=4.0)
    assert noted.after(a_report(refused)) == [
        ("b2", "link refused", "LINK_REFUSED", "autocreate.queue differs")
    ]
    assert noted.after(a_report(a_link(since=5.0))) == [("b2", "link up", "", "at b2.example:7676")]
    assert noted.after(a_report(a_link(state="stopped", reason="it restarts", since=6.0))) == [
        ("b2", "link stopped", "", "it restarts")
    ]
    assert noted.after(a_report()) == []


def test_a_link_that_was_lost_and_is_back_between_two_looks_is_noted() -> None:
    noted = Noted()
    noted.after(a_report(a_link(since=2.0)))
    assert noted.after(a_report(a_link(since=9.0))) == [("b2", "link up", "", "at b2.example:7676")]


def test_a_keeper_that_goes_and_comes_back_is_in_the_event_log() -> None:
    noted = Noted()
    assert noted.after(a_report(keeper="b3:7676")) == []
    away = a_report(keeper="b3:7676", keeper_state="the keeper b3:7676 cannot be reached")
    assert noted.after(away) == [
        ("b3:7676", "keeper away", "KEEPER_AWAY", "the keeper b3:7676 cannot be reached")
    ]
    assert noted.after(away) == []
    assert noted.after(a_report(keeper="b3:7676")) == [("b3:7676", "keeper back", "", "")]
