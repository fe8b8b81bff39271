"""Reloads: the results of reading the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from broker_app.base.events import FILES_APPLIED, FILES_REFUSED, FILES_UNCHANGED
from broker_app.web.files.plan import FilePlan
from broker_app.zero import ZeroError

#: errors of one reload that are reported to listeners
MAX_REPORTED = 5
APPLIED, UNCHANGED, REFUSED = FILES_APPLIED.name, FILES_UNCHANGED.name, FILES_REFUSED.name


class ErrorStatus(TypedDict):
    """One error with its place."""

    file: str
    line: int
    column: int
    detail: str
    marker: str


class FileChange(TypedDict):
    """A resource that differs, and the line that wants it so."""

    kind: str
    key: str
    source: str


class PlanStatus(TypedDict):
    """The differences by action, and the resources that already exist from elsewhere."""

    added: list[FileChange]
    changed: list[FileChange]
    removed: list[FileChange]
    kept: list[dict[str, str]]
    unchanged: int


class ReloadStatus(PlanStatus):
    """A reading as the API shows it."""

    time: datetime
    trigger: str
    outcome: str
    version: int | None
    restart: list[str]
    errors: list[ErrorStatus]
    warnings: list[ErrorStatus]


class ReloadSummary(TypedDict):
    """A reading for listeners: the counts of changes, and the first errors."""

    trigger: str
    outcome: str
    version: int | None
    added: int
    changed: int
    removed: int
    errors: list[str]
    warnings: list[str]


class FileStatus(TypedDict):
    """A file of the configuration."""

    name: str
    state: str
    followed: bool
    written: datetime | None
    bytes: int | None
    sha256: str | None
    includes: list[str]


class FilesStatus(TypedDict):
    """The files of the configuration, how they were read, and the last reloads, the newest first."""

    main: str | None
    state: str
    read: datetime | None
    restart: list[str]
    follows: str
    config_file: str | None
    totals: dict[str, int]
    errors: list[ErrorStatus]
    warnings: list[ErrorStatus]
    files: list[FileStatus]
    reloads: list[ReloadStatus]


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

    def shown(self) -> ReloadStatus:
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

    def summary(self) -> ReloadSummary:
        """A summary for listeners: the outcome, and the first errors."""
        counts = self._counts()
        return {
            "trigger": self.trigger,
            "outcome": self.outcome,
            "version": self.version,
            "added": counts["added"],
            "changed": counts["changed"],
            "removed": counts["removed"],
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


_NOTHING: PlanStatus = {"added": [], "changed": [], "removed": [], "kept": [], "unchanged": 0}


def shown_plan(plan: FilePlan) -> PlanStatus:
    """The differences by action, and the resources that already exist from elsewhere."""

    def of(action: str) -> list[FileChange]:
        found = (one for one in plan.differences if one.action == action)
        return [{"kind": one.kind, "key": one.key, "source": one.source} for one in found]

    return {
        "added": of("added"),
        "changed": of("changed"),
        "removed": of("removed"),
        "kept": [one._asdict() for one in plan.kept],
        "unchanged": plan.unchanged,
    }


def shown_error(error: ZeroError) -> ErrorStatus:
    """One error with its place."""
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "detail": error.detail,
        "marker": error.marker,
    }
