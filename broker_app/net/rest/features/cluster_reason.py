"""The reason why a message without consumers here waits, from the interest of the other brokers."""

from __future__ import annotations

from broker_app.core.inspection.why import Reason
from broker_app.features.cluster.report import ClusterReport
from broker_app.features.cluster.status import consumers_of

_NO_CONSUMER = "no-consumer"


def with_cluster(
    reasons: list[Reason], address: str, report: ClusterReport | None, *, is_local: bool
) -> list[Reason]:
    """The reasons for a message in the queue of `address`, with what the consumers of other brokers do. A
    queue that `is_local` is known to none of them."""
    if report is None:
        return reasons
    return [
        _of_others(address, report, is_local=is_local) if one.code == _NO_CONSUMER else one for one in reasons
    ]


def _of_others(address: str, report: ClusterReport, *, is_local: bool) -> Reason:
    by_broker: dict[str, int] = {}
    for one in consumers_of(report, address):
        if one.broker != report.broker:
            by_broker[one.broker] = by_broker.get(one.broker, 0) + one.consumers
    if by_broker:
        where = ", ".join(f"{count} at broker {broker}" for broker, count in sorted(by_broker.items()))
        sentence = f"{address} has no consumers at {report.broker}, but {where}"
        return Reason("consumers-elsewhere", sentence, {"brokers": by_broker})
    reached = [link.broker for link in report.links if link.state == "up"]
    sentence = f"{address} has no consumers at {', '.join((report.broker, *reached))}"
    for link in report.expected_links():
        if link.state != "up":
            why = f" ({link.reason})" if link.reason else ""
            sentence += f"; whether {link.broker} has any is unknown: its link is {link.state}{why}"
    if is_local:
        sentence += "; it is local, not propagated: others know it as soon as it has a consumer anywhere"
    return Reason(_NO_CONSUMER, sentence, {"brokers": {}})
