"""Events of client connections, from login until a day after the disconnection; and flapping clients.

They show operators why a connection ended: subscriptions, slowness, refusals and their reasons, and the end.
Messages are not recorded. All of it is bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from broker_app.base.reply_types import Facts
from broker_app.base.states import CLIENT_EVENT

CONNECTED, SUBSCRIBED, UNSUBSCRIBED, SLOW, RECOVERED, REFUSED, DRAINING, DISCONNECTING, CLOSED = CLIENT_EVENT
#: the reason of a connection that its client ended by DISCONNECT
LEFT: Final = "the client left"
#: how long the events of a disconnected client are kept
KEPT_S: Final = 24 * 3600.0
#: disconnected clients that are kept; events of one client, and of all together
MAX_GONE: Final = 2_000
MAX_EACH: Final = 50
MAX_EVENTS: Final = 100_000
#: a client with so many logins within so many seconds is flapping; clients whose logins are kept
FLAPS: Final = 5
FLAP_S: Final = 300.0
MAX_CALLERS: Final = 2_000
MAX_DETAIL: Final = 500


class ClientEvent(NamedTuple):
    """An event that happened `times` in a row, last at `at_s` and first at `first_s` (seconds since 1970).
    `code` names the problem, `by` the rule or the operator that decided it."""

    event: str
    at_s: float
    first_s: float
    code: str = ""
    detail: str = ""
    by: str = ""
    times: int = 1

    def repeats(self, other: ClientEvent) -> bool:
        """True if it is a repeat."""
        return (self.event, self.code, self.detail, self.by) == (
            other.event,
            other.code,
            other.detail,
            other.by,
        )


class ClientIdentity(NamedTuple):
    """The identity of a client over connections: its user, its client-id, and its machine."""

    user: str
    client: str
    machine: str


class ClientRecord:
    """One connection. `facts` are its last ones once it has ended, and None before."""

    __slots__ = ("browser", "caller", "dropped", "events", "facts", "id", "sample", "since_s")

    def __init__(self, id: str, caller: ClientIdentity, since_s: float, *, browser: bool) -> None:
        self.id = id
        self.caller = caller
        self.browser = browser
        self.since_s = since_s
        self.events: deque[ClientEvent] = deque([ClientEvent(CONNECTED, since_s, since_s)])
        #: events that were dropped
        self.dropped = 0
        self.facts: Facts | None = None
        #: frames in and out up to a time, and the rates (frames a second) before it
        self.sample = since_s, 0, 0, 0.0, 0.0

    @property
    def ended_s(self) -> float:
        """The time when it ended; 0 while it has not."""
        return self.events[-1].at_s if self.facts is not None else 0.0


class LoginCounts:
    """The recent logins of a client, and how its last connection ended."""

    __slots__ = ("last_end", "times")

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=100)
        self.last_end = ""


class ClientEvents:
    """Written in the loop. `clock` is seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, ClientRecord] = {}
        #: in the order of their ends
        self._gone: OrderedDict[str, ClientRecord] = OrderedDict()
        self._callers: OrderedDict[ClientIdentity, LoginCounts] = OrderedDict()
        self._events = 0

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    # ------------------------------------------------------------------ writing

    def begin(self, id: str, caller: ClientIdentity, *, browser: bool = False) -> None:
        """A client has logged in. A `browser` reconnects with each page: it never counts as flapping, and is
        not kept once it is gone, since programs would have to give way to it."""
        now = self._clock()
        self._open[id] = ClientRecord(id, caller, now, browser=browser)
        self._events += 1
        if not browser:
            self._count(caller, now)

    def _count(self, caller: ClientIdentity, now: float) -> None:
        calls = self._callers.get(caller)
        if calls is None:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.popitem(last=False)
            calls = self._callers[caller] = LoginCounts()
        else:
            self._callers.move_to_end(caller)
        calls.times.append(now)

    def note(self, id: str, event: str, *, code: str = "", detail: str = "", by: str = "") -> None:
        """Record an event of an open connection; others are ignored."""
        record = self._open.get(id)
        if record is not None:
            now = self._clock()
            self._add(record, ClientEvent(event, now, now, code, detail[:MAX_DETAIL], by))

    def end(self, id: str, facts: Facts, reason: str) -> None:
        """Record the end of a connection; `facts` are its last ones."""
        if id not in self._open:
            return
        self.note(id, CLOSED, detail=reason)
        record = self._open.pop(id)
        if record.browser:
            self._events -= len(record.events)
            return
        record.facts = facts
        self._gone[id] = record
        calls = self._callers.get(record.caller)
        if calls is not None and reason == LEFT:
            # A client that disconnects in good order may reconnect often, such as each `mom pub`.
            with suppress(ValueError):
                calls.times.remove(record.since_s)
            if not calls.times:
                del self._callers[record.caller]
        elif calls is not None:
            calls.last_end = reason[:MAX_DETAIL]
        while self._gone and (len(self._gone) > MAX_GONE or self._is_over(next(iter(self._gone.values())))):
            self._forget_first()

    def rates(self, id: str, frames_in: int, frames_out: int) -> tuple[float, float]:
        """Frames a second from a client and to it since the last call, at least a second ago; at the first
        call, since the connection was opened."""
        record = self._open.get(id)
        if record is None:
            return 0.0, 0.0
        at_s, in_, out, *before = record.sample
        passed = self._clock() - at_s
        if passed < 1.0:
            return before[0], before[1]
        rates = round((frames_in - in_) / passed, 1), round((frames_out - out) / passed, 1)
        record.sample = at_s + passed, frames_in, frames_out, *rates
        return rates

    # ------------------------------------------------------------------ reading

    def find(self, id: str) -> ClientRecord | None:
        """A connection that is open, or ended within the day."""
        record = self._open.get(id) or self._gone.get(id)
        return None if record is None or self._is_over(record) else record

    def gone(self) -> Iterator[ClientRecord]:
        """Connections that ended within the day, the last one first."""
        return (record for record in reversed(self._gone.values()) if not self._is_over(record))

    def flapping(self) -> list[tuple[ClientIdentity, int, float, str]]:
        """The flapping clients, the worst first: client, logins, time of the last one, how it ended."""
        since = self._clock() - FLAP_S
        found = [
            (caller, sum(at_s >= since for at_s in calls.times), calls.times[-1], calls.last_end)
            for caller, calls in self._callers.items()
        ]
        return sorted((row for row in found if row[1] >= FLAPS), key=lambda row: -row[1])

    # ------------------------------------------------------------------ bounds

    def _add(self, record: ClientRecord, happened: ClientEvent) -> None:
        last = record.events[-1]
        if happened.repeats(last):
            record.events[-1] = happened._replace(first_s=last.first_s, times=last.times + 1)
            return
        record.events.append(happened)
        self._events += 1
        if len(record.events) > MAX_EACH:
            self._drop(record)
        while self._events > MAX_EVENTS and self._gone:
            self._forget_first()
        if self._events > MAX_EVENTS and len(record.events) > 2:
            self._drop(record)

    def _drop(self, record: ClientRecord) -> None:
        """Drop the oldest event except the login."""
        del record.events[1]
        record.dropped += 1
        self._events -= 1

    def _forget_first(self) -> None:
        _, record = self._gone.popitem(last=False)
        self._events -= len(record.events)

    def _is_over(self, record: ClientRecord) -> bool:
        return record.facts is not None and record.ended_s < self._clock() - KEPT_S
