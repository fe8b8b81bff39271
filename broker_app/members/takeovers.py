"""The history of a shared journal: which broker took it over, when, why, and what was lost."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from broker_app.journal.store import Store
from broker_app.net.rest.node.mirror_status import (
    EXPIRED,
    FORCED,
    FORMER_STOPPED,
    STARTED,
    SWITCHOVER,
)

#: takeovers that are kept
_MOST: Final = 100
_PREFIX: Final = "takeover/"


class Takeover(NamedTuple):
    """A change of the lease's holder at a time (seconds since 1970). `took_s` is how long it took from the
    end of the former lease until the journal was replayed."""

    epoch: int
    at_s: float
    cause: str
    broker: str
    role: int
    #: the former holder; empty if there was none
    former: str = ""
    position: int = 0
    took_s: float = 0.0
    #: messages that were only in the former holder's memory, by its last note; None if that is not known
    non_persistent_lost: int | None = None
    #: records that this broker had applied as a standby, and the store has lost since
    records_lost: int = 0
    #: of an operator's order
    reason: str = ""

    @property
    def sentence(self) -> str:
        """A sentence for the log and for operators."""
        if self.cause == STARTED or not self.former:
            return f"{self.broker} (role {self.role}) serves from now on, epoch {self.epoch}"
        why = {
            FORMER_STOPPED: "which was stopped",
            EXPIRED: "whose lease expired",
            SWITCHOVER: "as an operator ordered",
            FORCED: "by force, as an operator ordered",
        }[self.cause]
        lost = "an unknown number of" if self.non_persistent_lost is None else f"{self.non_persistent_lost}"
        return (
            f"{self.broker} (role {self.role}) took over from {self.former}, {why}, within "
            f"{self.took_s:.2f} s, epoch {self.epoch}; lost were {self._persistent_loss}, and {lost} "
            "non-persistent ones"
        )

    @property
    def _persistent_loss(self) -> str:
        if not self.records_lost:
            return "no persistent messages"
        return (
            f"{self.records_lost} records of the journal that its store had confirmed (a replica without"
            " them has replaced its server)"
        )


def keep(store: Store, takeover: Takeover) -> None:
    """Store a takeover as a note, and delete the oldest beyond the limit. Raises JournalError."""
    store.put_note(f"{_PREFIX}{takeover.epoch:012d}", json.dumps(takeover._asdict()).encode())
    for key in sorted(store.notes(_PREFIX))[:-_MOST]:
        store.drop_note(key)


def history(store: Store) -> list[Takeover]:
    """The takeovers that are kept, the newest first. Raises JournalError."""
    found = (json.loads(note.content) for _, note in sorted(store.notes(_PREFIX).items(), reverse=True))
    return [_takeover(values) for values in found]


def _takeover(values: dict[str, Any]) -> Takeover:
    return Takeover(**{name: values[name] for name in Takeover._fields if name in values})
