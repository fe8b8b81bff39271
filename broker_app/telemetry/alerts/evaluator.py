"""The alert evaluator: evaluates rules every few seconds, reports events, and stores the state."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker_app.base.internal_errors import EventListeners, internal_errors
from broker_app.telemetry.alerts.alert import Alert
from broker_app.telemetry.alerts.alert_state import AlertEvent, AlertState
from broker_app.telemetry.alerts.checks import ConditionChecks
from broker_app.telemetry.alerts.condition import Violation
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
        self._evaluating: asyncio.Task[None] | None = None
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

    def evaluate_if_due(self) -> None:
        """Begin to evaluate the rules, if it is time; called once a second."""
        is_due = self._clock() - self._evaluated_at >= EVERY_S - 0.5
        if is_due and (self._evaluating is None or self._evaluating.done()):
            self._evaluating = asyncio.create_task(self._evaluate_safely())

    async def _evaluate_safely(self) -> None:
        try:
            await self.evaluate()
        except Exception as error:  # of a task, which would end unseen
            internal_errors.note("the evaluation of alerts", error)

    async def evaluate(self) -> None:
        """Evaluate the rules; others are served meanwhile."""
        now = self._evaluated_at = self._clock()
        await self._checks.update(now)
        rules = self._rules()
        found = {rule.name: await self._checks.find(rule) for rule in rules if rule.enabled}
        self._notify(self.state.evaluate(now, rules, lambda rule: found[rule.name]))
        if self.state.changed and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._keep())

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set: shift all times."""
        self._evaluated_at += by_s
        self._checks.clock_stepped(by_s)
        self.state.clock_stepped(by_s)

    async def stop(self) -> None:
        """End an evaluation, and store the changes that are not stored yet."""
        if self._evaluating is not None:
            self._evaluating.cancel()
            await asyncio.wait([self._evaluating])
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

    async def preview(self, rule: AlertRule) -> list[Violation]:
        """All that the condition of a rule holds of now, the worst first; there need be no such rule."""
        return await self._checks.find(rule)

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
