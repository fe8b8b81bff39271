"""The cluster for its page, with labels and signs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations, states
from broker_app.core.destination import QUEUE, TOPIC
from broker_app.features.cluster.clients.client_reports import ListsReport, RebalanceReport
from broker_app.features.cluster.report import (
    ADOPTED_MARK,
    ClusterReport,
    EnhancedReport,
    FoundBy,
    InterestReport,
    LinkReport,
    MemberState,
    SuspicionReport,
    TakeoverReport,
)
from broker_app.features.cluster.status import status_of_link
from broker_app.telemetry.system_topics import WILDCARDS
from broker_app.web.console.base.badges import Badge, badge
from broker_app.web.console.base.shown import Shown
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

NO_NODE: Final = _("This process only serves the console and does not know the cluster of the broker.")
#: how brokers were found
FOUND: Final[dict[FoundBy, StrPromise]] = {
    "static": _("named in the settings"),
    "multicast": _("found by multicast"),
    "registry": _("found in the registry"),
    "broker": _("named by a broker"),
}
_SHOWN_TAKEOVERS: Final = 20
#: states of members that may be gone for good
_GONE: Final[tuple[MemberState, ...]] = ("BROKER_DOWN", "TAKEOVER_COMPLETE", "TAKEOVER_FAILED")


def report_of(request: HttpRequest) -> tuple[ClusterReport | None, StrPromise | str]:
    """The report, None for a broker in no cluster; or the reason why it is unknown."""
    return answer_of(request, lambda node: node.operations.cluster_report(), NO_NODE)


def clients_of(request: HttpRequest) -> tuple[ListsReport, RebalanceReport] | None:
    """The lists that clients are sent, and what a rebalancing would do; None if that is not known."""
    return answer_of(request, lambda node: node.operations.cluster_clients(), NO_NODE)[0]


def state_of(link: LinkReport) -> Badge:
    """The state of a link with its sign."""
    return badge(states.LINK[link.state])


def shown(report: ClusterReport) -> Shown:
    """The cluster for a template, without its consumers."""
    links = report.expected_links()
    others = [link for link in links if ADOPTED_MARK not in link.broker]
    up = [link for link in links if link.state == "up"]
    return {
        "broker": report.broker,
        "address": report.address,
        "keeper": report.keeper,
        "keeper_is_here": report.keeper_is_here,
        "keeper_state": report.keeper_state,
        "record_entries": report.record_entries,
        "quiesced": report.quiesced,
        "undiscovered": [one for one in report.discovery if one.error],
        "adopted": report.adopted,
        "enhanced": _enhanced(report.enhanced) if report.enhanced is not None else None,
        "links": [_link(link) for link in links],
        "others": len(others),
        "up": sum(link.state == "up" for link in others),
        "refused": [link for link in report.links if link.state == "refused"],
        "sent_rate": sum(link.sent_rate for link in up),
        "received_rate": sum(link.received_rate for link in up),
        "unsettled": sum(link.unsettled_there + link.unsettled_here for link in up),
    }


def _enhanced(report: EnhancedReport) -> Shown:
    """The members with their states, and the newest takeovers."""
    members = [
        {
            "one": member,
            "state": badge(states.MEMBER[member.state]),
            "ago": durations.in_words(member.seen_s),
            "is_gone": member.state in _GONE,
            "suspicion": _suspicion(member.suspicion) if member.suspicion is not None else None,
        }
        for member in report.members
    ]
    takeovers = [_takeover(takeover) for takeover in report.takeovers[:_SHOWN_TAKEOVERS]]
    return {"report": report, "members": members, "takeovers": takeovers}


def _suspicion(suspicion: SuspicionReport) -> Shown:
    return {
        "since": _time(suspicion.since),
        "looks": suspicion.looks,
        "by": ", ".join(suspicion.by),
    }


def _takeover(takeover: TakeoverReport) -> Shown:
    suspected = takeover.suspected
    return {
        "one": takeover,
        "state": badge(states.TAKEOVER[takeover.result]),
        "began": _time(takeover.began),
        "took": f"{takeover.took_s:.2f} s",
        "suspected": _time(suspected) if suspected is not None else None,
        "suspected_for": durations.in_words(takeover.began - suspected) if suspected is not None else "",
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _link(link: LinkReport) -> Shown:
    facts = status_of_link(link, taken_by="")
    return {
        **facts,
        "member": link.broker.partition(ADOPTED_MARK)[0] if ADOPTED_MARK in link.broker else "",
        "state": state_of(link),
        "found": FOUND[link.found_by],
        "is_up": link.state == "up",
        "for": durations.since(facts["since"]),
    }


def words(one: InterestReport) -> str:
    """The text that a filter is compared with."""
    return f"{one.address} {one.broker} {one.selector}".casefold()


def shown_consumers(one: InterestReport) -> Shown:
    """Consumers of one broker for a template, with the name of the queue or topic that has a page."""
    kind, _, name = one.address.removeprefix("/").partition("/")
    # A filter with wildcards is no topic, and has no page.
    is_topic = kind == TOPIC and not any(wildcard in name.split(".") for wildcard in WILDCARDS)
    return {"one": one, "queue": name if kind == QUEUE else "", "topic": name if is_topic else ""}
