"""One alert: a condition of one subject, its times, and how an operator handled it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from broker_app.base import states

FIRING, ACKNOWLEDGED, SILENCED, ENDED = STATES = tuple(states.ALERT)
#: of states in which something is still wrong
OPEN: Final = (FIRING, ACKNOWLEDGED, SILENCED)


@dataclass(slots=True)
class Alert:
    """Times are seconds since 1970. `value` is the latest; `by` and `reason` are of the operator that
    acknowledged or silenced it, `until` is when its silence ends."""

    id: str
    rule: str
    condition: str
    severity: str
    subject: str
    threshold: float
    #: the time since when the condition holds, and when the alert fired
    since: float
    fired_at: float
    value: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: str = FIRING
    by: str = ""
    reason: str = ""
    until: float | None = None
    ended_at: float | None = None
    #: when the condition was found last
    seen_at: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """The rule and the subject, which have one alert at a time."""
        return self.rule, self.subject

    def kept(self) -> dict[str, Any]:
        """The alert as it is stored."""
        return asdict(self)

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> Alert:
        """A stored alert; unknown members are ignored. TypeError if some are missing."""
        return cls(**{one.name: kept[one.name] for one in fields(cls) if one.name in kept})
