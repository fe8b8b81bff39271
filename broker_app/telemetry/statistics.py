"""Numbers of destinations and of the node: sampled once a second, reported on request.

A pass reads the counters that the core keeps anyway and does something only for destinations whose
counters have moved. The shapes are those of `GET /api/v1/stats`, `GET /api/v1/queues/{name}/stats` and the
topics `$mom.stats…`; docs/protocol.md shows them.
"""

from __future__ import annotations

import resource
from collections import OrderedDict, deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.destination import is_reserved
from broker_app.core.model import NO_SAMPLES, Queue, Subscription
from broker_app.internal_errors import EventListeners, internal_errors
from broker_app.telemetry import health
from broker_app.telemetry.backlog import Backlog, BacklogTotals, QueueBacklog
from broker_app.telemetry.health import Health
from broker_app.telemetry.histogram import Durations, Percentiles
from broker_app.telemetry.loop_lag import LoopLag
from broker_app.telemetry.timeseries import History, Layout, Window
from broker_app.telemetry.trend import Traffic, Trend

MAX_DESTINATIONS = 1_000
#: destinations looked at in one go, so that a pass over many does not hold up messages
SLICE = 1_000
#: samples of one second, and the newest ones of a consumer
MAX_SAMPLES = 128
MAX_HOLDS = 64
#: a destination makes room for another one's history only when it has been at rest so long
REST_S = 60
#: of the node; `wait_p95_s` is that of the destination where it is longest
NODE_LAYOUT = Layout(
    counts=("in", "out", "died"),
    gauges=("backlog", "unsettled", "dead", "connections"),
    ages=("oldest_s",),
    durations=("wait_p95_s",),
)
#: a quarter of an hour, three hours, a day
NODE_RESOLUTIONS = ((1, 900), (10, 1_080), (60, 1_440))


class Totals(NamedTuple):
    """Messages since the node started; of topics `out` is what was handed to subscriptions there were."""

    in_: int = 0
    out: int = 0
    acked: int = 0
    dead: int = 0
    expired: int = 0


class DestinationHistory:
    """History and durations of a destination."""

    __slots__ = ("history", "hold", "wait")

    def __init__(self) -> None:
        self.history = History()
        self.wait = Durations()
        self.hold = Durations()


class ActivityCounters:
    """A destination that was active since the start: its totals, and how they moved in the last pass that
    found them changed. The `trend` is of what waits in a queue, and of what comes to a topic."""

    __slots__ = ("moved", "past", "second", "totals", "trend")

    def __init__(self, trend: Trend) -> None:
        self.trend = trend
        self.second = 0
        self.totals = Totals()
        self.moved = Totals()
        self.past: DestinationHistory | None = None


class Statistics:
    """`destinations` is how many have a history at a time."""

    def __init__(self, broker: Broker, name: str, version: str, *, destinations: int = 250) -> None:
        self._broker = broker
        self._name = name
        self._version = version
        self._most = destinations
        #: the latest to be active last
        self._activity: OrderedDict[str, ActivityCounters] = OrderedDict()
        #: addresses with a past, the one at rest the longest first
        self._remembered: OrderedDict[str, DestinationHistory] = OrderedDict()
        #: the second of the pass under way, and of the last one that is whole
        self._second = self._shown = 0
        self._elapsed = 1.0
        self._time = 0.0
        self._node_totals = (0, 0)
        self._node_moved = (0, 0)
        #: messages of `$mom` topics: by topic, together, and their deliveries
        self._system_topics: dict[str, int] = {}
        self._own_published = self._own_delivered = 0
        self._connections = 0
        self._journal_bytes = 0
        self._job_bytes = 0
        self._backlog = Backlog()
        self._sums = BacklogTotals()
        self._died = 0
        #: the longest of the 95th percentiles of waits, of destinations that moved in this pass
        self._longest_wait = float("nan")
        self._node_history = History(NODE_LAYOUT, NODE_RESOLUTIONS)
        self._latest: dict[str, Any] | None = None
        #: of the loop that this is used in; who runs the node starts and stops it
        self.loop_lag = LoopLag()
        #: called after each pass
        self.listeners: EventListeners[[]] = EventListeners("the statistics' listeners")

    # ------------------------------------------------------------------ one pass a second

    def sample(self, now: float, *, connections: int = 0, journal_bytes: int = 0, job_bytes: int = 0) -> None:
        """A whole pass at the time `now` (seconds since 1970)."""
        for _ in self.passing(now, connections=connections, journal_bytes=journal_bytes, job_bytes=job_bytes):
            pass

    def passing(
        self, now: float, *, connections: int = 0, journal_bytes: int = 0, job_bytes: int = 0
    ) -> Iterator[None]:
        """A pass in slices: messages may be moved at each step of the iterator."""
        first = not self._time
        self._elapsed = max(0.001, now - self._time) if self._time else 1.0
        self._time = now
        self._second = max(int(now), self._second)
        self._connections, self._journal_bytes, self._job_bytes = connections, journal_bytes, job_bytes
        self._died, self._longest_wait = 0, float("nan")
        queues = iter(list(self._broker.destinations.queues.values()))
        schedules = self._broker.scheduler.schedules
        while slice := list(islice(queues, SLICE)):
            for queue in slice:
                if first:  # 1 ms ago: the history counts an age on only when it is above 0
                    self._backlog.note_restored(queue, int(1000 * now) - 1)
                # Totals only grow; consumers come and go, and messages come back.
                sign = (
                    queue.counters.published
                    + queue.counters.delivered
                    + queue.counters.acked
                    + queue.counters.dead
                    + queue.counters.expired
                    + queue.counters.removed
                    + (len(queue.consumers) << 64)
                    + (queue.unsettled << 96)
                )
                if schedules:
                    sign += self._broker.scheduler.delayed(queue.address) << 128
                if queue.producers_paused or queue.consumers_paused:
                    sign += (2 * queue.producers_paused + queue.consumers_paused) << 160
                if sign != queue.samples.seen:
                    self._queue_moved(queue)
                    queue.samples.seen = sign
                elif first:
                    self._queue_restored(queue)
            yield
        for name, published in list(self._broker.publisher.topic_published.items()):
            if is_reserved(name):
                self._count_system_topic(name, published)
            else:
                self._topic_moved(name, published)
        self._count_node()
        self._note_node()
        self._shown = self._second
        self._latest = None
        if (
            len(self._activity)
            > 2 * len(self._broker.destinations.queues) + len(self._remembered) + MAX_DESTINATIONS
        ):
            self._forget_gone()
        self.listeners()

    def clock_stepped(self, by_s: float) -> None:
        """Move histories and trends with a clock that was set, so that rates continue."""
        seconds = round(by_s)
        self._time += by_s if self._time else 0.0
        self._second += seconds
        self._shown += seconds
        self._node_history.shift(seconds)
        for activity in self._activity.values():
            activity.second += seconds
            activity.trend.shift(seconds)
            if activity.past is not None:
                activity.past.history.shift(seconds)
                activity.past.wait.shift(seconds)
                activity.past.hold.shift(seconds)

    def _note_node(self) -> None:
        self._sums = sums = self._backlog.sum(self._broker.destinations.queues)
        gauges = sums.backlog, sums.unsettled, sums.dead, self._connections
        row = *self._node_moved, self._died, *gauges, self._node_oldest_s(), self._longest_wait
        self._node_history.put(self._second, row)

    def _node_oldest_s(self) -> float:
        since_ms = self._sums.since_ms
        return max(0.0, self._time - since_ms / 1000) if since_ms is not None else 0.0

    def _queue_restored(self, queue: Queue) -> None:
        """Begin the history of a queue whose messages are older than the node. It is the first to make room
        for a destination that is active."""
        self._backlog.note(queue, self._broker.turn.policies.dead_letter_queues)
        address = queue.address
        if not queue.depth or address.startswith("/temp-") or len(self._remembered) >= self._most:
            return
        activity = self._note_activity(address, Totals())
        activity.second = 0  # nothing moved
        activity.trend.put(self._second, queue.depth)
        past = self._past(address, activity)
        self._activity.move_to_end(address, last=False)
        if past is not None:
            self._remembered.move_to_end(address, last=False)
            gauges = queue.depth, queue.unsettled, self._broker.scheduler.delayed(address), 0
            past.history.put(self._second, (*Totals(), *gauges, self._oldest_s(queue), *[float("nan")] * 6))

    def _queue_moved(self, queue: Queue) -> None:
        self._backlog.note(queue, self._broker.turn.policies.dead_letter_queues)
        totals = Totals(
            queue.counters.published,
            queue.counters.delivered,
            queue.counters.acked,
            queue.counters.dead,
            queue.counters.expired,
        )
        activity = self._note_activity(queue.address, totals, from_zero=not queue.samples.seen)
        self._died += activity.moved.dead
        activity.trend.put(self._second, queue.depth)
        past = self._past(queue.address, activity)
        if past is None:
            return
        second = self._second
        if queue.samples.waits is NO_SAMPLES:
            queue.samples.waits, queue.samples.holds = deque(maxlen=MAX_SAMPLES), deque(maxlen=MAX_SAMPLES)
        past.wait.record(second, queue.samples.waits)
        past.hold.record(second, queue.samples.holds)
        queue.samples.waits.clear()
        queue.samples.holds.clear()
        waiting = queue.depth, queue.unsettled, self._broker.scheduler.delayed(queue.address)
        gauges = *waiting, len(queue.consumers), self._oldest_s(queue)
        wait = past.wait.percentiles(second)
        if wait.p95 is not None and not wait.p95 <= self._longest_wait:  # which may be no number
            self._longest_wait = wait.p95
        durations = (*wait[:3], *past.hold.percentiles(second)[:3])
        numbers = [float("nan") if value is None else value for value in durations]
        past.history.put(second, (*activity.moved, *gauges, *numbers))

    def _count_system_topic(self, name: str, published: int) -> None:
        """Count the messages of a system topic, which are left out of the node's totals. Its deliveries
        follow from the number of subscriptions, as for all topics."""
        known = self._system_topics.get(name, 0)
        added = published - known if published >= known else published  # the count may start again at 0
        if added:
            self._system_topics[name] = published
            self._own_published += added
            self._own_delivered += added * self._listeners(name)[0]

    def _count_node(self) -> None:
        counters, before = self._broker.turn.counters, self._node_totals
        published = max(before[0], counters["published"] - self._own_published)
        delivered = max(before[1], counters["delivered"] - self._own_delivered)
        self._node_totals = published, delivered
        self._node_moved = published - before[0], delivered - before[1]

    def _topic_moved(self, name: str, published: int) -> None:
        address = f"/topic/{name}"
        activity = self._activity.get(address)
        if activity is not None and activity.totals.in_ == published:
            return
        again = activity is not None and published < activity.totals.in_  # it is counted from the beginning
        before = activity.totals if activity and not again else Totals()
        consumers, depth, unsettled = self._listeners(name)
        out = before.out + (published - before.in_) * consumers
        activity = self._note_activity(address, Totals(published, out, out), from_zero=again)
        activity.trend.put(self._second, activity.moved.in_)
        past = self._past(address, activity)
        if past is not None:
            row = (
                *activity.moved,
                depth,
                unsettled,
                self._broker.scheduler.delayed(address),
                consumers,
                0.0,
                *[float("nan")] * 6,
            )
            past.history.put(self._second, row)

    def _note_activity(self, address: str, totals: Totals, *, from_zero: bool = False) -> ActivityCounters:
        """Record the totals of a destination, and what moved since they were read last. `from_zero`: it was
        created again since, and its totals began at 0."""
        activity = self._activity.get(address)
        if activity is None:
            trend = Traffic() if address.startswith("/topic/") else Trend()
            activity = self._activity[address] = ActivityCounters(trend)
        self._activity.move_to_end(address)
        before = Totals() if from_zero else activity.totals
        activity.moved = Totals(*map(int.__sub__, totals, before))
        activity.totals = totals
        activity.second = self._second
        return activity

    def _past(self, address: str, activity: ActivityCounters) -> DestinationHistory | None:
        """The past of an active destination; None when too many others are active, and for temporary ones."""
        if activity.past is None:
            if address.startswith("/temp-"):
                return None
            if len(self._remembered) >= self._most and not self._make_room():
                return None
            activity.past = self._remembered[address] = DestinationHistory()
        self._remembered.move_to_end(address)
        return activity.past

    def _make_room(self) -> bool:
        address = next(iter(self._remembered), None)
        if address is None or self._activity[address].second > self._second - REST_S:
            return False
        self._forget(address)
        return True

    def _forget(self, address: str) -> None:
        del self._remembered[address]
        self._activity[address].past = None
        queue = self._broker.destinations.queues.get(address)
        if queue is not None:
            queue.samples.waits = queue.samples.holds = NO_SAMPLES

    def _forget_gone(self) -> None:
        """Destinations that ended are remembered as long as their past."""
        queues, topics = self._broker.destinations.queues, self._broker.publisher.topic_published
        for address, activity in list(self._activity.items()):
            there = address in queues or address.removeprefix("/topic/") in topics
            if not there and activity.past is None:
                del self._activity[address]
        self._system_topics = {name: count for name, count in self._system_topics.items() if name in topics}

    # ------------------------------------------------------------------ telling

    def latest(self) -> dict[str, Any]:
        """The node, and the destinations as of the last pass: all of them, or those last active."""
        if self._latest is None:
            rows = [self.brief(address) for address in self._chosen()]
            self._latest = {**self.head(), "destinations": rows}
        return self._latest

    def head(self) -> dict[str, Any]:
        """The time of the last pass, and the numbers of the node."""
        return {"time": rfc3339(self._time), "node": self._node()}

    def _node(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "version": self._version,
            "connections": self._connections,
            "in_rate": round(self._node_moved[0] / self._elapsed, 1),
            "out_rate": round(self._node_moved[1] / self._elapsed, 1),
            "published": self._node_totals[0],
            "delivered": self._node_totals[1],
            "discarded": self._broker.turn.counters["discarded"],
            "backlog": self._sums.backlog,
            "unsettled": self._sums.unsettled,
            "oldest_s": round(self._node_oldest_s(), 3),
            "dead": self._sums.dead,
            "memory_bytes": resident_bytes(),
            "memory_level": self._broker.resource_alarms.memory_level,
            "refuses": self._broker.resource_alarms.alarm.code
            if self._broker.resource_alarms.alarm
            else None,
            "waiting_bytes": self._broker.admission.blocked.bytes,
            "journal_bytes": self._journal_bytes,
            "job_bytes": self._job_bytes,
            "destinations": len(self._broker.destinations.queues) + len(self._topics()),
            "internal_errors": internal_errors.total,
            "loop_lag_s": round(self.loop_lag.lag_s(1), 3),
            "loop_lag_1m_s": round(self.loop_lag.lag_s(60), 3),
            "loop_blocked_1m_s": round(self.loop_lag.blocked_s(60), 3),
            "loop_busy_1m_s": round(self.loop_lag.busy_s(60), 3),
        }

    def brief(self, address: str) -> dict[str, Any]:
        """One destination in a line. KeyError when there is none."""
        if address.startswith("/topic/"):
            consumers, depth, unsettled = self._listeners(address.removeprefix("/topic/"))
            kind, oldest_s = "topic", 0.0
        else:
            queue = self._broker.destinations.queues[address]
            kind = "queue" if queue.durable else "temp-queue"
            depth, unsettled = queue.depth, queue.unsettled
            consumers, oldest_s = len(queue.consumers), round(self._oldest_s(queue), 3)
        moved = self._moved(address)
        return {
            "name": address,
            "kind": kind,
            "depth": depth,
            "unsettled": unsettled,
            "delayed": self._broker.scheduler.delayed(address),
            "consumers": consumers,
            "in_rate": self._rate(moved.in_),
            "out_rate": self._rate(moved.out),
            "oldest_s": oldest_s,
        }

    def full(self, address: str) -> dict[str, Any]:
        """All that is known of one destination now. KeyError when there is none."""
        activity = self._activity.get(address)
        past = activity.past if activity else None
        moved = self._moved(address)
        totals = self._totals(address)
        return {
            **self.brief(address),
            **self.condition(address)._asdict(),
            "acked_rate": self._rate(moved.acked),
            "dead_rate": self._rate(moved.dead),
            "expired_rate": self._rate(moved.expired),
            "published": totals.in_,
            "delivered": totals.out,
            "acknowledged": totals.acked,
            "dead": totals.dead,
            "expired": totals.expired,
            "wait_s": _spelled(past.wait.percentiles(self._second) if past else None),
            "hold_s": _spelled(past.hold.percentiles(self._second) if past else None),
        }

    def rates(self, address: str) -> tuple[float, float]:
        """Messages that came and went, a second, in the last pass."""
        moved = self._moved(address)
        return self._rate(moved.in_), self._rate(moved.out)

    def condition(self, address: str) -> Health:
        """How a destination is doing. KeyError when there is no such queue."""
        moved = self._moved(address)
        moving = bool(moved.in_ or moved.out)
        if address.startswith("/topic/"):
            return health.topic_health(self._broker, address, moving=moving)
        activity = self._activity.get(address)
        growth = activity.trend.growth(self._shown) if activity is not None else None
        return health.queue_health(
            self._broker, self._broker.destinations.queues[address], moving=moving, growth=growth
        )

    def depth(self, address: str) -> int:
        """Messages that wait in a queue, or for the subscriptions of a topic. KeyError when there is none."""
        if address.startswith("/topic/"):
            return self._listeners(address.removeprefix("/topic/"))[1]
        return self._broker.destinations.queues[address].depth

    def trend(self, address: str) -> list[int]:
        """What waited in a queue, or came to a topic, in steps of `trend.STEP_S` up to the last pass; fewer
        where less is known."""
        activity = self._activity.get(address)
        if activity is not None:
            return activity.trend.trend(self._shown)
        queue = self._broker.destinations.queues.get(address)
        return [queue.depth] if queue is not None else []

    def acked_rate(self, address: str) -> float:
        """Messages of a destination that were acknowledged, a second, in the last pass."""
        return self._rate(self._moved(address).acked)

    def window(self, address: str, window_s: int, step_s: int) -> Window:
        """The past of a destination, up to the last pass. All None for one that was never active, or whose
        past had to make room."""
        activity = self._activity.get(address)
        history = activity.past.history if activity and activity.past else History()
        return history.window(self._shown, window_s, step_s)

    def window_of_node(self, window_s: int, step_s: int) -> Window:
        """The past of the node, up to the last pass."""
        return self._node_history.window(self._shown, window_s, step_s)

    def waiting(self) -> Iterator[QueueBacklog]:
        """Queues in which something waits or is handed out, as of the last pass."""
        return iter(self._backlog)

    def knows(self, address: str) -> bool:
        """Whether the destination exists, or its past is remembered."""
        return address in self._remembered or self.is_there(address)

    def is_there(self, address: str) -> bool:
        """Whether the queue exists, or something was published to the topic."""
        if address.startswith("/topic/"):
            return address.removeprefix("/topic/") in self._broker.publisher.topic_published
        return address in self._broker.destinations.queues

    def moving(self) -> list[str]:
        """Addresses that were active in the last pass, or came to rest in it."""
        recent = []
        for address in reversed(self._activity):
            if self._activity[address].second < self._shown - 1:
                break
            if self.is_there(address):
                recent.append(address)
        return recent

    # ------------------------------------------------------------------ reading the core

    def _chosen(self) -> list[str]:
        broker = self._broker
        if len(broker.destinations.queues) + len(self._topics()) <= MAX_DESTINATIONS:
            return [*broker.destinations.queues, *self._topics()]
        there = (address for address in reversed(self._activity) if self.is_there(address))
        chosen = dict.fromkeys(islice(there, MAX_DESTINATIONS))
        for address in broker.destinations.queues:
            if len(chosen) >= MAX_DESTINATIONS:
                break
            chosen[address] = None
        return list(chosen)

    def _topics(self) -> list[str]:
        return [f"/topic/{name}" for name in self._broker.publisher.topic_published if not is_reserved(name)]

    def _moved(self, address: str) -> Totals:
        """What moved in the last pass."""
        activity = self._activity.get(address)
        return activity.moved if activity is not None and activity.second >= self._shown else Totals()

    def _totals(self, address: str) -> Totals:
        activity = self._activity.get(address)
        return activity.totals if activity is not None else Totals()

    def _rate(self, messages: int) -> float:
        return round(messages / self._elapsed, 1)

    def _listeners(self, name: str) -> tuple[int, int, int]:
        """Subscriptions that match a topic's name, what waits for them, what they hold unsettled."""
        match = self._broker.destinations.topics.match(name)
        depth = sum(subscription.queue.depth for subscription in match.singles)
        unsettled = sum(subscription.unsettled for subscription in match.singles)
        return match.copies, depth, unsettled

    def _oldest_s(self, queue: Queue) -> float:
        since_ms = self._backlog.since_ms(queue)
        return max(0.0, self._time - since_ms / 1000) if since_ms is not None else 0.0


def consumer(broker: Broker, subscription: Subscription) -> dict[str, Any]:
    """One subscription, as operators see it. `slow_since` is since when it has taken nothing while messages
    wait for it, None when it is not slow. `connection` is None for those that do not speak STOMP."""
    peer, queue = subscription.peer, subscription.queue
    slow_ms = broker.subscriptions.slowness.since_ms(subscription)
    # The REST plane serves many users through one peer and writes them behind the number.
    id, _, user = subscription.id.partition("\0")
    return {
        "id": id,
        "destination": subscription.address,
        "connection": peer.connection or None,
        "user": user or peer.user,
        "ack": subscription.ack,
        "selector": subscription.selector.text if subscription.selector else None,
        "exclusive": subscription.exclusive,
        "active": queue.active in (None, subscription),
        "credit": subscription.credit,
        "unsettled": subscription.unsettled,
        "delivered": subscription.delivered,
        "acknowledged": subscription.acked,
        "returned": subscription.returned,
        "waiting": queue.depth,
        "since": rfc3339(subscription.since_ms / 1000),
        "slow_since": rfc3339(slow_ms / 1000) if slow_ms else None,
    }


def hold_s(subscription: Subscription) -> dict[str, Any]:
    """How long a consumer held what it settled of late, in seconds; timed from the first time that somebody
    asks."""
    if subscription.holds is NO_SAMPLES:
        subscription.holds = deque(maxlen=MAX_HOLDS)
    held = sorted(subscription.holds)
    if not held:
        return {"p50": None, "p95": None, "samples": 0}
    p50, p95 = (held[-(-len(held) * percent // 100) - 1] / 1000 for percent in (50, 95))
    return {"p50": p50, "p95": p95, "samples": len(held)}


def _spelled(found: Percentiles | None) -> dict[str, Any]:
    return (found or Percentiles(None, None, None, 0))._asdict()


def rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def resident_bytes() -> int:
    """Memory of this process in use now (Linux), or its peak where that cannot be read."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
