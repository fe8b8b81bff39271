"""Rules of alerts: a condition with its threshold, its duration, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from broker_app.base import wildcards
from broker_app.telemetry.alerts.conditions import CONDITIONS


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule: an alert fires when a condition has reached `threshold` for `for_s` seconds, for subjects that
    match `pattern` (empty: all). `notify` are the targets of notifications (`notifications.target`)."""

    name: str
    condition: str
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
