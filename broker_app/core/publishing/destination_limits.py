"""The limits of destinations: whether a message has room, and what is removed where there is none."""

from __future__ import annotations

from collections.abc import Iterator

from broker_app.base.refused import Refused
from broker_app.core import reasons
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.half_open import HalfOpenConnections
from broker_app.core.model import BlockedPublish, LimitUsage, Peer, Queue
from broker_app.core.outcome import DestinationFull
from broker_app.core.policy import CLUSTER, REMOVE_LOW_PRIORITY, DestinationPolicy
from broker_app.core.remote.cluster_usage import ClusterUsage, Usage
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.lane import Lane
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.turn import Turn

MAX_LIMITED_TOPICS = 10_000
#: a queue that had room for so long is reported when it is full again
FULL_AGAIN_MS = 10_000


class DestinationLimits:
    """Checks messages against the limits of queues and topics, and trims queues that hold too much."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        dead_letters: DeadLetters,
        unsettled: UnsettledDeliveries,
        half_open: HalfOpenConnections,
        cluster_usage: ClusterUsage,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._dead_letters = dead_letters
        self._unsettled = unsettled
        self._half_open = half_open
        self._cluster_usage = cluster_usage
        self.limits_topics = turn.policies.limits_topics
        self._of_topics: dict[str, LimitUsage] = {}
        #: queues that were full recently, and when last
        self._full: dict[Queue, int] = {}

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift when queues were full and producers active, because the clock was set."""
        self._full = {queue: seen_ms + by_ms for queue, seen_ms in self._full.items()}
        for usage in self._of_topics.values():
            usage.shift(by_ms)
        for queue in self._destinations.queues.values():
            if queue.limit_usage is not None:
                queue.limit_usage.shift(by_ms)

    def policies_changed(self) -> None:
        """Apply other policies to topics; those of queues are applied one by one."""
        self.limits_topics = self._turn.policies.limits_topics
        self._of_topics.clear()

    def is_full(self, queue: Queue, size: int = 0, waited: BlockedPublish | None = None) -> bool:
        """Return whether a queue has no room for a message of `size` bytes, and removes none to make room.
        Messages that are blocked there come first, except those that arrived after one that has `waited`
        elsewhere."""
        usage = queue.limit_usage
        if usage is None or queue is self._destinations.discard:
            return False
        line = usage.blocked
        if line and (waited is None or line[0].arrival < waited.arrival):
            return True
        return not (usage.removes or self.fits(queue, usage, 1, size))

    def fits(self, queue: Queue | None, usage: LimitUsage, messages: int, bytes_: int) -> bool:
        """Return whether so many more messages, of so many bytes together, are within the limits. Delayed
        messages count as well."""
        if queue is None:
            return usage.holds(messages, bytes_)
        used, used_bytes = self.used(queue, usage)
        return usage.holds(used + messages, used_bytes + bytes_)

    def used(self, queue: Queue, usage: LimitUsage) -> tuple[int, int]:
        """The messages, and their bytes, that count against the limits of a queue."""
        messages, bytes_ = self._held(queue, usage)
        if usage.policy.scope == CLUSTER:
            elsewhere = self._counted_elsewhere(queue, usage)
            return messages + elsewhere.messages, bytes_ + elsewhere.bytes
        return messages, bytes_

    def _held(self, queue: Queue, usage: LimitUsage) -> tuple[int, int]:
        """The messages that a queue has here, delayed ones among them, and their bytes."""
        messages = queue.depth + queue.unsettled
        if not messages and usage.bytes:
            usage.recount(0, 0, 0)  # an empty queue needs no estimate
        messages -= queue.remote_unsettled
        bytes_ = usage.estimated_bytes - queue.remote_bytes
        schedule = self._scheduler.schedules.get(queue.address)
        if schedule is None:
            return messages, bytes_
        delayed = len(schedule)
        return messages + delayed, bytes_ + delayed * schedule.average_body_bytes

    def _counted_elsewhere(self, queue: Queue, usage: LimitUsage) -> Usage:
        """The part of shared limits that other brokers use. Where older messages make room, each broker keeps
        at least an equal part of the limits for its own."""
        elsewhere, policy = self._cluster_usage.of(queue.address), usage.policy
        if not usage.removes:
            return elsewhere
        brokers = self._cluster_usage.brokers()
        return Usage(
            min(elsewhere.messages, policy.max_messages - policy.max_messages // brokers),
            min(elsewhere.bytes, policy.max_bytes - policy.max_bytes // brokers),
        )

    def shared(self) -> dict[str, Usage]:
        """The use of shared limits by this broker, by destination."""
        if not self._turn.policies.shares_limits:
            return {}
        found = {
            address: Usage(producers=self._producers(usage))
            for address, usage in self._of_topics.items()
            if usage.policy.scope == CLUSTER
        }
        for queue in self._destinations.queues.values():
            usage = queue.limit_usage
            if usage is not None and usage.policy.scope == CLUSTER:
                found[queue.address] = Usage(*self._held(queue, usage), self._producers(usage))
        return found

    def _producers(self, usage: LimitUsage) -> int:
        """The producers here: one that has gone to another broker must not be counted at both."""
        usage.forget_producers(self._turn.now_ms)
        return len(usage.producers)

    def check_shared(self) -> None:
        """Have queues trimmed whose limits other brokers use more than before."""
        for address in self._cluster_usage.grown:
            queue = self._destinations.queues.get(address)
            if queue is not None:
                self._store.trim_later(queue)
        self._cluster_usage.grown.clear()

    def check_room(self, queue: Queue, messages: int, bytes_: int) -> None:
        """Refused when a queue has no room for so much more now."""
        usage = queue.limit_usage
        if usage is None or usage.removes:
            return
        if usage.blocked or not self.fits(queue, usage, messages, bytes_):
            raise queue_full(queue)

    def check_admissible(self, peer: Peer, usage: LimitUsage, address: str, size: int) -> None:
        """Refused when a message of this producer can never be admitted."""
        policy = usage.policy
        most = largest_body(policy)
        if 0 < most < size:
            raise Refused("too-large", f"the body has {size} bytes; {address} takes at most {most}")
        now_ms, shared = self._turn.now_ms, policy.scope == CLUSTER
        elsewhere = self._cluster_usage.of(address).producers if shared else 0
        if not usage.admits(peer, now_ms, elsewhere) and not (
            self._half_open.give_way(peer, usage.producers) and usage.admits(peer, now_ms, elsewhere)
        ):
            where = " in the cluster" if shared else ""
            raise Refused("too-many", f"{address} has {policy.max_producers} producers{where}, its maximum")

    def of_topic(self, address: str) -> LimitUsage | None:
        """The limits of a topic, None when it has none."""
        usage = self._of_topics.get(address)
        if usage is None and self.limits_topics:
            policy = self._turn.policies.of(address)
            if policy.has_limits:
                if len(self._of_topics) >= MAX_LIMITED_TOPICS:
                    self._of_topics.clear()
                usage = self._of_topics[address] = LimitUsage(policy)
        return usage

    def of(self, address: str) -> LimitUsage | None:
        """The limits of a destination, which may not exist yet; None when it has none."""
        if address.startswith("/topic/"):
            return self.of_topic(address)
        queue = self._destinations.queues.get(address)
        if queue is not None:
            return queue.limit_usage
        policy = self._turn.policies.of(address)
        return LimitUsage(policy) if policy.has_limits else None

    def limited(
        self, address: str, usage: LimitUsage | None
    ) -> Iterator[tuple[str, Queue | None, LimitUsage]]:
        """(address, queue if it exists, limits) of all that may have no room for a message to `address`: a
        queue with this `usage`, or durable subscriptions of a topic."""
        if not address.startswith("/topic/"):
            if usage is not None:
                yield address, self._destinations.queues.get(address), usage
        elif self.limits_topics:
            for named in self._destinations.topics.match(address.removeprefix("/topic/")).named:
                if named.queue.limit_usage is not None:
                    yield named.queue.address, named.queue, named.queue.limit_usage

    def emit_full(self, queue: Queue) -> None:
        """Emit an event that a queue is full, unless it was full recently."""
        if queue not in self._full and queue.policy.has_limits:
            self._turn.emit_destination(DestinationFull(queue.address, queue_full(queue).detail))
        self._full[queue] = self._turn.now_ms

    def watch_consumers(self, queue: Queue) -> None:
        """Set which consumers need more work when they settle: where bytes or message groups are counted."""
        counted = queue.counts or (queue.selective is not None and queue.selective.grouped)
        for subscription in queue.consumers:
            subscription.watched = subscription.lease_ms > 0 or counted

    def recount(self, queue: Queue) -> None:
        """Count the bytes of a queue again: exactly in memory, only the number in the journal."""
        usage = queue.limit_usage
        if usage is None:
            return
        known = sum(len(message.body) for lane in queue.lanes for message in lane.in_memory())
        known += sum(len(holding.message.body) for holding in self._unsettled.of(queue))
        unread = sum(len(lane.paged) + len(lane.loading) for lane in queue.lanes)
        usage.recount(known, unread, self._turn.out.first_position + self._turn.out.count)

    def forget_full(self) -> None:
        """Allow events again of queues that had room for a while."""
        now_ms = self._turn.now_ms
        self._full = {queue: seen for queue, seen in self._full.items() if now_ms - seen < FULL_AGAIN_MS}

    def trim(self, queue: Queue) -> bool:
        """Remove waiting messages of a queue beyond its limits, if it does so; returns whether any were
        removed."""
        usage, moved = queue.limit_usage, False
        if usage is None or queue.deleted or not usage.removes:
            return False
        while not self.fits(queue, usage, 0, 0):
            lane = _lane_to_trim(queue)
            if lane is None:
                break  # all are unsettled
            if not self._remove_first(queue, usage, lane):
                self._store.trim_later(queue)  # once its body was read
                break
            moved = True
        return moved

    def _remove_first(self, queue: Queue, usage: LimitUsage, lane: Lane) -> bool:
        """Remove the oldest message of a lane; False when its body has to be read back first."""
        low = usage.policy.limit_behavior == REMOVE_LOW_PRIORITY
        reason = reasons.LOW_PRIORITY if low else reasons.OLDEST
        message = lane.pop_first()
        if message is not None:
            self._store.count_body(queue, -message.size)
            self._dead_letters.add(queue, message, reason, queue_full(queue).detail)
            return True
        if usage.policy.max_bytes or (queue.policy.use_dead_letters and queue.durable):
            self._store.fetch(queue, lane)
            return False
        position = lane.loading.pop(0) if lane.loading else lane.paged.take(1)[0]
        lane.attempts.pop(position, None)
        queue.counters.dead += 1
        self._turn.counters["discarded"] += 1
        self._turn.dropped[reason] += 1
        self._store.record_ends(queue, (), (position,), records.DISCARDED, reason)
        return True


def largest_body(policy: DestinationPolicy) -> int:
    """The bytes of the largest message that a destination of this policy ever admits; 0 is any number."""
    limits = [most for most in (policy.max_message_bytes, policy.max_bytes) if most]
    return min(limits, default=0)


def queue_full(queue: Queue) -> Refused:
    """The refusal of messages to a full queue."""
    policy = queue.policy
    limits = [f"{policy.max_messages} messages"] if policy.max_messages else []
    limits += [f"{policy.max_bytes} bytes"] if policy.max_bytes else []
    where = " in all brokers of the cluster together" if policy.scope == CLUSTER else ""
    return Refused("queue-full", f"{queue.address} is full: it holds at most {' and '.join(limits)}{where}")


def _lane_to_trim(queue: Queue) -> Lane | None:
    """The lane whose first message is removed next: with the oldest message, or of the lowest priority."""
    lanes = [lane for lane in reversed(queue.lanes) if len(lane)]
    if not lanes or queue.policy.limit_behavior == REMOVE_LOW_PRIORITY:
        return lanes[0] if lanes else None
    return min(lanes, key=_age)


def _age(lane: Lane) -> int:
    first = lane.first()
    return first.time_ms if first else 0  # messages that are not in memory are older
