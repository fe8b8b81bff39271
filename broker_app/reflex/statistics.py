"""Statistics of each declaration since the broker started."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from broker_app.reflex.declaration import Declaration
from broker_app.reflex.refusals import RefusalEvents
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.histogram import Durations, Percentiles

log = logging.getLogger(__name__)

#: after a failure was logged, further ones of the same declaration are only counted for so long, in seconds
QUIET_S: Final = 10.0
#: characters of a failure
MAX_FAILURE: Final = 1_000


class DeclarationStatistics:
    """Counts what one declaration decided; `refusal_events` reports its refusals. `clock` is monotonic, in
    seconds."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.refusal_events = RefusalEvents(events, clock)
        self.calls = self.refusals = self.failures = 0
        #: failures since the last verdict
        self.failures_in_row = 0
        #: further messages that were not published
        self.unpublished = 0
        #: the last failure, and when it was, in seconds since 1970
        self.last_failure, self.last_failure_s = "", 0.0
        self._times = Durations()
        self._logged_at = float("-inf")
        self._logged_failures = 0

    def decided(self, micros: int, *, accepted: bool) -> None:
        """Count a verdict that took `micros` of time."""
        self.calls += 1
        self.refusals += not accepted
        self.failures_in_row = 0
        self._times.record(int(self._clock()), (micros,))

    def failed(self, declaration: Declaration, reason: str) -> None:
        """Count a call that failed, and log it now and then."""
        self.calls += 1
        self.failures += 1
        self.failures_in_row += 1
        self.note(declaration, reason)

    def note(self, declaration: Declaration, reason: str) -> None:
        """Keep and log the reason of a failure."""
        self.last_failure, self.last_failure_s = reason[:MAX_FAILURE], time.time()
        now = self._clock()
        if now - self._logged_at < QUIET_S:
            return
        silent = self.failures - self._logged_failures - 1
        self._logged_at, self._logged_failures = now, self.failures
        more = f" ({silent} failures before were not logged)" if silent > 0 else ""
        log.warning("%s failed: %s%s", declaration.with_name(), reason[:MAX_FAILURE], more)

    def times(self) -> Percentiles:
        """The times of verdicts in milliseconds, of the last half to whole minute."""
        return self._times.percentiles(int(self._clock()))
