"""The report about a cluster as plain data, for the API, `$mom.cluster.<broker>`, alerts and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.base.times import rfc3339
from broker_app.core.destination import TOPIC, parse
from broker_app.core.topics.topic import matches
from broker_app.features.cluster.report import (
    ClusterReport,
    EnhancedReport,
    InterestReport,
    LinkReport,
    MemberReport,
    TakeoverReport,
)
from broker_app.telemetry.component_health import LINK, health_of

#: the command that makes a cluster of three brokers, at the first of them
HOW_TO_MAKE_ONE: Final = "mom up --name b1 --cluster-port 7676 --cluster b1host:7676,b2host:7676,b3host:7676"


def no_cluster() -> Refused:
    """The answer of a broker in no cluster to questions about it."""
    return Refused(
        "not-found",
        f"this broker is in no cluster; start it as one of several, such as `{HOW_TO_MAKE_ONE}`, "
        "with the same MOM_CLUSTER_SECRET at each",
    )


def status(report: ClusterReport) -> Facts:
    """The cluster without its consumers, which may be many."""
    facts = {name: getattr(report, name) for name in ClusterReport.__struct_fields__}
    del facts["interest"]
    adopted: list[Facts] = msgspec.to_builtins(report.adopted)
    return {
        **facts,
        "adopted": adopted,
        "enhanced": _status_of_enhanced(report.enhanced),
        "discovery": msgspec.to_builtins(report.discovery),
        "links": list(status_of_links(report)),
    }


def _status_of_enhanced(report: EnhancedReport | None) -> Facts | None:
    if report is None:
        return None
    members = [_status_of_member(member) for member in report.members]
    takeovers = [status_of_takeover(takeover) for takeover in report.takeovers]
    return {**msgspec.to_builtins(report), "members": members, "takeovers": takeovers}


def _status_of_member(member: MemberReport) -> Facts:
    facts: Facts = msgspec.to_builtins(member)
    suspicion = member.suspicion
    if suspicion is None:
        return facts
    return {**facts, "suspicion": {**facts["suspicion"], "since": rfc3339(suspicion.since)}}


def status_of_takeover(takeover: TakeoverReport) -> Facts:
    """One takeover, with times as everywhere."""
    facts: Facts = msgspec.to_builtins(takeover)
    suspected = rfc3339(takeover.suspected) if takeover.suspected is not None else None
    return {**facts, "began": rfc3339(takeover.began), "suspected": suspected}


def status_of_links(report: ClusterReport) -> Iterator[Facts]:
    """The links, each with its health."""
    takers = report.takers()
    return (status_of_link(link, takers.get(link.broker, "")) for link in report.links)


def status_of_link(link: LinkReport, taken_by: str) -> Facts:
    """One link with its health, and with times as everywhere; the other broker is away, and `taken_by` serves
    its messages, if that is not empty."""
    facts: Facts = {**msgspec.to_builtins(link), "taken_by": taken_by}
    trip_ms = link.round_trip_ms
    return {
        **facts,
        "health": health_of(LINK, facts),
        "since": rfc3339(link.since) if link.since else None,
        "sent_rate": round(link.sent_rate, 1),
        "received_rate": round(link.received_rate, 1),
        "round_trip_ms": round(trip_ms, 3) if trip_ms is not None else None,
    }


def consumers_of(report: ClusterReport, address: str) -> Iterator[InterestReport]:
    """The consumers of all brokers that receive what is sent to `address`. Raises Refused for an address that
    is none."""
    destination = parse(address)
    for interest in report.interest:
        if interest.address == destination.address or (
            destination.kind == TOPIC and _receives(interest.address, destination.name)
        ):
            yield interest


def _receives(filter_address: str, topic: str) -> bool:
    kind, _, pattern = filter_address.removeprefix("/").partition("/")
    return kind == TOPIC and matches(pattern, topic)
