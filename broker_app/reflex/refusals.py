"""Refusals of reflexes in the event log, so that operators find them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from broker_app.base.events import LIBRARY_FAILED, REFLEX_REFUSED
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, REGISTRATION, SERVICE, Declaration
from broker_app.reflex.subject import MessageSubject, Subject
from broker_app.telemetry.event_log import EventLog

#: the code when functions fail
FUNCTION_FAILED: Final = LIBRARY_FAILED.code
#: the codes of other refusals. A deregistration cannot be refused
CODES: Final = MappingProxyType(
    {ARRIVAL: "FILTERED", DELIVERY: "FILTERED", SERVICE: "REJECTED", REGISTRATION: "REGISTRATION_REFUSED"}
)
#: after an event, further refusals of the same declaration are only counted for so long, in seconds
QUIET_S: Final = 60.0
#: characters of a reason
_MAX_REASON: Final = 1_000


class RefusalEvents:
    """Notes refusals of one declaration: the first, then at most one in `QUIET_S`, with the number of those
    since the one before. `clock` is monotonic, in seconds."""

    def __init__(self, events: EventLog, clock: Callable[[], float]) -> None:
        self._events = events
        self._clock = clock
        self._noted_at = float("-inf")
        self._since = 0

    def note(self, declaration: Declaration, subject: Subject, reason: str, *, failed: bool = False) -> None:
        """Count a refusal, and note it unless one was noted a short time ago; `failed` means that the
        function failed."""
        code = CODES.get(declaration.kind)
        if code is None:
            return
        self._since += 1
        now = self._clock()
        if now - self._noted_at < QUIET_S:
            return
        refusals, self._since, self._noted_at = self._since, 0, now
        more = f" ({refusals - 1} more since the last entry)" if refusals > 1 else ""
        self._events.report(
            REFLEX_REFUSED,
            declaration.name,
            code=FUNCTION_FAILED if failed else code,
            detail=f"{_subject(declaration, subject)}: {reason[:_MAX_REASON]}{more}",
            refusals=refusals,
            **_facts(subject),
        )


def _subject(declaration: Declaration, subject: Subject) -> str:
    """The refused message or service, for sentences."""
    if not isinstance(subject, MessageSubject):
        registration = subject.registration
        return f"service {registration.name}" + (f" of {registration.user}" if registration.user else "")
    if declaration.kind == DELIVERY:
        return f"message from {subject.address} to {subject.user}"
    return f"message from {subject.user} to {subject.address}"


def _facts(subject: Subject) -> dict[str, str]:
    if not isinstance(subject, MessageSubject):
        registration = subject.registration
        return {"service": registration.name, "user": registration.user, "machine": registration.machine}
    facts = {"destination": subject.address, "user": subject.user, "type": subject.type}
    return facts | ({"id": subject.message_id.decode()} if subject.message_id else {})
