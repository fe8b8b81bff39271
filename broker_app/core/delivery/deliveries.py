"""Settling of deliveries: acknowledged, extended, returned, or delivered again after a delay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappush
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core import reasons
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.delivery.delayed_redelivery import retry_delay_ms
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.durability import records
from broker_app.core.header_block import headers
from broker_app.core.message import Message
from broker_app.core.model import Peer, Queue, Subscription
from broker_app.core.outcome import DEAD, Fetch
from broker_app.core.remote.origin import Origin, RemoteMessage
from broker_app.core.remote.remote_receipts import RemoteReceipts
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn

#: deliveries that are settled between two looks at the clock
MOST_TAGS = 4_096
#: and those that are returned
RETURNED_AT_ONCE = 16


class DeliveryFailure(NamedTuple):
    """The failure of a delivery: of which consumer, why it becomes a dead letter (empty: if there were too
    many attempts), and details."""

    consumer: Subscription
    dead_reason: str
    detail: str


class Deliveries:
    """Carries out what clients do with their unsettled deliveries."""

    def __init__(
        self,
        turn: Turn,
        store: MessageStore,
        dead_letters: DeadLetters,
        selective: SelectiveDelivery,
        consumers: Consumers,
        unsettled: UnsettledDeliveries,
        remote_receipts: RemoteReceipts,
    ) -> None:
        self._turn = turn
        self._store = store
        self._dead_letters = dead_letters
        self._selective = selective
        self._consumers = consumers
        self._unsettled = unsettled
        self._remote_receipts = remote_receipts
        self._leases = unsettled.leases
        self._delayed = unsettled.delayed
        #: by position, messages held by `_delayed` that become dead letters once their bodies are read
        self._dying: dict[int, tuple[int, DeliveryFailure]] = {}

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift leases and the measuring of consumers, because the clock was set."""
        self._leases.shift(by_ms)
        for peer in self._unsettled.peers:
            for subscription in peer.subscriptions.values():
                subscription.probe_ms += by_ms

    def settle(self, command: c.Settle, tags: Sequence[int]) -> c.Settle | None:
        """Acknowledge deliveries. Returns the rest when there are many."""
        peer, origins = command.peer, command.origins
        rest: Sequence[int] = ()
        if len(tags) > MOST_TAGS:
            rest, tags = tags[MOST_TAGS:], tags[:MOST_TAGS]
        unsettled, acknowledge = peer.unsettled, self._store.acknowledge
        for tag in tags:
            subscription, message = unsettled.pop(tag)
            queue = subscription.queue
            queue.unsettled -= 1
            queue.counters.acked += 1
            subscription.unsettled -= 1
            if subscription.watched:
                self._watched_ends(subscription, tag, message)
            if message.recorded:
                acknowledge(queue, message, subscription.client)
            elif message.origin is not None and message.origin.acknowledge(message):
                origins |= {message.origin}
            if not subscription.available:
                self._consumers.make_available(subscription)
            elif not queue.dirty:
                queue.dirty = True
                self._store.dirty.append(queue)
        if tags and subscription.probe_tag and subscription.probe_tag not in unsettled:
            held_ms = self._turn.now_ms - subscription.probe_ms
            subscription.queue.samples.processing_ms.append(held_ms)
            subscription.processing_ms.append(held_ms)
            subscription.probe_tag = 0
        if rest:
            return c.Settle(peer, rest, receipt=command.receipt, lenient=True, origins=origins)
        if command.receipt is not None:
            self._remote_receipts.accept(peer, command.receipt, origins)
        return None

    @staticmethod
    def origins_of(peer: Peer, tags: Iterable[int]) -> frozenset[Origin]:
        """The other brokers that own messages of these unsettled deliveries, and record how they end."""
        held = (peer.unsettled[tag][1] for tag in tags)
        return frozenset(
            message.origin for message in held if isinstance(message, RemoteMessage) and message.origin_tag
        )

    def _watched_ends(self, subscription: Subscription, tag: int, message: Message) -> None:
        """Update the lease, the bytes and the message group of a delivery that is settled."""
        if subscription.lease_ms:
            self._leases.end(subscription.peer, tag)
        usage = subscription.queue.limit_usage
        if usage is not None:
            usage.bytes -= len(message.body)
        account = subscription.queue.account
        if account is not None:
            account.keep(-message.size)
        if subscription.queue.selective is not None:
            self._selective.group_settled(subscription.queue, message)

    def return_(self, command: c.Return, tags: Sequence[int]) -> c.Parts | None:
        """Return deliveries that were not consumed. Returns the rest when the deadline has passed."""
        return self._turn.in_parts(c.Parts(command.peer, self._return(command, tags)))

    def _return(self, command: c.Return, tags: Sequence[int]) -> Iterator[None]:
        peer = command.peer
        origins = frozenset[Origin]() if command.receipt is None else self.origins_of(peer, tags)
        for at, tag in enumerate(tags, 1):
            if at % RETURNED_AT_ONCE == 0:
                yield
            held = peer.unsettled.pop(tag, None)
            if held is None:
                continue  # its lease has ended meanwhile
            subscription, message = held
            self._leases.end(peer, tag)
            if command.attempted:
                self.return_delivery(
                    *(subscription, message, reasons.NACKED),
                    *(command.dead_reason, command.detail, command.delay_ms),
                )
            else:
                self._release(subscription, message)
                if message.origin is not None:
                    message.origin.give_back(message)
                elif not subscription.queue.deleted:
                    if subscription.remote:
                        _mark(subscription.queue, message)
                    self._back_to_place(subscription.queue, message)
        self._remote_receipts.accept(peer, command.receipt, origins)

    def retry_delayed(self, command: c.RetryDelayed) -> c.Parts | None:
        """End the wait of the returned messages of a queue. Returns the rest when the deadline has passed."""
        return self._turn.in_parts(c.Parts(command.peer, self._retry_delayed(command)))

    def _retry_delayed(self, command: c.RetryDelayed) -> Iterator[None]:
        peer = self._delayed.peer
        waiting = [
            tag
            for tag, (holder, message) in peer.unsettled.items()
            if holder.queue.address == command.address and message.position not in self._dying
        ]
        for at, tag in enumerate(waiting, 1):
            if at % RETURNED_AT_ONCE == 0:
                yield
            held = peer.unsettled.pop(tag, None)
            if held is not None:  # else its wait has ended meanwhile
                self._leases.end(peer, tag)
                self.lease_ended(*held)
        self._turn.accept(command.peer, command.receipt)

    def extend(self, command: c.Extend, tags: Sequence[int]) -> None:
        """Renew the leases of deliveries."""
        peer = command.peer
        for tag in tags:
            self._leases.begin(peer, tag, self._turn.now_ms + command.lease_ms)
        self._turn.accept(peer, command.receipt)

    def check_tags(self, command: c.Settle | c.Return | c.Extend) -> Sequence[int]:
        """The tags that a command settles; Refused names the first that is unknown. Those that went back when
        their subscription ended are passed over."""
        unsettled, returned, tags = command.peer.unsettled, command.peer.returned, command.tags
        if command.lenient:
            tags = [tag for tag in tags if tag in unsettled]
        for tag in tags:
            if tag not in unsettled and tag not in returned:
                raise Refused(
                    "unknown-delivery",
                    f"there is no unsettled delivery {tag} in this session; "
                    "it was settled, returned or never existed",
                )
        if returned:  # they had begun before their subscription ended; now they are for another consumer
            tags = [tag for tag in tags if tag in unsettled]
        if not command.cumulative:
            return tags if len(tags) == 1 or len(set(tags)) == len(tags) else list(dict.fromkeys(tags))
        wanted: dict[Subscription, int] = {}
        for tag in tags:
            subscription = unsettled[tag][0]
            wanted[subscription] = max(tag, wanted.get(subscription, 0))
        last = max(tags, default=0)
        found = []
        for tag, (subscription, _) in unsettled.items():
            if tag > last:
                break
            if tag <= wanted.get(subscription, 0):
                found.append(tag)
        return found

    def lease_ended(self, subscription: Subscription, message: Message) -> None:
        """End a lease: that of a consumer, or that of a message that waits for another attempt."""
        if subscription.peer is not self._delayed.peer:
            self.return_delivery(subscription, message, reasons.LEASE_ENDED)
            return
        self._delayed.forget(message)
        queue = subscription.queue
        queue.unsettled -= 1
        if not queue.deleted:
            self._back_to_place(queue, message)

    def return_delivery(
        self,
        subscription: Subscription,
        message: Message,
        reason: str,
        dead_reason: str = "",
        detail: str = "",
        delay_ms: int = 0,
    ) -> None:
        """Return an unsettled delivery: to its original place, or with `dead_reason` to the dead letters;
        `reason` is why it failed."""
        queue = subscription.queue
        self._release(subscription, message)
        if message.origin is not None:
            message.origin.fail(message, reason, dead_reason, detail, delay_ms)
            return
        message.attempts += 1
        if queue.deleted:
            return
        if message.recorded:
            self._record_failure(queue, message, dead_reason or reason, subscription.client)
        failure = DeliveryFailure(subscription, dead_reason, detail)
        if not self._ends(queue, message, failure):
            delay_ms = delay_ms or retry_delay_ms(queue.policy, message.attempts)
            if not self._delay_redelivery(queue, message, delay_ms):
                self._back_to_place(queue, message)

    def _ends(self, queue: Queue, message: Message, failure: DeliveryFailure) -> bool:
        """Dead-letter a message whose delivery failed for good, once its body is in memory; returns whether
        it did."""
        dead_letters = self._dead_letters
        if message.has_body:
            if failure.dead_reason:
                dead_letters.add(queue, message, failure.dead_reason, failure.detail, failure.consumer)
                return True
            return dead_letters.add_if_exhausted(queue, message, failure.consumer, failure.detail)
        if failure.dead_reason or dead_letters.is_exhausted(queue, message):
            self._dying[message.position] = self._delayed.hold(queue, message), failure
            fetch = Fetch(queue.address, message.envelope.priority, [message.position], DEAD)
            self._turn.out.fetches.append(fetch)
            return True
        return False

    def body_read(self, command: c.Loaded) -> None:
        """Dead-letter a message whose body was read, or could not be."""
        (position,), (record,) = command.positions, command.records
        tag, failure = self._dying.pop(position)
        held = self._delayed.peer.unsettled.pop(tag, None)
        if held is None:
            return  # its queue was deleted meanwhile
        subscription, message = held
        queue = subscription.queue
        self._delayed.forget(message)
        queue.unsettled -= 1
        read = queue.reader.message(record, position)
        message.body = read.body
        if position in command.damaged:
            failure = DeliveryFailure(
                failure.consumer, reasons.DAMAGED, headers(read.envelope.block)["damaged"]
            )
        if not queue.deleted and not self._ends(queue, message, failure):
            self._back_to_place(queue, message)  # more attempts are allowed by now

    def _release(self, subscription: Subscription, message: Message) -> None:
        """Count a delivery that its consumer no longer has."""
        queue = subscription.queue
        queue.unsettled -= 1
        subscription.unsettled -= 1
        subscription.returned += 1
        subscription.probe_tag = 0  # it may be this delivery
        if not subscription.available:
            self._consumers.make_available(subscription)
        if queue.account is not None:
            queue.account.keep(-message.size)
        if queue.selective is not None and not queue.deleted:
            self._selective.group_settled(queue, message)

    def _record_failure(self, queue: Queue, message: Message, reason: str, client: str) -> None:
        """Record that the last delivery of a message failed."""
        out, failed = self._turn.out, (message.position, message.attempts)
        destination, clients = out.destination(queue.address), out.client(client)
        out.record(
            records.returned(destination, (failed,), records.GIVEN_BACK, reasons.code_of(reason), clients)
        )

    def _delay_redelivery(self, queue: Queue, message: Message, delay_ms: int) -> bool:
        """Delay another attempt; False when no delay is set, too many are delayed, or the queue must keep its
        order."""
        tag = self._delayed.take(queue, message) if delay_ms and not queue.forwarded else 0
        if tag:
            self._leases.begin(self._delayed.peer, tag, self._turn.now_ms + delay_ms)
        return bool(tag)

    def _back_to_place(self, queue: Queue, message: Message) -> None:
        lane = queue.lane(message.envelope.priority)
        if not message.has_body or self._store.belongs_outside(queue, lane, message):
            self._store.page(queue, lane, message)
            self._selective.note_paged(queue, lane, message)
        else:
            heappush(lane.returned, (message.sequence, message))
            self._store.count_body(queue, message.size)
        if message.expires_ms:
            queue.expiring = True
        if queue.limit_usage is not None and queue.limit_usage.removes:
            self._store.trim_later(queue)
        if queue.forwarded:
            self._turn.out.forwarded[queue.address] = None
        if queue.address in self._store.taps:
            self._store.taps.note_returned(queue.address, message)
        self._store.mark_dirty(queue)


def _mark(queue: Queue, message: Message) -> None:
    """Mark a message that another broker had and could not deliver as redelivered: others that were sent
    later have overtaken it. It waits as often as it must, so that this counts once, and never is the last
    attempt."""
    if not message.attempts and queue.policy.max_attempts > 1:
        message.attempts = 1
