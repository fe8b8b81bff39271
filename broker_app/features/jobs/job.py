"""A job: its operation, progress and results. It is stored as one small JSON file."""

from __future__ import annotations

from typing import Any

import msgspec

from broker_app.base.states import JOB
from broker_app.features.jobs.plan import MOVE, RETRY
from broker_app.features.masks.mask import Mask

WAITING, RUNNING, DONE, CANCELLED, STOPPED, FAILED = JOB
OPEN = (WAITING, RUNNING)
#: the results of its messages
STATUSES = ("done", "gone", "unsettled", "refused")


class Job(msgspec.Struct, kw_only=True):
    """`number` counts the jobs of this data directory. `admin`: it was begun with an administrator's rights.
    `boot` is the process that chose the positions; those of messages outside the journal are valid in that
    process only. `began_at` is the journal's next position before the first batch. `topic` is the filter of
    the topic, if messages are taken out of a durable subscription. Times are ms since 1970."""

    id: str
    number: int
    op: str
    source: str
    target: str
    user: str
    admin: bool = False
    boot: str
    created_ms: int
    total: int
    topic: str = ""
    filter: str | dict[str, Any] | None = None
    rate_per_s: float | None = None
    max_error_ratio: float = 0.2
    state: str = WAITING
    started_ms: int = 0
    ended_ms: int = 0
    #: why it stopped or failed
    reason: str = ""
    next_position: int = 0
    began_at: int = 0
    undo_of: str = ""
    undone_by: str = ""
    #: of an export: what is hidden from the user who began it
    masks: tuple[Mask, ...] = ()
    #: messages processed: all, and by result
    processed: int = 0
    counts: dict[str, int] = {}

    @property
    def open(self) -> bool:
        """True if the job is not finished."""
        return self.state in OPEN

    @property
    def can_undo(self) -> bool:
        """True if the moved messages can be moved back."""
        return (
            self.op in (MOVE, RETRY)
            and not self.open
            and not self.undone_by
            and bool(self.counts.get("done"))
        )

    @property
    def progress(self) -> dict[str, Any]:
        """The progress for listeners, without the contents of the plan."""
        return {
            "id": self.id,
            "op": self.op,
            "state": self.state,
            "total": self.total,
            "processed": self.processed,
            **{status: self.counts.get(status, 0) for status in STATUSES},
            "reason": self.reason or None,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "can_undo": self.can_undo,
        }

    def count(self, status: str, number: int = 1) -> None:
        self.processed += number
        self.counts[status] = self.counts.get(status, 0) + number
