"""Messages of other brokers of the cluster: delivered to the consumers of this one, and never stored here.

Their owner is the broker that sent them: how a delivery ends is reported to its `Origin`, and not recorded. A
message for which no consumer has credit waits outside of the lanes of its queue, so that nothing but delivery
knows it; what waits too long goes back to its owner, who may have other consumers for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count

from broker_app.core import commands as c
from broker_app.core.delivery.rotation import Rotation
from broker_app.core.destination import DURABLE_PREFIX, SHARED_PREFIX, parse
from broker_app.core.destinations import Destinations
from broker_app.core.model import Queue, Subscription
from broker_app.core.remote.origin import Origin, RemoteMessage
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.timers import Leases
from broker_app.core.turn import Turn

#: messages that are handed over between two looks at the clock
_HANDED_OVER = 256
#: messages of queues with selective delivery that are looked at in one turn
_LOOKED_AT = 256
#: messages that are returned between two looks at the clock
_RETURNED = 256


class RemoteMessages:
    """Takes messages of other brokers, and delivers them to local consumers with credit."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        selective: SelectiveDelivery,
        leases: Leases,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._selective = selective
        self._leases = leases
        #: queues where messages wait for a consumer
        self._queues: dict[Queue, None] = {}
        self._first = False

    def deliver(self, command: c.DeliverRemote) -> None:
        """Take messages for the consumers of one queue."""
        origin, turn = command.origin, self._turn
        if origin.ended:
            return
        now_ms, next_position, size = turn.now_ms, turn.transient_position, 0
        for message in command.messages:
            message.position = next_position()
            message.arrived_ms = now_ms
            size += len(message.body)
        queue = self._queue(command.address)
        if queue is None or not _has_local(queue):
            for message in command.messages:
                origin.give_back(message)
            return
        if queue.remote is None:
            queue.remote = deque()
        queue.remote.extend(command.messages)
        self._queues[queue] = None
        origin.waiting += len(command.messages)
        origin.waiting_bytes += size
        self._store.mark_dirty(queue)

    def _queue(self, address: str) -> Queue | None:
        if address.startswith((DURABLE_PREFIX, SHARED_PREFIX)):
            named = self._destinations.named.get(address)
            return named.queue if named is not None else None
        return self._destinations.queues.get(parse(address).address)

    def goes_first(self) -> bool:
        """Return whether messages of other brokers are delivered before those of this one: each second
        time."""
        self._first = not self._first
        return self._first

    def dispatch(self, queue: Queue) -> None:
        """Deliver what waits in a queue to local consumers with credit."""
        waiting, before = queue.remote, queue.counters.delivered
        assert waiting is not None
        if queue.selective is None:
            available = queue.available
            for at in count(1):
                subscription = available.first if waiting else None
                if subscription is not None and subscription.remote:
                    subscription = _first_local(available)
                if subscription is None:
                    break
                if at % _HANDED_OVER == 0 and self._turn.deadline.passed:
                    self._store.mark_dirty(queue)
                    break
                message = waiting[0]
                if message.envelope.options is not None and queue.group_of(message):
                    self._selective.keep_groups(queue)
                    break
                waiting.popleft()
                if available.first is subscription:
                    available.first = subscription.next
                else:
                    available.served(subscription)
                self._hand_over(queue, subscription, message)
        if queue.selective is not None:
            self._dispatch_selectively(queue, waiting)
        delivered = queue.counters.delivered - before
        self._turn.counters["delivered"] += delivered
        if queue.is_of_topic:
            self._turn.counters["delivered_of_topics"] += delivered
        if not waiting:
            self._emptied(queue)

    def _dispatch_selectively(self, queue: Queue, waiting: deque[RemoteMessage]) -> None:
        """Deliver to consumers that match, and own the message groups."""
        kept: list[RemoteMessage] = []
        held: set[str] = set()
        for _ in range(min(len(waiting), _LOOKED_AT)):
            message = waiting.popleft()
            group = queue.group_of(message)
            if group:
                self._selective.keep_groups(queue)
            subscription = None if group in held else self._selective.local_consumer(queue, message)
            if subscription is None:
                kept.append(message)
                held.add(group)
                held.discard("")
                continue
            subscription.rotation.served(subscription)
            self._hand_over(queue, subscription, message)
            if group:
                queue.selective.groups.assign(group, subscription, unsettled=subscription.ack != c.AUTO)
        waiting.extendleft(reversed(kept))

    def _hand_over(self, queue: Queue, subscription: Subscription, message: RemoteMessage) -> None:
        turn, peer, origin = self._turn, subscription.peer, message.origin
        size = len(message.body)
        origin.waiting -= 1
        origin.waiting_bytes -= size
        tag = 0
        if subscription.ack == c.AUTO:
            origin.acknowledge(message)
            queue.counters.acked += 1
        else:
            tag = peer.next_tag
            peer.next_tag = tag + 1
            peer.unsettled[tag] = (subscription, message)
            subscription.unsettled += 1
            queue.unsettled += 1
            queue.remote_unsettled += 1
            queue.remote_bytes += size
            message.holding = queue
            if queue.limit_usage is not None:
                queue.limit_usage.bytes += size
            if queue.account is not None:
                queue.account.keep(message.size)
            if subscription.lease_ms:
                self._leases.begin(peer, tag, turn.now_ms + subscription.lease_ms)
            if subscription.unsettled >= subscription.credit:
                subscription.rotation.leave(subscription)
                subscription.available = False
        subscription.delivered_directly += 1
        queue.counters.delivered += 1
        if message.attempts:
            turn.counters["redelivered"] += 1
        peer.deliveries.append((subscription, tag, message))
        if not peer.touched:
            turn.schedule_flush(peer)

    # ------------------------------------------------------------------ what goes back

    def give_back_old(self, command: c.ReturnRemote) -> c.Steps | None:
        """Return the messages of an origin from each queue where one has waited since a time or longer: all
        of them, so that none that came later overtakes it. Returns the rest when the deadline has passed."""
        return self._turn.in_parts(c.Steps(command.origin.peer, self._give_back_old(command)))

    def _give_back_old(self, command: c.ReturnRemote) -> Iterator[None]:
        for queue in list(self._queues):
            oldest = self._oldest(queue, command.origin)
            if oldest is not None and oldest.arrived_ms <= command.since_ms:
                yield from self._keep_others(queue, command.origin)

    def end_origin(self, origin: Origin) -> Iterator[None]:
        """Forget the messages of an origin whose connection has ended, in steps."""
        origin.ended = True
        for queue in list(self._queues):
            yield from self._keep_others(queue, origin)

    @staticmethod
    def _oldest(queue: Queue, origin: Origin) -> RemoteMessage | None:
        """The message of an origin that waits first in a queue."""
        return next((message for message in queue.remote or () if message.origin is origin), None)

    def _keep_others(self, queue: Queue, origin: Origin) -> Iterator[None]:
        """Return all messages of an origin that wait in a queue, in steps."""
        if queue.remote is not None:
            yield from self._keep(
                queue, (message for message in queue.remote if message.origin is not origin)
            )

    def consumer_left(self, subscription: Subscription) -> None:
        """Return what waits for the last local consumer of a queue."""
        queue = subscription.queue
        if queue.remote is not None and not _has_local(queue):
            self._keep_none(queue)

    def queue_deleted(self, queue: Queue) -> None:
        """Return what waits in a queue that is deleted."""
        if queue.remote is not None:
            self._keep_none(queue)

    def _keep_none(self, queue: Queue) -> None:
        """Return all messages that wait in a queue, at once."""
        for _ in self._keep(queue, ()):
            """Go on."""

    def _keep(self, queue: Queue, kept: Iterable[RemoteMessage]) -> Iterator[None]:
        """Return all messages that wait in a queue but those that are `kept`, in steps."""
        before = queue.remote
        assert before is not None
        queue.remote = deque(kept)
        keeps = set(map(id, queue.remote))
        for at, message in enumerate(before, 1):
            if at % _RETURNED == 0:
                yield
            if id(message) not in keeps:
                message.origin.waiting -= 1
                message.origin.waiting_bytes -= len(message.body)
                message.origin.give_back(message)
        if not queue.remote:
            self._emptied(queue)

    def _emptied(self, queue: Queue) -> None:
        queue.remote = None
        self._queues.pop(queue, None)


def _has_local(queue: Queue) -> bool:
    """Return whether a queue has a consumer of this broker."""
    return len(queue.consumers) > queue.remote_consumers


def _first_local(available: Rotation) -> Subscription | None:
    """The first consumer with credit that is of this broker."""
    return next((subscription for subscription in available if not subscription.remote), None)
