"""Reloads: the results of reading the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from broker_app.web.files.plan import FilePlan
from broker_app.zero import ZeroError

#: errors of one reload that are reported to listeners
MAX_REPORTED = 5
APPLIED, UNCHANGED, REFUSED = "applied", "unchanged", "refused"


@dataclass(frozen=True, slots=True)
class Reload:
    """One reading.

    `trigger` is "start" or the files that changed; `outcome` is one of those above; `version` is what it led
    to, and `restart` names settings of the node that hold from the next start on.
    """

    time: datetime
    trigger: str
    outcome: str
    plan: FilePlan | None = None
    version: int | None = None
    restart: tuple[str, ...] = ()
    errors: tuple[ZeroError, ...] = field(default=(), repr=False)
    warnings: tuple[ZeroError, ...] = field(default=(), repr=False)

    def shown(self) -> dict[str, Any]:
        """The reload as the API shows it."""
        return {
            "time": self.time,
            "trigger": self.trigger,
            "outcome": self.outcome,
            "version": self.version,
            "restart": list(self.restart),
            **(shown_plan(self.plan) if self.plan is not None else _NOTHING),
            "errors": [shown_error(error) for error in self.errors],
            "warnings": [shown_error(warning) for warning in self.warnings],
        }

    def summary(self) -> dict[str, Any]:
        """A summary for listeners: the outcome, and the first errors."""
        return {
            "trigger": self.trigger,
            "outcome": self.outcome,
            "version": self.version,
            **self._counts(),
            "errors": [f"{error.position}: {error.detail}" for error in self.errors[:MAX_REPORTED]],
            "warnings": [f"{warning.position}: {warning.detail}" for warning in self.warnings[:MAX_REPORTED]],
        }

    def _counts(self) -> dict[str, int]:
        counts = dict.fromkeys(("added", "changed", "removed"), 0)
        for one in self.plan.differences if self.plan is not None else ():
            counts[one.action] += 1
        return counts

    def __str__(self) -> str:
        if self.plan is None:
            return self.outcome
        counts = self._counts()
        return (
            ", ".join(f"{count} {action}" for action, count in counts.items())
            + f", {self.plan.unchanged} unchanged"
        )


_NOTHING: dict[str, Any] = {"added": [], "changed": [], "removed": [], "kept": [], "unchanged": 0}


def shown_plan(plan: FilePlan) -> dict[str, Any]:
    """The differences by action, and the resources that already exist from elsewhere."""
    actions: dict[str, list[dict[str, str]]] = {"added": [], "changed": [], "removed": []}
    for one in plan.differences:
        actions[one.action].append({"kind": one.kind, "key": one.key, "source": one.source})
    return {**actions, "kept": [one._asdict() for one in plan.kept], "unchanged": plan.unchanged}


def shown_error(error: ZeroError) -> dict[str, Any]:
    """One error with its place."""
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "detail": error.detail,
        "marker": error.marker,
    }
