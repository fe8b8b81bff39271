"""Numbers of destinations and of the node: sampled once a second, reported on request.

A pass reads the counters that the core keeps anyway and does something only for destinations whose
counters have moved. The shapes are those of `GET /api/v1/stats`, `GET /api/v1/queues/{name}/stats` and the
topics `$mom.stats…`; docs/protocol.md shows them.
"""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import EventListeners, internal_errors
from broker_app.base.times import rfc3339
from broker_app.core.broker import Broker
from broker_app.core.commands import AUTO
from broker_app.core.destination import is_reserved
from broker_app.core.model import NO_SAMPLES, Queue, Subscription
from broker_app.telemetry import health
from broker_app.telemetry.activity import Activity, Totals
from broker_app.telemetry.backlog import QueueBacklog
from broker_app.telemetry.figures import (
    AllFigures,
    ConsumerFigures,
    DestinationFigures,
    DurationFigures,
    HoldTimes,
    LatestStatistics,
    NodeFigures,
    StatisticsHead,
)
from broker_app.telemetry.health import Health
from broker_app.telemetry.histogram import Percentiles
from broker_app.telemetry.loop_lag import LoopLag
from broker_app.telemetry.node_totals import Gauges, MessageTotals, NodeTotals
from broker_app.telemetry.timeseries import History, Window

MAX_DESTINATIONS = 1_000
#: queues that are sampled between two looks at the clock, less one: a mask
_QUEUES = 15
#: samples of one second, and the newest ones of a consumer
MAX_SAMPLES = 128
MAX_HOLDS = 64


class Statistics:
    """Samples the broker once a second; at most `destinations` destinations have a history."""

    def __init__(self, broker: Broker, name: str, version: str, *, destinations: int = 250) -> None:
        self._broker = broker
        self._name = name
        self._version = version
        self._activity = Activity(destinations, self._drop_samples)
        self._node_totals = NodeTotals(broker)
        #: the second of the sample in progress, and of the last complete one
        self._second = self._shown = 0
        self._elapsed = 1.0
        self._time = 0.0
        self._gauges = Gauges()
        self._latest: LatestStatistics | None = None
        #: of the loop that this is used in; who runs the node starts and stops it
        self.loop_lag = LoopLag()
        #: called after each pass
        self.listeners: EventListeners[[]] = EventListeners("the statistics' listeners")

    # ------------------------------------------------------------------ one pass a second

    def sample(self, now: float, *, connections: int = 0, journal_bytes: int = 0, job_bytes: int = 0) -> None:
        """Take a whole sample at the time `now` (seconds since 1970)."""
        for _ in self.passing(now, connections=connections, journal_bytes=journal_bytes, job_bytes=job_bytes):
            pass

    def passing(
        self, now: float, *, connections: int = 0, journal_bytes: int = 0, job_bytes: int = 0
    ) -> Iterator[None]:
        """Take a sample in turns: messages may be moved at each step of the iterator."""
        first = not self._time
        self._elapsed = max(0.001, now - self._time) if self._time else 1.0
        self._time = now
        self._second = max(int(now), self._second)
        self._gauges = Gauges(connections, journal_bytes, job_bytes)
        self._node_totals.begin()
        schedules = self._broker.scheduler.schedules
        deadline = Deadline(time.monotonic)
        deadline.begin()
        for at, queue in enumerate(list(self._broker.destinations.queues.values())):
            if first:  # 1 ms ago: the history counts an age on only when it is above 0
                self._node_totals.backlog.note_restored(queue, int(1000 * now) - 1)
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
            if at & _QUEUES == 0 and deadline.passed:
                yield
                deadline.begin()
        yield
        yield from self._node_totals.add_up()
        for name, published in list(self._broker.publisher.topic_published.items()):
            if is_reserved(name):
                self._node_totals.note_own_topic(name, published)
            else:
                self._topic_moved(name, published)
        self._node_totals.end(self._second, self._time, connections)
        self._shown = self._second
        self._latest = None
        known = 2 * len(self._broker.destinations.queues) + self._activity.histories
        if len(self._activity) > known + MAX_DESTINATIONS:
            self._activity.forget_deleted(self.exists)
            self._node_totals.forget_deleted()
        self.listeners()

    def clock_stepped(self, by_s: float) -> None:
        """The clock was set forward: move all times, so that rates and trends continue."""
        seconds = round(by_s)
        self._time += by_s if self._time else 0.0
        self._second += seconds
        self._shown += seconds
        self._node_totals.history.shift(seconds)
        self._activity.shift(seconds)

    def _queue_restored(self, queue: Queue) -> None:
        """Begin the history of a queue whose messages are older than the node."""
        self._node_totals.note_queue(queue)
        past = self._activity.note_restored(queue.address, self._second, queue.depth) if queue.depth else None
        if past is not None:
            gauges = queue.depth, queue.unsettled, self._broker.scheduler.delayed(queue.address), 0
            past.history.put(self._second, (*Totals(), *gauges, self._oldest_s(queue), *[float("nan")] * 6))

    def _queue_moved(self, queue: Queue) -> None:
        self._node_totals.note_queue(queue)
        totals = Totals(
            queue.counters.published,
            queue.counters.delivered,
            queue.counters.acked,
            queue.counters.dead,
            queue.counters.expired,
        )
        counters = self._activity.note(queue.address, totals, self._second, restarted=not queue.samples.seen)
        self._node_totals.note_ends(queue, counters.moved.dead, counters.moved.acked)
        counters.trend.put(self._second, queue.depth)
        past = self._activity.history(queue.address, counters)
        if past is None:
            return
        second = self._second
        if queue.samples.wait_ms is NO_SAMPLES:
            queue.samples.wait_ms, queue.samples.processing_ms = (
                deque(maxlen=MAX_SAMPLES),
                deque(maxlen=MAX_SAMPLES),
            )
        past.wait.record(second, queue.samples.wait_ms)
        past.hold.record(second, queue.samples.processing_ms)
        queue.samples.wait_ms.clear()
        queue.samples.processing_ms.clear()
        waiting = queue.depth, queue.unsettled, self._broker.scheduler.delayed(queue.address)
        gauges = *waiting, len(queue.consumers), self._oldest_s(queue)
        wait = past.wait.percentiles(second)
        self._node_totals.note_wait(wait.p95)
        durations = (*wait[:3], *past.hold.percentiles(second)[:3])
        numbers = [float("nan") if value is None else value for value in durations]
        past.history.put(second, (*counters.moved, *gauges, *numbers))

    def _topic_moved(self, name: str, published: int) -> None:
        address = f"/topic/{name}"
        known = self._activity.get(address)
        if known is not None and known.totals.in_ == published:
            return
        restarted = known is not None and published < known.totals.in_
        before = known.totals if known and not restarted else Totals()
        consumers, depth, unsettled = self._subscriptions(name)
        out = before.out + (published - before.in_) * consumers
        totals = Totals(published, out, out)
        counters = self._activity.note(address, totals, self._second, restarted=restarted)
        counters.trend.put(self._second, counters.moved.in_)
        past = self._activity.history(address, counters)
        if past is not None:
            delayed = self._broker.scheduler.delayed(address)
            gauges = depth, unsettled, delayed, consumers, 0.0
            past.history.put(self._second, (*counters.moved, *gauges, *[float("nan")] * 6))

    def _drop_samples(self, address: str) -> None:
        """Take no more samples of durations from a queue without a history."""
        queue = self._broker.destinations.queues.get(address)
        if queue is not None:
            queue.samples.wait_ms = queue.samples.processing_ms = NO_SAMPLES

    # ------------------------------------------------------------------ reports

    def latest(self) -> LatestStatistics:
        """The node and its destinations as of the last sample: all of them, or the last active ones."""
        if self._latest is None:
            rows = [self.brief(address) for address in self._chosen()]
            self._latest = {**self.head(), "destinations": rows}
        return self._latest

    def message_totals(self) -> MessageTotals:
        """Messages since the start, as of the last sample."""
        node = self._node_totals
        return MessageTotals(
            *node.totals, *node.of_topics, node.acked + node.acked_of_topics, node.acked_of_topics
        )

    def head(self) -> StatisticsHead:
        """The time of the last sample, and the figures of the node."""
        return {"time": rfc3339(self._time), "node": self._node()}

    def _node(self) -> NodeFigures:
        return {
            "name": self._name,
            "version": self._version,
            "connections": self._gauges.connections,
            "in_rate": round(self._node_totals.moved[0] / self._elapsed, 1),
            "out_rate": round(self._node_totals.moved[1] / self._elapsed, 1),
            "published": self._node_totals.totals[0],
            "delivered": self._node_totals.totals[1],
            "discarded": self._broker.turn.counters["discarded"],
            "backlog": self._node_totals.sums.backlog,
            "unsettled": self._node_totals.sums.unsettled,
            "oldest_s": round(self._node_totals.oldest_s(self._time), 3),
            "dead": self._node_totals.sums.dead,
            "memory_bytes": resident_bytes(),
            "memory_level": self._broker.resource_alarms.memory_level,
            "resource_alarm": self._broker.resource_alarms.alarm.code
            if self._broker.resource_alarms.alarm
            else None,
            "blocked_bytes": self._broker.admission.blocked.bytes,
            "journal_bytes": self._gauges.journal_bytes,
            "job_bytes": self._gauges.job_bytes,
            "destinations": len(self._broker.destinations.queues) + len(self._topics()),
            "internal_errors": internal_errors.total,
            "loop_lag_s": round(self.loop_lag.lag_s(1), 3),
            "loop_lag_1m_s": round(self.loop_lag.lag_s(60), 3),
            "loop_blocked_1m_s": round(self.loop_lag.blocked_s(60), 3),
            "loop_busy_1m_s": round(self.loop_lag.busy_s(60), 3),
        }

    def brief(self, address: str) -> DestinationFigures:
        """The main figures of a destination. KeyError if it does not exist."""
        if address.startswith("/topic/"):
            consumers, depth, unsettled = self._subscriptions(address.removeprefix("/topic/"))
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

    def full(self, address: str) -> AllFigures:
        """All figures of a destination. KeyError if it does not exist."""
        activity = self._activity.get(address)
        past = activity.past if activity else None
        moved = self._moved(address)
        totals, condition = self._totals(address), self.condition(address)
        return {
            **self.brief(address),
            "state": condition.state,
            "fill": condition.fill,
            "full_in_s": condition.full_in_s,
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
        """Messages in and out, a second, in the last sample."""
        moved = self._moved(address)
        return self._rate(moved.in_), self._rate(moved.out)

    def condition(self, address: str) -> Health:
        """The health of a destination. KeyError if the queue does not exist."""
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
        """Messages that wait in a queue, or for subscriptions of a topic. KeyError if it does not exist."""
        if address.startswith("/topic/"):
            return self._subscriptions(address.removeprefix("/topic/"))[1]
        return self._broker.destinations.queues[address].depth

    def trend(self, address: str) -> list[int]:
        """The depth of a queue, or the messages of a topic, in steps of `trend.STEP_S` up to the last sample.

        Fewer steps if less is known.
        """
        activity = self._activity.get(address)
        if activity is not None:
            return activity.trend.trend(self._shown)
        queue = self._broker.destinations.queues.get(address)
        return [queue.depth] if queue is not None else []

    def acked_rate(self, address: str) -> float:
        """Messages of a destination that were acknowledged, a second, in the last sample."""
        return self._rate(self._moved(address).acked)

    def window(self, address: str, window_s: int, step_s: int) -> Window:
        """The history of a destination, up to the last sample.

        All None for one that was never active, or whose history had to make room.
        """
        activity = self._activity.get(address)
        history = activity.past.history if activity and activity.past else History()
        return history.window(self._shown, window_s, step_s)

    def window_of_node(self, window_s: int, step_s: int) -> Window:
        """The history of the node, up to the last sample."""
        return self._node_totals.history.window(self._shown, window_s, step_s)

    def waiting(self) -> Iterator[QueueBacklog]:
        """Queues with waiting or unsettled messages, as of the last sample."""
        return iter(self._node_totals.backlog)

    def knows(self, address: str) -> bool:
        """True if the destination exists, or has a history."""
        return self._activity.has_history(address) or self.exists(address)

    def exists(self, address: str) -> bool:
        """True if the queue exists, or something was published to the topic."""
        if address.startswith("/topic/"):
            return address.removeprefix("/topic/") in self._broker.publisher.topic_published
        return address in self._broker.destinations.queues

    def moving(self) -> list[str]:
        """Addresses that were active in the last sample, or became idle in it."""
        recent = []
        for address, counters in self._activity.latest_first():
            if counters.second < self._shown - 1:
                break
            if self.exists(address):
                recent.append(address)
        return recent

    # ------------------------------------------------------------------ reading the core

    def _chosen(self) -> list[str]:
        broker = self._broker
        if len(broker.destinations.queues) + len(self._topics()) <= MAX_DESTINATIONS:
            return [*broker.destinations.queues, *self._topics()]
        there = (address for address, _ in self._activity.latest_first() if self.exists(address))
        chosen = dict.fromkeys(islice(there, MAX_DESTINATIONS))
        for address in broker.destinations.queues:
            if len(chosen) >= MAX_DESTINATIONS:
                break
            chosen[address] = None
        return list(chosen)

    def _topics(self) -> list[str]:
        return [f"/topic/{name}" for name in self._broker.publisher.topic_published if not is_reserved(name)]

    def _moved(self, address: str) -> Totals:
        """The change of the totals in the last sample."""
        activity = self._activity.get(address)
        return activity.moved if activity is not None and activity.second >= self._shown else Totals()

    def _totals(self, address: str) -> Totals:
        activity = self._activity.get(address)
        return activity.totals if activity is not None else Totals()

    def _rate(self, messages: int) -> float:
        return round(messages / self._elapsed, 1)

    def _subscriptions(self, name: str) -> tuple[int, int, int]:
        """Subscriptions that match a topic's name, their waiting and their unsettled messages."""
        topics = self._broker.destinations.topics
        match = topics.match(name)
        depth = sum(subscription.queue.depth for subscription in match.singles)
        unsettled = sum(subscription.unsettled for subscription in match.singles)
        return topics.count(name), depth, unsettled

    def _oldest_s(self, queue: Queue) -> float:
        since_ms = self._node_totals.backlog.since_ms(queue)
        return max(0.0, self._time - since_ms / 1000) if since_ms is not None else 0.0


def consumer(broker: Broker, subscription: Subscription) -> ConsumerFigures:
    """The figures of a subscription.

    `slow_since` is since when it has taken nothing while messages wait for it, None if it is not slow.
    `connection` is None for consumers without STOMP.
    """
    peer, queue = subscription.peer, subscription.queue
    slow_ms = broker.subscriptions.slow_consumers.since_ms(subscription)
    # The REST API serves many users through one peer and writes them behind the number.
    id, _, user = subscription.id.partition("\0")
    return {
        "id": id,
        "destination": subscription.address,
        "connection": peer.connection or None,
        "user": user or peer.user,
        "ack": AUTO if subscription.inner_ack else subscription.ack,
        "selector": subscription.selector.text if subscription.selector else None,
        "exclusive": subscription.exclusive,
        "active": queue.active in (None, subscription),
        "priority": subscription.priority,
        "credit": subscription.credit,
        "unsettled": subscription.unsettled,
        "delivered": subscription.delivered,
        "acknowledged": subscription.acked,
        "returned": subscription.returned,
        "waiting": queue.depth,
        "since": rfc3339(subscription.since_ms / 1000),
        "slow_since": rfc3339(slow_ms / 1000) if slow_ms else None,
    }


def hold_s(subscription: Subscription) -> HoldTimes:
    """Percentiles of recent processing times of a consumer, in seconds, measured from the first call on."""
    if subscription.processing_ms is NO_SAMPLES:
        subscription.processing_ms = deque(maxlen=MAX_HOLDS)
    durations = sorted(subscription.processing_ms)
    if not durations:
        return {"p50": None, "p95": None, "samples": 0}
    p50, p95 = (durations[-(-len(durations) * percent // 100) - 1] / 1000 for percent in (50, 95))
    return {"p50": p50, "p95": p95, "samples": len(durations)}


def _spelled(found: Percentiles | None) -> DurationFigures:
    p50, p95, p99, samples = found or Percentiles(None, None, None, 0)
    return {"p50": p50, "p95": p95, "p99": p99, "samples": samples}


def resident_bytes() -> int:
    """Memory of this process in use now (Linux), or its peak where that cannot be read."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
