"""The activity of destinations: totals, changes of the last second, trends, and histories of some."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker_app.telemetry.histogram import Durations
from broker_app.telemetry.timeseries import History
from broker_app.telemetry.trend import Traffic, Trend

#: seconds; a destination makes room for the history of another one only when it has been idle so long
IDLE_S = 60


class Totals(NamedTuple):
    """Messages since the node started; `out` of a topic is the number of deliveries to its subscriptions."""

    in_: int = 0
    out: int = 0
    acked: int = 0
    dead: int = 0
    expired: int = 0


class DestinationHistory:
    """History and durations of a destination."""

    __slots__ = ("history", "hold", "wait")

    def __init__(self) -> None:
        self.history = History()
        self.wait = Durations()
        self.hold = Durations()


class ActivityCounters:
    """A destination that was active since the start: its totals, and their change in the last sample that
    found one. `trend` is the depth of a queue, or the rate of a topic."""

    __slots__ = ("moved", "past", "second", "totals", "trend")

    def __init__(self, trend: Trend) -> None:
        self.trend = trend
        self.second = 0
        self.totals = Totals()
        self.moved = Totals()
        self.past: DestinationHistory | None = None


class Activity:
    """The destinations that were active, the latest last. At most `max_histories` of them have a history.

    `dropped` is called with the address of a destination whose history was dropped.
    """

    def __init__(self, max_histories: int, dropped: Callable[[str], None]) -> None:
        self._max_histories = max_histories
        self._dropped = dropped
        self._counters: OrderedDict[str, ActivityCounters] = OrderedDict()
        #: addresses with a history, the longest idle one first
        self._with_history: OrderedDict[str, DestinationHistory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counters)

    @property
    def histories(self) -> int:
        """The number of destinations with a history."""
        return len(self._with_history)

    def get(self, address: str) -> ActivityCounters | None:
        """The counters of a destination that was active."""
        return self._counters.get(address)

    def has_history(self, address: str) -> bool:
        """True if the destination has a history, even if it was deleted."""
        return address in self._with_history

    def latest_first(self) -> Iterator[tuple[str, ActivityCounters]]:
        """All, the latest to be active first."""
        return ((address, self._counters[address]) for address in reversed(self._counters))

    def note(self, address: str, totals: Totals, second: int, *, restarted: bool = False) -> ActivityCounters:
        """Note new totals; `restarted` if they are counted from zero again."""
        counters = self._counters.get(address)
        if counters is None:
            trend = Traffic() if address.startswith("/topic/") else Trend()
            counters = self._counters[address] = ActivityCounters(trend)
        self._counters.move_to_end(address)
        before = Totals() if restarted else counters.totals
        counters.moved = Totals(*map(int.__sub__, totals, before))
        counters.totals = totals
        counters.second = second
        return counters

    def history(self, address: str, counters: ActivityCounters) -> DestinationHistory | None:
        """The history of an active destination.

        None for a temporary one, and while too many others are active.
        """
        if counters.past is None:
            if address.startswith("/temp-"):
                return None
            if len(self._with_history) >= self._max_histories and not self._drop_idle(counters.second):
                return None
            counters.past = self._with_history[address] = DestinationHistory()
        self._with_history.move_to_end(address)
        return counters.past

    def note_restored(self, address: str, second: int, depth: int) -> DestinationHistory | None:
        """Begin the history of a queue that was restored; it is the first to make room for an active one.

        None if there is no room, and for a temporary one.
        """
        if address.startswith("/temp-") or len(self._with_history) >= self._max_histories:
            return None
        counters = self.note(address, Totals(), 0)
        counters.trend.put(second, depth)
        past = self.history(address, counters)
        self._counters.move_to_end(address, last=False)
        self._with_history.move_to_end(address, last=False)
        return past

    def _drop_idle(self, second: int) -> bool:
        address = next(iter(self._with_history), None)
        if address is None or self._counters[address].second > second - IDLE_S:
            return False
        del self._with_history[address]
        self._counters[address].past = None
        self._dropped(address)
        return True

    def forget_deleted(self, exists: Callable[[str], bool]) -> None:
        """Forget destinations that do not exist any more and have no history."""
        for address, counters in list(self._counters.items()):
            if counters.past is None and not exists(address):
                del self._counters[address]

    def shift(self, seconds: int) -> None:
        """The clock was set forward: move all times."""
        for counters in self._counters.values():
            counters.second += seconds
            counters.trend.shift(seconds)
            if counters.past is not None:
                counters.past.history.shift(seconds)
                counters.past.wait.shift(seconds)
                counters.past.hold.shift(seconds)
