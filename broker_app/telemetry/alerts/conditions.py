"""Checks of conditions: the subjects for which the condition of a rule holds, from the state of the
broker."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker_app.base.reply_types import Facts
from broker_app.base.times import milliseconds
from broker_app.base.turns import in_turns
from broker_app.core.broker import Broker
from broker_app.core.destination import is_forwarded
from broker_app.telemetry import component_health
from broker_app.telemetry.alerts import condition
from broker_app.telemetry.alerts.rule import GROWTH_S, AlertRule
from broker_app.telemetry.backlog import QueueBacklog
from broker_app.telemetry.client_events import ClientIdentity
from broker_app.telemetry.component_health import Component
from broker_app.telemetry.event_log import FILES, LoggedEvent
from broker_app.telemetry.statistics import Statistics

#: queues of dead letters whose growth is watched, and the interval of its samples
MAX_GROWING: Final = 1_000
GROWTH_STEP_S: Final = 30.0
#: seconds for which an alert about a takeover goes on
TAKEOVER_S: Final = 600.0
#: the state of a member that is suspect (`MemberReport`)
SUSPECT_STATE: Final = "UNKNOWN"


class Violation(NamedTuple):
    """A condition holds of `subject`: an address, a bridge, a user at a machine, files."""

    subject: str
    value: float
    facts: Facts = {}  # noqa: RUF012  never changed


#: kinds of components for which another condition finds what makes them failing, and degraded
_FAILING_ELSEWHERE = (component_health.LINK,)
_DEGRADED_ELSEWHERE = (component_health.STORE, component_health.LINK)


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
        self._bridges = bridges
        self._taken = taken
        self._flaps = flapping
        self._events = events
        self._components = components
        self._cluster = cluster
        self._now = 0.0
        self._growth = _Growth()
        #: what makes short steps, and yields what it finds in them
        self._checks: dict[str, Callable[[AlertRule], Iterator[Violation | None]]] = {
            condition.OLDEST_MESSAGE_AGE: self._oldest_message_age,
            condition.DEAD_LETTERS: self._dead_letters,
            condition.NO_CONSUMER: self._no_consumer,
            condition.BRIDGE_STALLED: self._stalled,
            condition.JOURNAL_DISK_USAGE: self._journal_disk_usage,
            condition.FLAPPING: self._flapping,
            condition.CONFIGURATION: self._refused,
            condition.FAILING: lambda rule: self._unhealthy(component_health.BROKEN, _FAILING_ELSEWHERE),
            condition.DEGRADED: lambda rule: self._unhealthy(
                (component_health.DEGRADED,), _DEGRADED_ELSEWHERE
            ),
            condition.LINK_DOWN: lambda rule: self._links(rule, "connecting", "stopped"),
            condition.LINK_REFUSED: lambda rule: self._links(rule, "refused"),
            condition.KEEPER_AWAY: self._keeper_away,
            condition.TAKEOVER: self._taken_over,
            condition.SUSPECT: self._suspects,
            condition.DISCOVERY: self._discovery,
        }

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set: shift all times."""
        self._growth.shift(by_s)

    async def update(self, now: float) -> None:
        """Called before `find`, with the present time. Others are served meanwhile, as in `find`."""
        self._now = now
        dead = {
            held.queue.address: held.queue.counters.published
            async for held in in_turns(self._waiting())
            if held.is_dead
        }
        self._growth.note(now, dead, self._broker.destinations.queues)

    async def find(self, rule: AlertRule) -> list[Violation]:
        """All findings of the rule, the worst first."""
        steps = in_turns(self._checks[rule.condition](rule))
        found = [one async for one in steps if one is not None and rule.is_about(one.subject)]
        return sorted(found, key=lambda one: -one.value)

    # ------------------------------------------------------------------ one condition each

    def _oldest_message_age(self, rule: AlertRule) -> Iterator[Violation | None]:
        for queue, depth, is_dead, since_ms in self._waiting():
            yield None
            if is_dead or since_ms is None or not queue.consumers:
                continue
            age_s = self._now - since_ms / 1000
            if age_s >= rule.threshold:
                yield Violation(queue.address, round(age_s), {"depth": depth})

    def _dead_letters(self, rule: AlertRule) -> Iterator[Violation]:
        for address, grown in self._growth.since(self._now - GROWTH_S):
            if grown >= max(1, rule.threshold):
                yield Violation(address, grown, {"depth": self._depth(address)})

    def _no_consumer(self, rule: AlertRule) -> Iterator[Violation | None]:
        for queue, depth, is_dead, _ in self._waiting():
            yield None
            # Store-and-forward queues have bridges; durable subscriptions may wait for their consumer.
            if is_dead or queue.consumers or queue.named or not queue.durable or is_forwarded(queue.address):
                continue
            if depth >= max(1, rule.threshold):
                yield Violation(queue.address, depth, {"depth": depth})

    def _stalled(self, rule: AlertRule) -> Iterator[Violation]:
        for bridge in self._bridges():
            flows = [flow for flow in bridge["flows"] if not flow["paused"]]
            states = {flow["state"] for flow in flows} | {bridge["state"]}
            state = next((state for state in ("failed", "stalled", "retrying") if state in states), None)
            backlog = _backlog(bridge)
            if state is not None and bridge["desired"] != "paused" and backlog >= rule.threshold:
                yield Violation(bridge["name"], backlog, {"state": state, "error": _code(bridge)})

    def _journal_disk_usage(self, rule: AlertRule) -> Iterator[Violation]:
        percent = 100 * self._taken()
        if percent >= rule.threshold:
            yield Violation("store", round(percent, 1))

    def _flapping(self, rule: AlertRule) -> Iterator[Violation]:
        for caller, times, _, end in self._flaps():
            if times >= rule.threshold:
                yield Violation(
                    f"{caller.user}@{caller.machine}", times, {"client": caller.client, "end": end}
                )

    def _refused(self, rule: AlertRule) -> Iterator[Violation]:
        last = next((event for event in self._events() if event.kind == FILES), None)
        if last is not None and last.code:
            yield Violation("files", 1, {"detail": last.detail[:500]})

    def _unhealthy(self, health: Container[str], besides: Container[str]) -> Iterator[Violation]:
        # A bridge with messages before it has a condition of its own, which says how many.
        reported = {bridge["name"] for bridge in self._bridges() if _backlog(bridge)}
        for one in self._components():
            known = one.kind in besides or (one.kind == component_health.BRIDGE and one.name in reported)
            if one.health in health and not known:
                facts = {"kind": one.kind, "health": one.health, "detail": one.reason[:500]}
                yield Violation(f"{one.kind}/{one.name}", 1, facts)

    def _links(self, rule: AlertRule, *states: str) -> Iterator[Violation]:
        cluster = self._cluster()
        for link in cluster["links"] if cluster is not None else ():
            if link["state"] in states and rule.threshold <= 1:
                yield Violation(link["broker"], 1, {"state": link["state"], "reason": link["reason"][:500]})

    def _keeper_away(self, rule: AlertRule) -> Iterator[Violation]:
        cluster = self._cluster()
        if cluster is not None and cluster["keeper_state"] and rule.threshold <= 1:
            yield Violation(cluster["keeper"], 1, {"reason": cluster["keeper_state"][:500]})

    def _taken_over(self, rule: AlertRule) -> Iterator[Violation]:
        latest: dict[str, Facts] = {}
        times: Counter[str] = Counter()
        for takeover in self._enhanced("takeovers"):  # the newest first
            began_ms = milliseconds(takeover["began"])
            if takeover["result"] == "running" or began_ms is None:
                continue
            if self._now - began_ms / 1000 < TAKEOVER_S:
                latest.setdefault(takeover["member"], takeover)
                times[takeover["member"]] += 1
        for member, number in times.items():
            if number >= rule.threshold:
                found = latest[member]
                reason = found["error"] or f"{found['why']}; lost: {found['lost']}"
                facts = {"taker": found["taker"], "result": found["result"], "reason": reason[:500]}
                yield Violation(member, number, facts)

    def _suspects(self, rule: AlertRule) -> Iterator[Violation]:
        for member in self._enhanced("members"):
            if member["state"] == SUSPECT_STATE and rule.threshold <= 1:
                yield Violation(member["broker"], 1, {"reason": member["why"][:500]})

    def _discovery(self, rule: AlertRule) -> Iterator[Violation]:
        cluster = self._cluster()
        for one in cluster["discovery"] if cluster is not None else ():
            if one["error"] and rule.threshold <= 1:
                yield Violation(f"{one['way']} {one['place']}", 1, {"reason": one["error"][:500]})

    def _enhanced(self, what: str) -> Sequence[Facts]:
        """A list of the report about the enhanced cluster; empty for a broker in none."""
        cluster = self._cluster()
        enhanced = cluster["enhanced"] if cluster is not None else None
        return enhanced[what] if enhanced is not None else ()

    # ------------------------------------------------------------------ reading the broker

    def _waiting(self) -> list[QueueBacklog]:
        return list(self._statistics.waiting())

    def _depth(self, address: str) -> int:
        queue = self._broker.destinations.queues.get(address)
        return queue.depth if queue is not None else 0


class _Growth:
    """The growth of dead letters by queue: samples of their totals, half a minute apart. One that was
    deleted is forgotten when its growth is no longer looked at."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, int]]] = {}
        self._latest: dict[str, int] = {}
        self._begun = False

    def note(self, now: float, totals: Mapping[str, int], queues: Container[str]) -> None:
        """`totals` are how many came since the node started, to those of all `queues` that hold any."""
        self._forget(now, queues)
        for address, total in totals.items():
            if address not in self._points and len(self._points) < MAX_GROWING:
                # What was there at the first look did not come since.
                first = (now, 0 if self._begun else total)
                self._points[address] = deque([first], maxlen=int(GROWTH_S / GROWTH_STEP_S) + 5)
        self._begun = True
        for address, points in self._points.items():
            total = totals.get(address, self._latest.get(address, 0))
            if total < points[-1][1]:  # the queue was created again
                points.clear()
                points.append((now, 0))
            elif now - points[-1][0] >= GROWTH_STEP_S and address in queues:
                points.append((now, total))
            self._latest[address] = total

    def _forget(self, now: float, queues: Container[str]) -> None:
        """Forget queues that were deleted so long ago that nothing can have come since."""
        gone = [
            address
            for address, points in self._points.items()
            if now - points[-1][0] > GROWTH_S and address not in queues
        ]
        for address in gone:
            del self._points[address], self._latest[address]

    def shift(self, by_s: float) -> None:
        """Move all points forward by this time, because the clock was set."""
        for points in self._points.values():
            shifted = [(at + by_s, total) for at, total in points]
            points.clear()
            points.extend(shifted)

    def since(self, then: float) -> Iterator[tuple[str, int]]:
        """(queue, how many came since then) of those to which any did."""
        for address, points in self._points.items():
            while len(points) > 1 and points[1][0] <= then:
                points.popleft()
            if grown := self._latest[address] - points[0][1]:
                yield address, grown


def _backlog(bridge: Mapping[str, Any]) -> int:
    """The messages that wait for a bridge, without those of flows that are paused."""
    return sum(flow["depth"] for flow in bridge["flows"] if not flow["paused"])


def _code(bridge: Mapping[str, Any]) -> str:
    errors = [flow["error"] for flow in bridge["flows"]] + [bridge["error"]]
    return next((error["code"] for error in errors if error is not None), "")
