"""Alert conditions, and rules with their thresholds and durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from broker_app.base import wildcards

OLDEST_MESSAGE_AGE: Final = "oldest"
DEAD_LETTERS: Final = "dead-letters"
NO_CONSUMER: Final = "no-consumer"
BRIDGE_STALLED: Final = "bridge-stalled"
JOURNAL_DISK_USAGE: Final = "store"
FLAPPING: Final = "flapping"
CONFIGURATION: Final = "configuration"
FAILING: Final = "failing"
DEGRADED: Final = "degraded"
#: a match of these that lacks one is found by mypy
ConditionName = Literal[
    "oldest", "dead-letters", "no-consumer", "bridge-stalled", "store", "flapping", "configuration",
    "failing", "degraded",
]  # fmt: skip
WARNING, CRITICAL = SEVERITIES = ("warning", "critical")
#: seconds over which dead letters are counted
GROWTH_S: Final = 600


class Condition(NamedTuple):
    """A type of problem. `threshold` and `for_s` are the defaults of its rules; `subject` is the kind of
    object that has the problem, whose name the pattern of a rule is compared with."""

    about: str
    subject: str
    unit: str
    threshold: float
    for_s: float
    severity: str


CONDITIONS: Final[Mapping[ConditionName, Condition]] = MappingProxyType(
    {
        OLDEST_MESSAGE_AGE: Condition(
            "the oldest message of a queue with consumers is this old", "destination", "seconds",
            300, 0, WARNING,
        ),
        DEAD_LETTERS: Condition(
            "this many messages became dead letters within ten minutes", "destination", "messages",
            1, 0, WARNING,
        ),
        NO_CONSUMER: Condition(
            "this many messages wait in a queue without consumers", "destination", "messages",
            1, 300, WARNING,
        ),
        BRIDGE_STALLED: Condition(
            "this many messages wait for a bridge that is stalled, disconnected or misconfigured", "bridge",
            "messages", 1, 60, CRITICAL,
        ),
        JOURNAL_DISK_USAGE: Condition(
            "the journal uses this share of its disk space", "node", "percent", 80, 60, CRITICAL
        ),
        FLAPPING: Condition(
            "a client has connected so often from one machine within five minutes", "client", "connections",
            10, 0, WARNING,
        ),
        CONFIGURATION: Condition(
            "files of the configuration were refused, and the former ones hold", "file", "files",
            1, 0, CRITICAL,
        ),
        FAILING: Condition(
            "a callback, reflex, pipeline or bridge without waiting messages always fails or gets no "
            "further, or the store takes no messages",
            "component", "components", 1, 0, CRITICAL,
        ),
        DEGRADED: Condition(
            "a callback, reflex, bridge, pipeline or mirror works in part, as one without a standby",
            "component", "components", 1, 60, WARNING,
        ),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule: an alert fires when a condition has reached `threshold` for `for_s` seconds, for subjects that
    match `pattern` (empty: all). `notify` are the targets of notifications (`notifications.target`)."""

    name: str
    condition: ConditionName
    threshold: float
    for_s: float
    severity: str
    pattern: str = ""
    enabled: bool = True
    notify: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any]) -> AlertRule:
        """The rule of a spec of the configuration."""
        known = {field: spec[field] for field in cls.__slots__ if field in spec}
        return cls(**{**known, "name": name, "notify": tuple(spec.get("notify", ()))})

    def is_about(self, subject: str) -> bool:
        """True if the pattern matches."""
        return not self.pattern or _matcher(self.pattern)(subject)


#: the built-in rules by name, unless they are replaced
DEFAULT_RULES: Final[Mapping[str, AlertRule]] = MappingProxyType(
    {
        name: AlertRule(name, name, condition.threshold, condition.for_s, condition.severity)
        for name, condition in CONDITIONS.items()
    }
)


def rules_with(own: Mapping[str, AlertRule]) -> tuple[AlertRule, ...]:
    """The rules in effect: `own`, and the built-in ones that they do not replace."""
    return tuple({**DEFAULT_RULES, **own}.values())


@lru_cache(maxsize=1_000)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """`*` stands for any characters, `>` at the end for the rest."""
    return wildcards.matcher(pattern[:-1] + wildcards.ANY if pattern.endswith(">") else pattern)
