"""The last pushes of a callback, and their counts by outcome."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, NamedTuple, Protocol

from broker_app.features.callbacks.webhooks.verdict import ACCEPTED

#: pushes that are kept
MOST: Final = 100


class LoggedPush(NamedTuple):
    """One push: when it began (ms since 1970), of which message, its outcome, and how long it took.

    `status` is that of the answer, 0 without one; `detail` is empty for accepted ones."""

    time_ms: int
    id: str
    attempt: int
    outcome: str
    status: int
    seconds: float
    detail: str


class Totals(Protocol):
    """Counts the pushes of all callbacks."""

    def note(self, push: LoggedPush) -> None:
        """Count a push that has ended."""


class PushLog:
    """The pushes of one callback, since it was created or the node started. Its pushes are
    added to `totals`."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self.counts: Counter[str] = Counter()
        #: seconds of all pushes together
        self.seconds = 0.0
        self.last_accepted_ms = 0
        #: pushes since the last accepted one
        self.failures_in_row = 0
        self._pushes: deque[LoggedPush] = deque(maxlen=MOST)

    def note(self, push: LoggedPush) -> None:
        """Keep and count a push that has ended."""
        self._pushes.append(push)
        self.counts[push.outcome] += 1
        self.seconds += push.seconds
        self._totals.note(push)
        if push.outcome == ACCEPTED:
            self.last_accepted_ms = push.time_ms
            self.failures_in_row = 0
        else:
            self.failures_in_row += 1

    @property
    def last(self) -> LoggedPush | None:
        """The push that ended last."""
        return self._pushes[-1] if self._pushes else None

    def newest(self) -> list[LoggedPush]:
        """Those that are kept, the newest first."""
        return list(self._pushes)[::-1]

    def percentile_s(self, part: float) -> float | None:
        """The time that this part of the kept pushes took at most; None without any."""
        ordered = sorted(push.seconds for push in self._pushes)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
