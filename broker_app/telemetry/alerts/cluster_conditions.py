"""Conditions about the other brokers of a cluster, as `broker_conditions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker_app.base.marked import mark as _
from broker_app.base.reply_types import Facts
from broker_app.base.times import milliseconds
from broker_app.telemetry.alerts.condition import CRITICAL, Condition, Violation, declare

if TYPE_CHECKING:
    from broker_app.telemetry.alerts.alert import Alert
    from broker_app.telemetry.alerts.checks import ConditionChecks
    from broker_app.telemetry.alerts.rule import AlertRule

#: by name
TABLE: Final[dict[str, Condition]] = {}
#: seconds for which an alert about a takeover goes on
TAKEOVER_S: Final = 600.0


def _cluster(alert: Alert) -> str:
    return "cluster/"


@declare(
    TABLE,
    "link-down",
    _("another broker of the cluster cannot be reached, or has stopped"),
    *("broker", "links"),
    for_s=30,
    severity=CRITICAL,
    sentence=_("Broker {name} of the cluster cannot be reached"),
    page=_cluster,
)
def _link_down(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    return _links(known, rule, "connecting", "stopped")


@declare(
    TABLE,
    "link-refused",
    _("another broker is refused, or refuses this one, as for a setting that differs"),
    *("broker", "links"),
    severity=CRITICAL,
    sentence=_("Broker {name} is not in one cluster with this one"),
    page=_cluster,
)
def _link_refused(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    return _links(known, rule, "refused")


@declare(
    TABLE,
    "keeper-away",
    _("the keeper of the cluster is away: changes of the configuration are refused"),
    *("keeper", "keepers"),
    for_s=60,
    sentence=_("Changes of the configuration are refused"),
    page=_cluster,
)
def _keeper_away(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    cluster = known.cluster()
    if cluster is not None and cluster["keeper_state"] and rule.threshold <= 1:
        yield Violation(cluster["keeper"], 1, {"reason": cluster["keeper_state"][:500]})


@declare(
    TABLE,
    "takeover",
    _("a member of the enhanced cluster was taken over this many times within ten minutes, or could not be"),
    *("broker", "takeovers"),
    severity=CRITICAL,
    sentence=_("{taker} has taken over from {name}"),
    failed=_("{taker} could not take over from {name}"),
    page=_cluster,
)
def _taken_over(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    latest: dict[str, Facts] = {}
    times: Counter[str] = Counter()
    for takeover in known.enhanced("takeovers"):  # the newest first
        began_ms = milliseconds(takeover["began"])
        if takeover["result"] == "running" or began_ms is None:
            continue
        if known.now - began_ms / 1000 < TAKEOVER_S:
            latest.setdefault(takeover["member"], takeover)
            times[takeover["member"]] += 1
    for member, number in times.items():
        if number >= rule.threshold:
            found = latest[member]
            reason = found["error"] or f"{found['why']}; lost: {found['lost']}"
            facts = {"taker": found["taker"], "result": found["result"], "reason": reason[:500]}
            yield Violation(member, number, facts)


@declare(
    TABLE,
    "suspect",
    _("a member of the enhanced cluster sends no heart-beat"),
    *("broker", "members"),
    sentence=_("Member {name} of the cluster is suspect"),
    page=_cluster,
)
def _suspects(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    for member in known.enhanced("members"):
        suspicion = member["suspicion"]
        if suspicion is not None and rule.threshold <= 1:
            by = f"suspected since {suspicion['since']} by {', '.join(suspicion['by'])}"
            yield Violation(member["broker"], 1, {"reason": f"{member['why']}; {by}"[:500]})


@declare(
    TABLE,
    "discovery",
    _(
        "other brokers of the cluster cannot be found in a way that is set up: a multicast group, or "
        "the registry of the members"
    ),
    *("discovery", "ways"),
    for_s=30,
    sentence=_("Brokers cannot be found by {name}"),
    page=_cluster,
)
def _discovery(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    cluster = known.cluster()
    for one in cluster["discovery"] if cluster is not None else ():
        if one["error"] and rule.threshold <= 1:
            yield Violation(f"{one['way']} {one['place']}", 1, {"reason": one["error"][:500]})


def _links(known: ConditionChecks, rule: AlertRule, *states: str) -> Iterator[Violation]:
    """The links in one of these states. Those to members that were taken over are expected to be down."""
    cluster = known.cluster()
    for link in cluster["links"] if cluster is not None else ():
        if link["state"] in states and not link["taken_by"] and rule.threshold <= 1:
            yield Violation(link["broker"], 1, {"state": link["state"], "reason": link["reason"][:500]})
