"""Delivery of waiting messages to consumers with credit, at the end of each turn."""

from __future__ import annotations

from heapq import heappop
from itertools import repeat

from broker_app.core import commands as c
from broker_app.core.delivery.dispatch_round import DispatchRound
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.message import Message
from broker_app.core.model import Queue, Subscription
from broker_app.core.remote.remote_messages import RemoteMessages
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.timers import Leases
from broker_app.core.turn import Turn

#: messages of one queue, and queues, between two looks at the clock
_MESSAGES, _QUEUES = 256, 16


class Dispatcher:
    """Dispatches queues with messages to deliver."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        dead_letters: DeadLetters,
        selective: SelectiveDelivery,
        leases: Leases,
        remote: RemoteMessages,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._dead_letters = dead_letters
        self._selective = selective
        self._leases = leases
        self._remote = remote

    def run(self) -> None:
        """Deliver from all queues that were marked dirty, until none is or the deadline has passed."""
        store = self._store
        while store.dirty:
            dirty, store.dirty = store.dirty, []
            if len(dirty) > _QUEUES:
                dirty, store.dirty = dirty[:_QUEUES], dirty[_QUEUES:]
            for queue in dirty:
                queue.dirty = False
                if queue.remote is not None and self._remote.goes_first():
                    self._remote.dispatch(queue)
                if queue.selective is None:
                    self._dispatch(queue)
                else:
                    DispatchRound(
                        self._turn, store, self._dead_letters, self._leases, queue, queue.selective
                    ).run()
                if queue.remote is not None:
                    self._remote.dispatch(queue)
            if store.dirty and self._turn.deadline.passed:
                return

    def loaded(self, command: c.Loaded) -> None:
        """Add bodies that were read back to the queue that asked for them."""
        queue = self._destinations.queues.get(command.address)
        if queue is None:
            return
        if queue.selective is None:
            self._store.read_back(queue, command)
        else:
            self._selective.load(queue, queue.selective, command)

    def _dispatch(self, queue: Queue) -> None:
        """Deliver while there are both messages in memory and consumers with credit. The queue is dirty again
        if the deadline has passed before that."""
        available = queue.available
        now_ms = self._turn.now_ms
        touched = self._turn.out.touched
        delivered_directly = settled = released = held = 0
        while available:
            lane = queue.first_lane()
            if lane is None:
                break
            ready, returned = lane.ready, lane.returned
            delivered_before = lane.delivered_up_to
            for _ in repeat(None, _MESSAGES):
                taker = available.first
                if taker is None:
                    break
                if returned and (not ready or returned[0][0] < ready[0].sequence):
                    message = heappop(returned)[1]
                elif ready:
                    message = ready.popleft()
                else:
                    break
                size = len(message.body) + message.envelope.overhead_bytes
                released += size
                if 0 < message.expires_ms <= now_ms:
                    self._dead_letters.expire(queue, message)
                    continue
                if message.attempts and self._begin_attempt(queue, message, taker):
                    continue
                subscription = taker
                available.first = subscription.next
                peer = subscription.peer
                if subscription.ack == c.AUTO:
                    tag = 0
                    settled += 1
                    if message.recorded:
                        self._store.acknowledge(queue, message, subscription.client)
                    if queue.limit_usage is not None:
                        queue.limit_usage.bytes -= len(message.body)
                else:
                    tag = peer.next_tag
                    peer.next_tag = tag + 1
                    peer.unsettled[tag] = (subscription, message)
                    subscription.unsettled += 1
                    held += size
                    if subscription.lease_ms:
                        self._leases.begin(peer, tag, now_ms + subscription.lease_ms)
                    if message.recorded and message.position > lane.delivered_up_to:
                        lane.delivered_up_to = message.position
                    if subscription.unsettled >= subscription.credit:
                        available.leave(subscription)
                        subscription.available = False
                delivered_directly += 1
                subscription.delivered_directly += 1
                peer.deliveries.append((subscription, tag, message))
                if not peer.touched:
                    peer.touched = True
                    touched.append(peer)
            else:
                if self._turn.deadline.passed:
                    self._store.mark_dirty(queue)
            if lane.delivered_up_to != delivered_before:
                out = self._turn.out
                out.record(
                    records.delivered(out.destination(queue.address), lane.priority, lane.delivered_up_to)
                )
            in_journal = lane.paged.count or lane.loading
            if in_journal:
                self._store.fetch(queue, lane)
            if queue.dirty or (in_journal and not ready):
                break
        self._store.release(queue, released, held)
        if not delivered_directly:
            return
        if settled:
            queue.counters.acked += settled
        queue.unsettled += delivered_directly - settled
        queue.samples.wait_ms.append(now_ms - message.time_ms)
        if tag and not subscription.probe_tag:
            subscription.probe_tag, subscription.probe_ms = tag, now_ms
        queue.counters.delivered += delivered_directly
        if queue.is_of_topic:
            self._turn.count_deliveries_of_topic(queue.topic_address, delivered_directly)
        else:
            self._turn.counters["delivered"] += delivered_directly

    def _begin_attempt(self, queue: Queue, message: Message, consumer: Subscription) -> bool:
        """Record one more delivery attempt, which counts also if the broker stops before it is settled; True
        when there were too many already, and the message was dead-lettered."""
        if self._dead_letters.add_if_exhausted(queue, message):
            return True
        self._turn.counters["redelivered"] += 1
        if message.recorded:
            out = self._turn.out
            attempt = message.position, message.attempts + 1
            destination, clients = out.destination(queue.address), out.client(consumer.client)
            out.record(records.returned(destination, (attempt,), clients=clients))
        return False
