"""A pause of takeovers for maintenance: a note in the store, which every standby heeds until it ends.

While it lasts, no standby takes a lease that is free. Who had it takes it again, and orders of operators are
carried out: a switch-over, and a forced takeover.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from broker_app.base import durations
from broker_app.journal.store import Store

_KEY: Final = "pause"


class Pause(NamedTuple):
    """Takeovers are paused for `left_s` seconds more, by the clock of the store."""

    left_s: float
    reason: str
    user: str

    @property
    def sentence(self) -> str:
        """A part of a sentence, also for strangers: without the reason."""
        return f"an operator has paused takeovers for {durations.in_words(self.left_s)} more"


def begin(store: Store, for_s: float, reason: str, user: str) -> None:
    """Pause takeovers, in place of an earlier pause. Raises JournalError."""
    store.put_note(_KEY, json.dumps({"for_s": for_s, "reason": reason, "user": user}).encode())


def end(store: Store) -> None:
    """Have standbys take over again. Raises JournalError."""
    store.drop_note(_KEY)


def find(store: Store) -> Pause | None:
    """The pause that lasts now; None without one. Raises JournalError."""
    note = store.notes(_KEY).get(_KEY)
    if note is None:
        return None
    values = json.loads(note.content)
    left_s = values["for_s"] - note.age_s
    return Pause(left_s, values["reason"], values["user"]) if left_s > 0 else None
