"""The conditions of alerts: what each finds, the defaults of its rules, its sentence, and its page.

`conditions` finds them; the console's sentences in other languages are in `frontend/src/view/alert.ts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from broker_app.base import durations

if TYPE_CHECKING:
    from broker_app.telemetry.alerts.alert import Alert

OLDEST_MESSAGE_AGE: Final = "oldest"
DEAD_LETTERS: Final = "dead-letters"
NO_CONSUMER: Final = "no-consumer"
BRIDGE_STALLED: Final = "bridge-stalled"
JOURNAL_DISK_USAGE: Final = "store"
FLAPPING: Final = "flapping"
CONFIGURATION: Final = "configuration"
FAILING: Final = "failing"
DEGRADED: Final = "degraded"
LINK_DOWN: Final = "link-down"
LINK_REFUSED: Final = "link-refused"
KEEPER_AWAY: Final = "keeper-away"
TAKEOVER: Final = "takeover"
SUSPECT: Final = "suspect"
DISCOVERY: Final = "discovery"
ConditionName = Literal[
    "oldest", "dead-letters", "no-consumer", "bridge-stalled", "store", "flapping", "configuration",
    "failing", "degraded", "link-down", "link-refused", "keeper-away", "takeover", "suspect", "discovery",
]  # fmt: skip
_CLUSTER: Final = "cluster/"
WARNING, CRITICAL = SEVERITIES = ("warning", "critical")
#: by kind of a component, the page of one
_PAGES: Final = {
    "callback": "callbacks/one",
    "reflex": "reflexes/one",
    "bridge": "bridges/one",
    "pipeline": "pipelines/one",
}


class Condition(NamedTuple):
    """A type of problem. `threshold` and `for_s` are the defaults of its rules; `subject` is the kind of
    object that has the problem, whose name the pattern of a rule is compared with. `sentence` says what
    was found, in English, and `page` is the address below the console that shows it."""

    about: str
    subject: str
    unit: str
    threshold: float
    for_s: float
    severity: str
    sentence: Callable[[Alert], str]
    page: Callable[[Alert], str]


def _(text: str) -> str:
    """Mark a text that the console translates."""
    return text


def _name(alert: Alert) -> str:
    return alert.subject.removeprefix("/queue/")


def _messages(count: float) -> str:
    return "1 message waits" if count == 1 else f"{count:,.0f} messages wait"


def _bridge(alert: Alert) -> str:
    code = f" ({alert.facts['error']})" if alert.facts.get("error") else ""
    state = alert.facts.get("state", "stalled")
    return f"bridge {_name(alert)} is {state}{code}: {_messages(alert.value)}"


def _component(alert: Alert) -> str:
    kind, _, name = alert.subject.partition("/")
    detail = f": {alert.facts['detail']}" if alert.facts.get("detail") else ""
    return f"{kind} {name} is {alert.facts.get('health', alert.condition)}{detail}"


def _down(alert: Alert) -> str:
    reason = f": {alert.facts['reason']}" if alert.facts.get("reason") else ""
    return f"broker {alert.subject} cannot be reached{reason}"


def _taken_over(alert: Alert) -> str:
    taker, reason = alert.facts.get("taker", ""), alert.facts.get("reason", "")
    if alert.facts.get("result") == "failed":
        return f"{taker} could not take over from {alert.subject}: {reason}"
    return f"{taker} has taken over from {alert.subject}: {reason}"


def _address(page: str, **query: Any) -> str:
    return f"{page}?{urlencode(query)}"


def _history(alert: Alert) -> str:
    """The history of a queue at the time when it began."""
    return _address("queues/one", name=_name(alert), tab="history", at=_began(alert))


def _page_of_component(alert: Alert) -> str:
    kind, _, name = alert.subject.partition("/")
    if kind in _PAGES:
        return _address(_PAGES[kind], name=name)
    return {"mirror": "mirrors/", "link": _CLUSTER}.get(kind, "")


def _began(alert: Alert) -> str:
    return datetime.fromtimestamp(int(alert.since), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


CONDITIONS: Final[Mapping[ConditionName, Condition]] = MappingProxyType(
    {
        OLDEST_MESSAGE_AGE: Condition(
            _("the oldest message of a queue with consumers has waited this many seconds"),
            "destination", "seconds", 300, 0, WARNING,
            lambda alert: f"{_name(alert)}: the oldest message has waited {durations.in_words(alert.value)}",
            _history,
        ),
        DEAD_LETTERS: Condition(
            _("this many messages became dead letters within ten minutes"),
            "destination", "messages", 1, 0, WARNING,
            lambda alert: f"{_name(alert)} grew by {alert.value:,.0f} in 10 min",
            _history,
        ),
        NO_CONSUMER: Condition(
            _("this many messages wait in a queue without consumers"),
            "destination", "messages", 1, 300, WARNING,
            lambda alert: f"{_name(alert)}: {_messages(alert.value)}, no consumer",
            _history,
        ),
        BRIDGE_STALLED: Condition(
            _("this many messages wait for a bridge that is stalled or disconnected"),
            "bridge", "messages", 1, 60, CRITICAL,
            _bridge,
            lambda alert: _address("bridges/one", name=alert.subject),
        ),
        JOURNAL_DISK_USAGE: Condition(
            _("this percentage of the journal's disk space is used"),
            "node", "percent", 80, 60, CRITICAL,
            lambda alert: f"the store is {alert.value:g} % full",
            lambda alert: _address("", at=_began(alert)),
        ),
        FLAPPING: Condition(
            _("a client has connected this many times within five minutes"),
            "client", "connections", 10, 0, WARNING,
            lambda alert: f"{alert.subject} connected {alert.value:,.0f} times in 5 min",
            lambda alert: _address("connections/", user=alert.subject.partition("@")[0]),
        ),
        CONFIGURATION: Condition(
            _("configuration files were rejected; the previous ones stay in effect"),
            "file", "files", 1, 0, CRITICAL,
            lambda alert: f"configuration files were rejected: {alert.facts.get('detail', '')}",
            lambda alert: "configuration/files",
        ),
        FAILING: Condition(
            _("a callback, reflex, pipeline or bridge without waiting messages always fails or gets no "
            "further, or the store takes no messages"),
            "component", "components", 1, 0, CRITICAL,
            _component,
            _page_of_component,
        ),
        DEGRADED: Condition(
            _("a callback, reflex, bridge, pipeline or mirror works in part, as one without a standby"),
            "component", "components", 1, 60, WARNING,
            _component,
            _page_of_component,
        ),
        LINK_DOWN: Condition(
            _("another broker of the cluster cannot be reached, or has stopped"),
            "broker", "links", 1, 30, CRITICAL,
            _down,
            lambda alert: _CLUSTER,
        ),
        LINK_REFUSED: Condition(
            _("another broker is refused, or refuses this one, as for a setting that differs"),
            "broker", "links", 1, 0, CRITICAL,
            lambda alert: (
                f"broker {alert.subject} is not in one cluster with this one: {alert.facts.get('reason', '')}"
            ),
            lambda alert: _CLUSTER,
        ),
        KEEPER_AWAY: Condition(
            _("the keeper of the cluster is away: changes of the configuration are refused"),
            "keeper", "keepers", 1, 60, WARNING,
            lambda alert: f"changes of the configuration are refused: {alert.facts.get('reason', '')}",
            lambda alert: _CLUSTER,
        ),
        TAKEOVER: Condition(
            _("a member of the enhanced cluster was taken over this many times within ten minutes, or could "
            "not be"),
            "broker", "takeovers", 1, 0, CRITICAL,
            _taken_over,
            lambda alert: _CLUSTER,
        ),
        SUSPECT: Condition(
            _("a member of the enhanced cluster sends no heart-beat"),
            "broker", "members", 1, 0, WARNING,
            lambda alert: f"member {alert.subject} is suspect: {alert.facts.get('reason', '')}",
            lambda alert: _CLUSTER,
        ),
        DISCOVERY: Condition(
            _("other brokers of the cluster cannot be found in a way that is set up: a multicast group, or "
            "the registry of the members"),
            "discovery", "ways", 1, 30, WARNING,
            lambda alert: (
                f"brokers cannot be found by {alert.subject}: {alert.facts.get('reason', '')}"
            ),
            lambda alert: _CLUSTER,
        ),
    }
)  # fmt: skip
