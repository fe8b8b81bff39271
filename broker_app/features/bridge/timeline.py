"""Timeline: what happened to one bridge, the newest last, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker_app.base.events import OF_CAUSE, Event

MOST = 200


class TimelineEvent(NamedTuple):
    """Something happened `times` times in a row, last at `time_ms`. `queue` is the remote queue of a flow,
    empty for the pipe; `code` names a trouble, empty for good news."""

    time_ms: int
    first_ms: int
    event: Event
    queue: str
    code: str
    detail: str
    times: int


class Timeline:
    """`now_ms` is milliseconds since 1970; `notify` is called with each event that does not repeat the last
    one."""

    def __init__(self, now_ms: Callable[[], int], notify: Callable[[TimelineEvent], None]) -> None:
        self._now_ms = now_ms
        self._notify = notify
        self._events: deque[TimelineEvent] = deque(maxlen=MOST)
        #: the last event of the pipe and of each flow, to recognise repeats
        self._last: dict[str, TimelineEvent] = {}

    def note(self, event: Event, queue: str = "", code: str = "", detail: str = "") -> None:
        """Note an event. One like the last of the same queue is counted there, and the newest again."""
        now_ms = self._now_ms()
        if not code and event.code != OF_CAUSE:
            code = event.code
        last = self._last.get(queue)
        if last is not None and (last.event, last.code) == (event, code) and last in self._events:
            again = last._replace(time_ms=now_ms, detail=detail, times=last.times + 1)
            self._events.remove(last)
            self._events.append(again)
            self._last[queue] = again
            return
        fresh = TimelineEvent(now_ms, now_ms, event, queue, code, detail, 1)
        self._events.append(fresh)
        self._last[queue] = fresh
        self._notify(fresh)

    def forget(self, queue: str) -> None:
        """There is no such flow any more."""
        self._last.pop(queue, None)

    def events(self) -> list[TimelineEvent]:
        """Those that are kept, the newest last."""
        return list(self._events)
