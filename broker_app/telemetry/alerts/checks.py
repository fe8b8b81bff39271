"""Checks of conditions: what they know of the broker, and the subjects for which one holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker_app.base.reply_types import Facts
from broker_app.base.turns import in_turns
from broker_app.core.broker import Broker
from broker_app.telemetry.alerts.condition import Violation
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.alerts.growth import GROWTH_S, Growth
from broker_app.telemetry.backlog import QueueBacklog
from broker_app.telemetry.client_events import ClientIdentity
from broker_app.telemetry.component_health import Component
from broker_app.telemetry.event_log import LoggedEvent
from broker_app.telemetry.statistics import Statistics

if TYPE_CHECKING:
    from broker_app.telemetry.alerts.rule import AlertRule


class ConditionChecks:
    """`bridges` is the status of bridges (`bridge.report`), `taken` the used part of the journal's space,
    from 0 to 1, `flapping` the clients that log in too often (`ClientEvents.flapping`), `events` the event
    log, the newest first, `components` what else has a health, `cluster` the status of the cluster, None
    without one."""

    def __init__(
        self,
        broker: Broker,
        statistics: Statistics,
        *,
        bridges: Callable[[], Sequence[Mapping[str, Any]]],
        taken: Callable[[], float],
        flapping: Callable[[], Iterable[tuple[ClientIdentity, int, float, str]]],
        events: Callable[[], Iterable[LoggedEvent]],
        components: Callable[[], Iterable[Component]] = tuple,
        cluster: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self.bridges = bridges
        self.taken = taken
        self.flapping = flapping
        self.events = events
        self.components = components
        self.cluster = cluster
        #: the time of the last `update`, in seconds since 1970
        self.now = 0.0
        self._growth = Growth()

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set: shift all times."""
        self._growth.shift(by_s)

    async def update(self, now: float) -> None:
        """Called before `find`, with the present time. Others are served meanwhile, as in `find`."""
        self.now = now
        dead = {
            held.queue.address: held.queue.counters.published
            async for held in in_turns(self.waiting())
            if held.is_dead
        }
        self._growth.note(now, dead, self._broker.destinations.queues)

    async def find(self, rule: AlertRule) -> list[Violation]:
        """All findings of the rule, the worst first."""
        steps = in_turns(CONDITIONS[rule.condition].check(self, rule))
        found = [one async for one in steps if one is not None and rule.is_about(one.subject)]
        return sorted(found, key=lambda one: -one.value)

    def waiting(self) -> list[QueueBacklog]:
        """The queues in which messages wait."""
        return list(self._statistics.waiting())

    def depth(self, address: str) -> int:
        """The messages of a queue; 0 if it does not exist."""
        queue = self._broker.destinations.queues.get(address)
        return queue.depth if queue is not None else 0

    def grown(self) -> Iterator[tuple[str, int]]:
        """(queue of dead letters, how many it got in the last ten minutes) of those that got any."""
        return self._growth.since(self.now - GROWTH_S)

    def enhanced(self, what: str) -> Sequence[Facts]:
        """A list of the report about the enhanced cluster; empty for a broker in none."""
        cluster = self.cluster()
        enhanced = cluster["enhanced"] if cluster is not None else None
        return enhanced[what] if enhanced is not None else ()
