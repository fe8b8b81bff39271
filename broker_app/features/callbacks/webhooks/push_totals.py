"""The totals of all callbacks since the node started, deleted ones included: they only grow."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from broker_app.features.callbacks.webhooks.push_log import LoggedPush
from broker_app.features.callbacks.webhooks.verdict import OUTCOMES

#: bounds of buckets in seconds, the pushes in each and in one of all longer ones, and the sum in seconds
Durations = tuple[tuple[float, ...], tuple[int, ...], float]
#: upper bounds of the buckets by which pushes are counted, in seconds
BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class PushTotals:
    """The totals of one node. `dead_lettered` is the number of messages that were pushed as often as
    their queue allows, `retries` that of pushes after the first one of a message."""

    def __init__(self) -> None:
        self.dead_lettered = 0
        self._outcomes: Counter[str] = Counter()
        self.retries = 0
        self._seconds = 0.0
        #: pushes by duration: of each bound, and the longer ones
        self._buckets = [0] * (len(BOUNDS_S) + 1)

    def note(self, push: LoggedPush) -> None:
        """Count a push that has ended."""
        self._outcomes[push.outcome] += 1
        self.retries += push.attempt > 1
        self._seconds += push.seconds
        self._buckets[bisect_left(BOUNDS_S, push.seconds)] += 1

    def by_outcome(self) -> dict[str, int]:
        """The number of pushes with each outcome."""
        return {outcome: self._outcomes[outcome] for outcome in OUTCOMES}

    def durations(self) -> Durations:
        """The bounds of the buckets, the pushes in each, and the sum in seconds."""
        return BOUNDS_S, tuple(self._buckets), self._seconds
