"""The totals of the node: messages in and out, backlog, dead letters, and their history of a day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.model import Queue
from broker_app.telemetry.backlog import Backlog, BacklogTotals
from broker_app.telemetry.timeseries import History, Layout

#: `wait_p95_s` is that of the destination where it is longest
NODE_LAYOUT: Final = Layout(
    counts=("in", "out", "dead_lettered"),
    gauges=("backlog", "unsettled", "dead", "connections"),
    ages=("oldest_s",),
    durations=("wait_p95_s",),
)
#: a quarter of an hour, three hours, a day
NODE_RESOLUTIONS: Final = ((1, 900), (10, 1_080), (60, 1_440))


class Gauges(NamedTuple):
    """Figures of other parts of the node, as of the last sample."""

    connections: int = 0
    journal_bytes: int = 0
    job_bytes: int = 0


class MessageTotals(NamedTuple):
    """Messages since the start, without those of the broker's own topics; and how many are of topics."""

    published: int
    delivered: int
    published_to_topics: int
    delivered_of_topics: int
    acked: int
    acked_of_topics: int


class NodeTotals:
    """Messages of the broker's own topics do not count."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        #: messages published and delivered since the start, and in the last sample
        self.totals = self.moved = (0, 0)
        #: of those, what was sent to topics, and delivered of them
        self.of_topics = (0, 0)
        #: messages of queues, and of subscriptions of topics, that were acknowledged; as of the last sample
        self.acked, self.acked_of_topics = 0, 0
        #: messages of `$mom` topics, by topic and all; the core does not count their deliveries
        self._own: dict[str, int] = {}
        self._own_published = 0
        self.backlog = Backlog()
        self.sums = BacklogTotals()
        self._died = 0
        #: the longest 95th percentile of waiting times, of the destinations that moved in this sample
        self._longest_wait_s = float("nan")
        self.history = History(NODE_LAYOUT, NODE_RESOLUTIONS)

    def begin(self) -> None:
        """Begin a sample."""
        self._died, self._longest_wait_s = 0, float("nan")

    def note_queue(self, queue: Queue) -> None:
        """Note what waits in a queue that moved."""
        policies = self._broker.turn.policies
        self.backlog.note(queue, is_of_dead_letters=policies.is_of_dead_letters(queue.address))

    def note_ends(self, queue: Queue, dead: int, acked: int) -> None:
        """Count messages of a queue that became dead letters, and that were acknowledged."""
        self._died += dead
        if queue.is_of_topic:
            self.acked_of_topics += acked
        else:
            self.acked += acked

    def note_wait(self, p95_s: float | None) -> None:
        """Note the 95th percentile of the waiting times of a queue."""
        if p95_s is not None and not p95_s <= self._longest_wait_s:  # which may be no number
            self._longest_wait_s = p95_s

    def note_own_topic(self, name: str, published: int) -> None:
        """Leave messages of a system topic out of the totals."""
        known = self._own.get(name, 0)
        new = published - known if published >= known else published  # it may be counted from zero again
        if new:
            self._own[name] = published
            self._own_published += new

    def add_up(self) -> Iterator[None]:
        """Add up the backlog in turns: messages may be moved at each step of the iterator."""
        self.sums = yield from self.backlog.sum(self._broker.destinations.queues)

    def end(self, second: int, time_s: float, connections: int) -> None:
        """End a sample: add a row to the history."""
        counters, before = self._broker.turn.counters, self.totals
        published = max(before[0], counters["published"] - self._own_published)
        delivered = max(before[1], counters["delivered"])
        self.totals = published, delivered
        self.of_topics = (
            max(self.of_topics[0], counters["published_to_topics"] - self._own_published),
            max(self.of_topics[1], counters["delivered_of_topics"]),
        )
        self.moved = published - before[0], delivered - before[1]
        gauges = self.sums.backlog, self.sums.unsettled, self.sums.dead, connections
        row = *self.moved, self._died, *gauges, self.oldest_s(time_s), self._longest_wait_s
        self.history.put(second, row)

    def oldest_s(self, time_s: float) -> float:
        """The age of the oldest waiting message."""
        since_ms = self.sums.since_ms
        return max(0.0, time_s - since_ms / 1000) if since_ms is not None else 0.0

    def forget_deleted(self) -> None:
        """Forget system topics that are not counted any more."""
        topics = self._broker.publisher.topic_published
        self._own = {name: count for name, count in self._own.items() if name in topics}
