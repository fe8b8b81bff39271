"""The alert evaluator: evaluates rules every few seconds, reports events, and stores the state."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker_app.base.internal_errors import EventListeners
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.alerts.alert_state import AlertEvent, AlertState
from broker_app.telemetry.alerts.conditions import ConditionChecks
from broker_app.telemetry.alerts.rule import AlertRule

log = logging.getLogger(__name__)

#: seconds between two evaluations
EVERY_S: Final = 5.0


class AlertEvaluator:
    """`file` stores acknowledgements and silences over a restart, `rules` are the present ones, `clock` is
    seconds since 1970."""

    def __init__(
        self,
        file: Path,
        checks: ConditionChecks,
        rules: Callable[[], Sequence[AlertRule]],
        clock: Callable[[], float],
    ) -> None:
        self._file = file
        self._checks = checks
        self._rules = rules
        self._clock = clock
        self._evaluated_at = 0.0
        self._keeping: asyncio.Task[None] | None = None
        self.state = AlertState()
        #: called with each event of an alert
        self.listeners: EventListeners[[AlertEvent]] = EventListeners("the alerts' listeners")

    def start(self) -> None:
        """Restore the alerts that were open when the node stopped. Blocks."""
        try:
            kept = json.loads(self._file.read_bytes())
            self.state.restore(kept, self._clock())
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, AttributeError, AssertionError) as error:
            # Alerts are found again; acknowledgements and silences are lost.
            log.warning("%s cannot be used, so acknowledgements and silences are lost: %s", self._file, error)
            self.state = AlertState()

    def evaluate(self) -> None:
        """Evaluate the rules, if it is time; called once a second."""
        now = self._clock()
        if now - self._evaluated_at < EVERY_S - 0.5:
            return
        self._evaluated_at = now
        self._checks.update(now)
        self._notify(self.state.evaluate(now, self._rules(), self._checks.find))
        if self.state.changed and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._keep())

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set: shift all times."""
        self._evaluated_at += by_s
        self._checks.clock_stepped(by_s)
        self.state.clock_stepped(by_s)

    async def stop(self) -> None:
        """Store the changes that are not stored yet."""
        if self._keeping is not None:
            await self._keeping
        if self.state.changed:
            await self._keep()

    async def _keep(self) -> None:
        content = json.dumps(self.state.kept()).encode()
        try:
            await asyncio.to_thread(self._write, content)
        except OSError as error:
            log.warning("the state of alerts cannot be written to %s: %s", self._file, error)

    def _write(self, content: bytes) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(self._file)

    # ------------------------------------------------------------------ for the REST API

    def all(self) -> list[Alert]:
        """The open alerts, the worst first; then the ended ones, the newest first."""
        return self.state.all()

    def find(self, id: str) -> Alert | None:
        """An alert that is open or ended recently."""
        return self.state.find(id)

    def acknowledge(self, alert: Alert, by: str, reason: str) -> None:
        """An operator works on it."""
        self._notify([self.state.acknowledge(alert, by, reason)])

    def silence(self, alert: Alert, for_s: float, by: str, reason: str) -> None:
        """Send no notifications for so many seconds."""
        self._notify([self.state.silence(alert, self._clock() + for_s, by, reason)])

    def reopen(self, alert: Alert) -> None:
        """Undo acknowledging or silencing."""
        self._notify([self.state.reopen(alert)])

    def _notify(self, events: Sequence[AlertEvent]) -> None:
        for event in events:
            self.listeners(event)
