"""The system topic of the cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from broker_app.features.cluster.report import MemberReport
from broker_app.features.cluster.status import status
from tests.support.clusters import a_link, a_report, a_takeover, an_enhanced_cluster
from tests.telemetry.test_system_topics import Heard, bodies, events

TOPIC = "$mom.cluster.b1"


def cluster(sent: int = 1, **facts: Any) -> dict[str, Any]:
    return dict(status(a_report(a_link("b2", sent=sent, **facts))))


def test_the_cluster_is_published_when_a_link_changes_and_its_figures_every_five_seconds() -> None:
    stage = Heard()
    listener = stage.listener("$mom.cluster.>")
    stage.cluster = cluster()
    stage.second()
    ((topic, type_, data),) = events(listener)
    assert (topic, type_, data) == (TOPIC, "mom.cluster", cluster())
    for sent in range(2, 6):
        stage.cluster = cluster(sent)
        stage.second()
    assert events(listener) == [], "figures alone wait"
    stage.second()
    assert [data["links"][0]["sent"] for _, _, data in events(listener)] == [5]
    stage.cluster = cluster(5, state="connecting", reason="no route to host")
    stage.second()
    assert [data for _, _, data in events(listener)] == [stage.cluster], "a new state does not wait"


def test_a_member_that_becomes_suspect_and_one_that_is_taken_over_are_published_at_once() -> None:
    stage = Heard()
    listener = stage.listener("$mom.cluster.>")

    def shown(**facts: Any) -> list[str]:
        stage.cluster = dict(status(a_report(enhanced=an_enhanced_cluster(**facts))))
        stage.second()
        return [topic for topic, _, _ in events(listener)]

    well = [MemberReport(broker="b2", address="b2:7676", state="OPERATING", messages=1, seen_s=0.4)]
    suspect = [msgspec.structs.replace(well[0], state="UNKNOWN", seen_s=2.1)]
    still = [msgspec.structs.replace(suspect[0], seen_s=3.1)]
    assert shown(members=well, takeovers=[]) == [TOPIC]
    assert shown(members=suspect, takeovers=[]) == [TOPIC]
    assert shown(members=still, takeovers=[]) == [], "figures alone wait"
    assert shown(members=still, takeovers=[a_takeover(result="running")]) == [TOPIC]
    assert shown(members=still, takeovers=[a_takeover()]) == [TOPIC]


def test_a_new_subscriber_receives_the_cluster_at_once_if_there_is_one() -> None:
    stage = Heard()
    assert bodies(stage.listener(TOPIC, snapshot=True)) == []
    stage.cluster = cluster()
    ((topic, body),) = bodies(stage.listener(TOPIC, snapshot=True))
    assert (topic, body["type"], body["data"]["items"]) == (TOPIC, "mom.cluster.b1.snapshot", [cluster()])
