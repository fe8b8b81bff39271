"""The event log: events of bridges, files, alerts, mirrors, clusters, callbacks, reflexes, store and broker.

It is bounded, and for operators: rare events, each with a sentence. Operators' actions are in the audit log;
live events are published on topics (`system_topics`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from broker_app.base.events import EVENTS, FILES, KINDS, OF_CAUSE, Event
from broker_app.base.internal_errors import EventListeners
from broker_app.base.reply_types import Time, about, one_of
from broker_app.base.times import rfc3339

log = logging.getLogger(__name__)

#: events that are kept
MOST: Final = 2_000


class EventStatus(TypedDict):
    """An event as the API shows it."""

    id: str
    at: Time
    kind: Annotated[str, one_of(KINDS)]
    name: Annotated[str, about("of the bridge or the alert rule, or the files that changed")]
    event: Annotated[str, one_of(EVENTS)]
    code: Annotated[str, about("of a trouble; empty where there is none")]
    detail: str
    facts: Mapping[str, Any]


class LoggedEvent(NamedTuple):
    """An event at a time (seconds since 1970) of a subject of a kind; `code` is the error, if any."""

    number: int
    at_s: float
    kind: str
    name: str
    event: str
    code: str
    detail: str
    facts: Mapping[str, Any]

    def shown(self) -> EventStatus:
        """The event for the API."""
        return {
            "id": str(self.number),
            "at": rfc3339(self.at_s),
            "kind": self.kind,
            "name": self.name,
            "event": self.event,
            "code": self.code,
            "detail": self.detail,
            "facts": dict(self.facts),
        }


class EventLog:
    """Written in the loop. `clock` is seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._events: deque[LoggedEvent] = deque(maxlen=MOST)
        #: called with each event
        self.listeners: EventListeners[[LoggedEvent]] = EventListeners("the event log's listeners")
        #: how many there were since the node started
        self.total = 0

    def report(self, event: Event, name: str, *, code: str = "", **fields: Any) -> None:
        """An event has happened to `name`; its `fields` are facts, but for the detail. `code` is that of the
        cause, if the event has none of its own."""
        detail = event.sentence.format_map(fields)
        fields.pop("detail", None)
        code = code or ("" if event.code == OF_CAUSE else event.code)
        self.total += 1
        logged = LoggedEvent(self.total, self._clock(), event.kind, name, event.name, code, detail, fields)
        self._events.append(logged)
        if event.kind != FILES:  # who reads the files has a line of its own, also before the node runs
            _write(logged)
        self.listeners(logged)

    def all(self) -> list[LoggedEvent]:
        """Those that are kept, the newest first; for other threads, too."""
        return list(self._events)[::-1]

    def page(self, limit: int, before: int | None, fits: Callable[[LoggedEvent], bool]) -> list[LoggedEvent]:
        """The first `limit` of those that fit and are older than the number `before`, the newest first."""
        found = (
            event
            for event in reversed(self._events)
            if (before is None or event.number < before) and fits(event)
        )
        return list(islice(found, limit))

    def __len__(self) -> int:
        return len(self._events)


def _write(event: LoggedEvent) -> None:
    """Write an event into the log of the process; one with a code is trouble."""
    log.log(
        logging.WARNING if event.code else logging.INFO,
        "%s %s: %s%s%s",
        event.kind,
        event.name,
        event.event,
        f" ({event.code})" if event.code else "",
        f": {event.detail}" if event.detail else "",
        extra={
            "kind": (event.kind, event.name, event.event, event.code),
            "facts": {name: getattr(event, name) for name in ("kind", "name", "event", "code", "detail")},
        },
    )
