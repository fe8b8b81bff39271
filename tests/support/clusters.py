"""Reports about a cluster, as the brokers of tests see it."""

from __future__ import annotations

from typing import Any

from broker_app.features.cluster.report import (
    ClusterReport,
    EnhancedReport,
    InterestReport,
    LinkReport,
    MemberReport,
    SuspicionReport,
    TakeoverReport,
)


def a_link(broker: str = "b2", **facts: Any) -> LinkReport:
    """A link that is up, unless `facts` have another state."""
    return LinkReport(
        **{
            "broker": broker, "address": f"{broker}.example:7676", "state": "up", "since": 1_750_000_000.0,
            "version": "0.1.0", "sent": 120, "received": 30, "returned": 2, "sent_rate": 12.0,
            "received_rate": 3.0, "unsettled_there": 4, "unsettled_here": 1, "round_trip_ms": 0.8,
            "stomp": f"stomp://{broker}.example:61613", "web": f"http://{broker}.example:8000", **facts,
        }
    )  # fmt: skip


def an_interest(broker: str, address: str, **facts: Any) -> InterestReport:
    """One consumer with credit 100, unless `facts` have other numbers."""
    return InterestReport(broker=broker, address=address, **{"consumers": 1, "credit": 100, **facts})


def an_enhanced_cluster(**facts: Any) -> EnhancedReport:
    """The report on members b1, b2 and b3, of which b1 has taken over b3, unless `facts` say otherwise."""
    members = [
        MemberReport(broker="b1", address="b1:7676", state="OPERATING", messages=3, seen_s=0.4),
        MemberReport(
            broker="b2",
            address="b2:7676",
            state="UNKNOWN",
            messages=5,
            seen_s=2.5,
            why="no heart-beat for 2.5 s; looks at it that found none: 1",
            suspicion=SuspicionReport(since=1_750_000_003.5, looks=1, by=["b1", "b3"]),
        ),
        MemberReport(
            broker="b3",
            address="",
            state="TAKEOVER_COMPLETE",
            messages=17,
            taken_by="b1",
            why="",
        ),
    ]
    return EnhancedReport(
        **{
            "cluster_id": "shop", "heartbeat_s": 1.0, "heartbeat_threshold": 2, "monitor_s": 0.5,
            "monitor_threshold": 2, "lease_s": 3.0, "worst_case_s": 4.0, "members": members,
            "takeovers": [a_takeover()], **facts,
        }
    )  # fmt: skip


def a_takeover(**facts: Any) -> TakeoverReport:
    """That of b3 by b1, unless `facts` say otherwise."""
    return TakeoverReport(
        **{
            "member": "b3", "journal": "shop.b3", "taker": "b1", "epoch": 7, "began": 1_750_000_003.0,
            "suspected": 1_750_000_000.0, "took_s": 0.25, "messages": 17, "result": "complete",
            "why": "no heart-beat of b3 for 3.1 s, and none in 2 looks at it", "lost": "nothing",
            "lost_messages": 0, **facts,
        }
    )  # fmt: skip


def a_report(*links: LinkReport, **facts: Any) -> ClusterReport:
    """The cluster as b1 sees it."""
    return ClusterReport(**{"broker": "b1", "address": "b1.example:7676", "links": list(links), **facts})
