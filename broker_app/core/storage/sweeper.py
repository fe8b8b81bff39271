"""The sweep: periodic removal of expired messages, unused queues, and old dedup-ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify
from itertools import islice

from broker_app.core import commands as c
from broker_app.core.delivery.deliveries import Deliveries
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destinations import Destinations
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.outcome import UNUSED, DestinationDeleted
from broker_app.core.publishing.dedup import DedupWindows
from broker_app.core.remote.cluster_usage import MOST_UNUSED, ClusterUsage
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.lane import Lane
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.timers import SLICE_MS, SWEEP_MS
from broker_app.core.topics.histories import Histories
from broker_app.core.turn import Turn

#: queues that one part of a sweep checks; so many messages count as one more
SWEEP_WORK, MESSAGES_PER_QUEUE = 1_000, 16
#: messages that expire between others, of one queue in one part
EXPIRED_AT_ONCE = 500


class Sweeper:
    """Does what is due by time: leases, schedules, parts of a sweep; calls `each_second` with each sweep."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        dead_letters: DeadLetters,
        selective: SelectiveDelivery,
        deliveries: Deliveries,
        histories: Histories,
        dedup_windows: DedupWindows,
        unsettled: UnsettledDeliveries,
        each_second: Sequence[Callable[[], None]],
        cluster_usage: ClusterUsage,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._dead_letters = dead_letters
        self._selective = selective
        self._deliveries = deliveries
        self._histories = histories
        self._dedup_windows = dedup_windows
        self._unsettled = unsettled
        self._each_second = each_second
        self._cluster_usage = cluster_usage
        self.sweep_ms = 0
        #: queues that the present sweep has not checked yet
        self._unswept: list[Queue] = []

    @property
    def is_behind(self) -> bool:
        """True if a part of the present sweep is left."""
        return bool(self._unswept)

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift what is due or counted since some time, because the clock was set."""
        self.sweep_ms += by_ms
        for queue in self._destinations.queues.values():
            if queue.idle_since_ms:
                queue.idle_since_ms += by_ms
            if queue.selective is not None:
                queue.selective.shift(by_ms)

    def run_due(self) -> None:
        """Do what is due: leases that end, delayed messages, and the next part of the sweep. It has its time
        however long the commands of the turn have taken, or it would never catch up with them."""
        self._turn.deadline.begin()
        for peer, tag in self._turn.deadline.each(self._unsettled.leases.due(self._turn.now_ms)):
            held = peer.unsettled.pop(tag, None)
            if held is not None:
                self._deliveries.lease_ended(*held)
        self._scheduler.read_due()
        if self._turn.now_ms >= self.sweep_ms:
            for check in self._each_second:
                check()
            self._sweep()
            self._histories.sweep()

    def _sweep(self) -> None:
        """Remove expired messages, unused queues and old dedup-ids; of many queues a part at a time."""
        if not self._unswept:
            self._unswept = list(self._destinations.queues.values())
            self._forget_old_ids()
        # Bodies that are read back only to be checked must leave memory for deliveries.
        room = self._turn.limits.memory_bytes // 2 - self._store.memory_bytes
        work = SWEEP_WORK
        while self._unswept and work > 0:
            queue = self._unswept.pop()
            if self._destinations.queues.get(queue.address) is not queue:
                continue
            work -= 1
            if queue.selective is not None:
                self._selective.drop_unused(queue)
            if queue.expiring:
                work -= self._expire_waiting(queue)
                for lane in queue.lanes:
                    if room > 0 and lane.paged and not lane.ready:
                        self._store.fetch(queue, lane)
                        room -= self._turn.limits.fetch_bytes
            self._delete_idle(queue)
        self.sweep_ms = self._turn.now_ms + (SLICE_MS if self._unswept else SWEEP_MS)

    def _delete_idle(self, queue: Queue) -> None:
        if self._is_kept(queue):
            queue.idle_since_ms = 0
        elif not queue.idle_since_ms:
            queue.idle_since_ms = self._turn.now_ms
        elif 0 < self._turn.limits.idle_queue_ms <= self._turn.now_ms - queue.idle_since_ms:
            unused = self._cluster_usage.unused
            if unused is None:
                self._delete(queue)
            elif len(unused) < MOST_UNUSED:
                unused[queue.address] = None
                queue.idle_since_ms = self._turn.now_ms  # others are asked again after that time

    def delete_unused(self, command: c.DeleteUnused) -> None:
        """Delete queues that no broker uses, unless they are used meanwhile."""
        for address in command.addresses:
            queue = self._destinations.queues.get(address)
            if queue is not None and not self._is_kept(queue):
                self._delete(queue)

    def _delete(self, queue: Queue) -> None:
        del self._destinations.queues[queue.address]
        self._turn.emit_destination(DestinationDeleted(queue.address, UNUSED))

    def _is_kept(self, queue: Queue) -> bool:
        """Return whether a queue is used, or is there without use."""
        return bool(
            queue.consumers
            or self._holds(queue)
            or queue.named
            or not queue.durable
            or queue.address in self._turn.policies.exact
            or queue.address in self._store.taps
            or queue.address == SYNC_ADDRESS
        )

    def is_used(self, address: str) -> bool:
        """Return whether a queue has messages or consumers of this broker, for others who ask."""
        queue = self._destinations.queues.get(address)
        return queue is not None and (len(queue.consumers) > queue.remote_consumers or self._holds(queue))

    def _holds(self, queue: Queue) -> bool:
        return bool(queue.unsettled or queue.depth or queue.address in self._scheduler.schedules)

    def _forget_old_ids(self) -> None:
        found = self._dedup_windows.next_to_sweep()
        if found:
            windows = {address: self._turn.policies.of(address).dedup_window_ms for address in found}
            self._dedup_windows.sweep(self._turn.now_ms, windows)

    def _expire_waiting(self, queue: Queue) -> int:
        """Remove expired messages that are in memory; returns how much work that was. What is left when the
        deadline has passed is for the next part of the sweep."""
        checked = 0
        for lane in queue.lanes:
            # Mostly those expire first that came first: then no others are looked at.
            for message in self._turn.deadline.each(self._expired_first(lane)):
                self._expire(queue, message)
                checked += 1
            if lane.ready and self._has_expired(lane.ready[0]):
                self._unswept.append(queue)
                return SWEEP_WORK
            checked += len(lane.ready) + len(lane.returned)
            expired = list(islice(filter(self._has_expired, lane.in_memory()), EXPIRED_AT_ONCE))
            if not expired:
                continue
            gone = {message.position for message in expired}
            alive = [message for message in lane.ready if message.position not in gone]
            lane.ready.clear()
            lane.ready.extend(alive)
            lane.returned = [entry for entry in lane.returned if entry[1].position not in gone]
            heapify(lane.returned)
            for message in expired:
                self._expire(queue, message)
            if len(expired) == EXPIRED_AT_ONCE:
                self._unswept.append(queue)
                return SWEEP_WORK
        queue.expiring = any(m.expires_ms for lane in queue.lanes for m in lane.in_memory()) or any(
            lane.paged or lane.loading for lane in queue.lanes
        )
        return checked // MESSAGES_PER_QUEUE

    def _expired_first(self, lane: Lane) -> Iterator[Message]:
        """Remove and return the first messages of a lane, as far as they have expired."""
        while lane.ready and self._has_expired(lane.ready[0]):
            yield lane.ready.popleft()

    def _has_expired(self, message: Message) -> bool:
        return 0 < message.expires_ms <= self._turn.now_ms

    def _expire(self, queue: Queue, message: Message) -> None:
        self._store.count_body(queue, -message.size)
        self._dead_letters.expire(queue, message)
