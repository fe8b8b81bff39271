"""The conditions of alerts about this broker: each is declared once, at what finds it. API, documentation and
console follow.

A rule fires when the value has reached its threshold; for "fallen below", find the negative value.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from broker_app.base.events import FILES
from broker_app.base.marked import mark as _
from broker_app.core.destination import is_forwarded
from broker_app.telemetry import component_health
from broker_app.telemetry.alerts.condition import CRITICAL, Condition, Violation, declare

if TYPE_CHECKING:
    from broker_app.telemetry.alerts.alert import Alert
    from broker_app.telemetry.alerts.checks import ConditionChecks
    from broker_app.telemetry.alerts.rule import AlertRule

#: by name
TABLE: Final[dict[str, Condition]] = {}
#: kinds of components for which another condition finds what makes them failing, and degraded
_FAILING_ELSEWHERE = (component_health.LINK,)
_DEGRADED_ELSEWHERE = (component_health.STORE, component_health.LINK)
#: by kind of a component, the page of one
_PAGES: Final = {
    "callback": "callbacks/one",
    "reflex": "reflexes/one",
    "bridge": "bridges/one",
    "pipeline": "pipelines/one",
}


# -------------------------------------------------------------------------- pages


def _address(page: str, **query: Any) -> str:
    return f"{page}?{urlencode(query)}"


def _began(alert: Alert) -> str:
    return datetime.fromtimestamp(int(alert.since), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _history(alert: Alert) -> str:
    """The history of a queue at the time when it began."""
    name = alert.subject.removeprefix("/queue/")
    return _address("queues/one", name=name, tab="history", at=_began(alert))


def _page_of_component(alert: Alert) -> str:
    kind, _, name = alert.subject.partition("/")
    if kind in _PAGES:
        return _address(_PAGES[kind], name=name)
    return {"mirror": "mirrors/", "link": "cluster/"}.get(kind, "")


# -------------------------------------------------------------------------- queues and clients


@declare(
    TABLE,
    "oldest",
    _("the oldest message of a queue with consumers has waited this many seconds"),
    *("destination", "seconds"),
    threshold=300,
    sentence=_("{name}: the oldest message has waited {span}"),
    page=_history,
)
def _oldest_message_age(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation | None]:
    for queue, depth, is_dead, since_ms in known.waiting():
        yield None
        if is_dead or since_ms is None or not queue.consumers:
            continue
        age_s = known.now - since_ms / 1000
        if age_s >= rule.threshold:
            yield Violation(queue.address, round(age_s), {"depth": depth})


@declare(
    TABLE,
    "dead-letters",
    _("this many messages became dead letters within ten minutes"),
    *("destination", "messages"),
    sentence=_("{name} grew by {count} in 10 min"),
    page=_history,
)
def _dead_letters(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    for address, grown in known.grown():
        if grown >= max(1, rule.threshold):
            yield Violation(address, grown, {"depth": known.depth(address)})


@declare(
    TABLE,
    "no-consumer",
    _("this many messages wait in a queue without consumers"),
    *("destination", "messages"),
    for_s=300,
    sentence=_("{name}: {waiting}, no consumers"),
    page=_history,
)
def _no_consumer(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation | None]:
    for queue, depth, is_dead, _since in known.waiting():
        yield None
        # Store-and-forward queues have bridges; durable subscriptions may wait for their consumer.
        if is_dead or queue.consumers or queue.named or not queue.durable or is_forwarded(queue.address):
            continue
        if depth >= max(1, rule.threshold):
            yield Violation(queue.address, depth, {"depth": depth})


@declare(
    TABLE,
    "bridge-stalled",
    _("this many messages wait for a bridge that is stalled or disconnected"),
    *("bridge", "messages"),
    for_s=60,
    severity=CRITICAL,
    sentence=_("Bridge {name} is {state}: {waiting}"),
    page=lambda alert: _address("bridges/one", name=alert.subject),
)
def _stalled(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    for bridge in known.bridges():
        flows = [flow for flow in bridge["flows"] if not flow["paused"]]
        states = {flow["state"] for flow in flows} | {bridge["state"]}
        state = next((state for state in ("failed", "stalled", "retrying") if state in states), None)
        backlog = _backlog(bridge)
        if state is not None and bridge["desired"] != "paused" and backlog >= rule.threshold:
            yield Violation(bridge["name"], backlog, {"state": state, "error": _code(bridge)})


@declare(
    TABLE,
    "store",
    _("this percentage of the journal's disk space is used"),
    *("node", "percent"),
    threshold=80,
    for_s=60,
    severity=CRITICAL,
    sentence=_("Store usage: {percent} %"),
    page=lambda alert: _address("", at=_began(alert)),
)
def _journal_disk_usage(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    percent = 100 * known.taken()
    if percent >= rule.threshold:
        yield Violation("store", round(percent, 1))


@declare(
    TABLE,
    "flapping",
    _("a client has connected this many times within five minutes"),
    *("client", "connections"),
    threshold=10,
    sentence=_("{name} connected {count} times in 5 min"),
    page=lambda alert: _address("connections/", user=alert.subject.partition("@")[0]),
)
def _flapping(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    for caller, times, _last, end in known.flapping():
        if times >= rule.threshold:
            yield Violation(f"{caller.user}@{caller.machine}", times, {"client": caller.client, "end": end})


@declare(
    TABLE,
    "configuration",
    _("configuration files were rejected; the previous ones stay in effect"),
    *("file", "files"),
    severity=CRITICAL,
    sentence=_("Configuration files were rejected"),
    page=lambda alert: "configuration/files",
)
def _refused(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    last = next((event for event in known.events() if event.kind == FILES), None)
    if last is not None and last.code:
        yield Violation("files", 1, {"detail": last.detail[:500]})


@declare(
    TABLE,
    "failing",
    _(
        "a callback, reflex, pipeline or bridge without waiting messages always fails or gets no "
        "further, or the store takes no messages"
    ),
    *("component", "components"),
    severity=CRITICAL,
    sentence=_("{kind} {name} is {health}"),
    page=_page_of_component,
)
def _failing(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    return _unhealthy(known, component_health.BROKEN, _FAILING_ELSEWHERE)


@declare(
    TABLE,
    "degraded",
    _("a callback, reflex, bridge, pipeline or mirror works in part, as one without a standby"),
    *("component", "components"),
    for_s=60,
    sentence=_("{kind} {name} is {health}"),
    page=_page_of_component,
)
def _degraded(known: ConditionChecks, rule: AlertRule) -> Iterator[Violation]:
    return _unhealthy(known, (component_health.DEGRADED,), _DEGRADED_ELSEWHERE)


# -------------------------------------------------------------------------- what several need


def _unhealthy(
    known: ConditionChecks, health: Container[str], elsewhere: Container[str]
) -> Iterator[Violation]:
    # A bridge with messages before it has a condition of its own, which says how many.
    reported = {bridge["name"] for bridge in known.bridges() if _backlog(bridge)}
    for one in known.components():
        has_own = one.kind in elsewhere or (one.kind == component_health.BRIDGE and one.name in reported)
        if one.health in health and not has_own:
            facts = {"kind": one.kind, "health": one.health, "detail": one.reason[:500]}
            yield Violation(f"{one.kind}/{one.name}", 1, facts)


def _backlog(bridge: Mapping[str, Any]) -> int:
    """The messages that wait for a bridge, without those of flows that are paused."""
    return sum(flow["depth"] for flow in bridge["flows"] if not flow["paused"])


def _code(bridge: Mapping[str, Any]) -> str:
    errors = [flow["error"] for flow in bridge["flows"]] + [bridge["error"]]
    return next((error["code"] for error in errors if error is not None), "")
