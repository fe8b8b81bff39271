"""Reports about a cluster, as the brokers of tests see it."""

from __future__ import annotations

from typing import Any

from broker_app.features.cluster.report import ClusterReport, InterestReport, LinkReport


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


def a_report(*links: LinkReport, **facts: Any) -> ClusterReport:
    """The cluster as b1 sees it."""
    return ClusterReport(**{"broker": "b1", "address": "b1.example:7676", "links": list(links), **facts})
