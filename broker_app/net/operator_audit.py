"""A buffer of operators' actions on messages, connections and jobs, for the audit log.

The event loop adds actions and never waits; the writer of the audit log takes them. The buffer is bounded:
lost actions are counted, and the count is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from broker_app.base.audit_actions import ACTIONS_LOST, AuditAction

#: origins of REST requests: a browser session is the console
CONSOLE, API = "console", "api"


class Operator(NamedTuple):
    """The user and token of a request, its origin and address, and its reason and trace id."""

    user: str
    token: str | None
    via: str
    address: str | None
    reason: str = ""
    trace_id: str = ""


class OperatorAction(NamedTuple):
    """One action at a time (seconds since the epoch) on a resource of a kind, with details."""

    time: float
    operator: Operator
    action: str
    kind: str
    key: str
    facts: Mapping[str, Any]


class _Reader(NamedTuple):
    """A user who reads the messages of one destination, and the masks that hide nothing from that user."""

    operator: Operator
    action: AuditAction
    key: str
    unmasked: tuple[str, ...] = ()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of its records, in addition to the number."""
        return {"unmasked": list(self.unmasked)} if self.unmasked else {}


class _Reading:
    """The number of messages that a user has read from one destination since the last record, and its
    time."""

    __slots__ = ("messages", "since")

    def __init__(self, since: float) -> None:
        self.messages = 0
        self.since = since


class OperatorActions:
    """Actions that are not in the audit log yet. Belongs to the event loop."""

    #: limit of waiting actions, and of users with recent reads
    MOST = 10_000
    #: seconds for which reads of one destination are combined
    READING_S = 60.0

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._waiting: list[OperatorAction] = []
        self._lost = 0
        self._readings: dict[_Reader, _Reading] = {}

    @property
    def are_waiting(self) -> bool:
        """True if some are to be written."""
        return bool(self._waiting)

    def note(self, operator: Operator, action: AuditAction, key: str, **facts: Any) -> None:
        """Record an action."""
        if len(self._waiting) < self.MOST:
            self._waiting.append(
                OperatorAction(self._clock(), operator, action.name, action.kind, key, facts)
            )
        else:
            self._lost += 1

    def note_reading(
        self, operator: Operator, action: AuditAction, key: str, messages: int, unmasked: tuple[str, ...] = ()
    ) -> None:
        """Record that message bodies were read, with what these masks hide from others. The first read is
        recorded at once, further ones once a minute."""
        if not messages:
            return
        # Requests of one reader differ in trace and reason.
        reader = _Reader(operator._replace(reason="", trace_id=""), action, key, unmasked)
        reading = self._readings.get(reader)
        if reading is not None:
            reading.messages += messages
        elif len(self._readings) < self.MOST:
            self._readings[reader] = _Reading(self._clock())
            self.note(operator, action, key, messages=messages, **reader.facts)
        else:
            self._lost += 1

    def take(self, *, last: bool = False) -> list[OperatorAction]:
        """Take all waiting actions; with `last`, combined reads too."""
        now = self._clock()
        for reader, reading in list(self._readings.items()):
            if now - reading.since >= self.READING_S or last:
                self._record_reads(reader, reading, now)
        taken, self._waiting = self._waiting, []
        if self._lost:
            operator = Operator("system", None, API, None)
            taken.append(
                OperatorAction(
                    now, operator, ACTIONS_LOST.name, ACTIONS_LOST.kind, "", {"actions": self._lost}
                )
            )
            self._lost = 0
        return taken

    def _record_reads(self, reader: _Reader, reading: _Reading, now: float) -> None:
        """Record the reads since the last record; forget a reader without new ones."""
        if reading.messages:
            self.note(reader.operator, reader.action, reader.key, messages=reading.messages, **reader.facts)
            reading.messages, reading.since = 0, now
        else:
            del self._readings[reader]
