"""Statistics of the rules' decisions in the last 24 hours: counts by event and by rule, and the last denials.

Decisions are counted, not messages. For a STOMP client that is one for each SUBSCRIBE, one for each
destination it sends to until the policy changes (or it has sent to a thousand others), and each refusal; for
HTTP one for each request.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from broker_app.rules.decision import Decision
from broker_app.rules.event import Event

HOURS = 24
_HOUR_S = 3600


class Hourly:
    """A count of the last 24 hours, including the current one."""

    __slots__ = ("_counts", "_hour")

    def __init__(self, hour: int) -> None:
        self._counts = [0] * HOURS
        self._hour = hour

    def add(self, hour: int) -> None:
        if hour > self._hour:
            for passed in range(self._hour + 1, min(hour, self._hour + HOURS) + 1):
                self._counts[passed % HOURS] = 0
            self._hour = hour
        # A clock that was set back counts in the hour that it had reached.
        self._counts[self._hour % HOURS] += 1

    def total(self, hour: int) -> int:
        """Return the count of the 24 hours that end with `hour`."""
        first = max(hour, self._hour) - HOURS + 1
        return sum(self._counts[at % HOURS] for at in range(first, self._hour + 1))


class Decided(NamedTuple):
    """An event that was decided `times` times in the last 24 hours, and its last decision: the rule ("" for
    none) and the time in seconds since the epoch."""

    event: Event
    allowed: bool
    rule: str
    times: int
    last_s: float


class Denial(NamedTuple):
    """One decision that denied, with its time (seconds since the epoch) and reason."""

    at_s: float
    event: Event
    reason: str
    rule: str


class _Row:
    __slots__ = ("allowed", "hourly", "last_s", "rule")

    def __init__(self, hour: int) -> None:
        self.hourly = Hourly(hour)
        self.allowed = False
        self.rule = ""
        self.last_s = 0.0


class Decisions:
    """Counts decisions in memory. `clock` is in seconds since the epoch.

    At most `MAX_EVENTS` different events are kept; the least recent ones are evicted and counted in
    `forgotten`. Rules are evicted likewise. Only the event loop writes; any thread may read. A reader copies
    in one step, which blocks the loop for a millisecond instead of thirty.
    """

    MAX_EVENTS = 10_000
    MAX_RULES = 20_000
    MAX_DENIALS = 1_000

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._events: OrderedDict[Event, _Row] = OrderedDict()
        self._rules: OrderedDict[str, Hourly] = OrderedDict()
        self._denials: deque[Denial] = deque(maxlen=self.MAX_DENIALS)
        self.forgotten = 0
        #: all decisions since the start
        self.allowed_total = self.denied_total = 0

    def note(self, event: Event, decision: Decision) -> None:
        """Count one decision."""
        now = self._clock()
        hour = int(now // _HOUR_S)
        row = self._events.get(event)
        if row is None:
            if len(self._events) >= self.MAX_EVENTS:
                self._events.popitem(last=False)
                self.forgotten += 1
            row = self._events[event] = _Row(hour)
        else:
            self._events.move_to_end(event)
        row.hourly.add(hour)
        row.last_s = now
        row.allowed = decision.allowed
        row.rule = decision.rule.name if decision.rule is not None else ""
        if row.rule:
            self._count_rule(row.rule, hour)
        if decision.allowed:
            self.allowed_total += 1
        else:
            self.denied_total += 1
            self._denials.append(Denial(now, event, decision.reason, row.rule))

    def decided(self) -> list[Decided]:
        """The events decided in the last 24 hours, newest first."""
        hour = self._hour()
        rows = [
            Decided(event, row.allowed, row.rule, row.hourly.total(hour), row.last_s)
            for event, row in reversed(list(self._events.items()))
        ]
        return [row for row in rows if row.times]

    def hits(self) -> dict[str, int]:
        """The number of decisions of each rule in the last 24 hours, without rules that decided nothing."""
        hour = self._hour()
        return {name: total for name, hourly in list(self._rules.items()) if (total := hourly.total(hour))}

    def denials(self) -> list[Denial]:
        """The last denials, newest first."""
        return list(self._denials)[::-1]

    def _count_rule(self, name: str, hour: int) -> None:
        hourly = self._rules.get(name)
        if hourly is None:
            if len(self._rules) >= self.MAX_RULES:
                self._rules.popitem(last=False)
            hourly = self._rules[name] = Hourly(hour)
        else:
            self._rules.move_to_end(name)
        hourly.add(hour)

    def _hour(self) -> int:
        return int(self._clock() // _HOUR_S)
