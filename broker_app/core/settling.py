"""What becomes of a delivery: acknowledged, given back, or a dead letter."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush

from broker_app.core import commands as c
from broker_app.core import deadletter, records
from broker_app.core.delaying import Delaying
from broker_app.core.destination import DEAD_SUFFIX, QUEUE, dead_letters_of
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope, Message
from broker_app.core.peer import Peer
from broker_app.core.queue import Queue
from broker_app.core.resting import retry_delay_ms
from broker_app.core.subscription import Subscription


class Settling(Delaying):
    """Settling deliveries by tag."""

    def _settle(self, command: c.Settle) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, command.cumulative)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        unsettled = peer.unsettled
        for tag in tags:
            subscription, message = unsettled.pop(tag)
            queue = subscription.queue
            queue.unsettled -= 1
            queue.acked_total += 1
            subscription.unsettled -= 1
            if subscription.watched:
                self._watched_ends(subscription, tag, message)
            if message.recorded:
                acked = queue.acked
                if not acked:
                    self._acking.append(queue)
                acked.append(message.position)
            if not subscription.available:
                self._offer(subscription)
            elif not queue.dirty:
                queue.dirty = True
                self._dirty.append(queue)
        if tags and subscription.probe_tag and subscription.probe_tag not in unsettled:
            held_ms = self.now_ms - subscription.probe_ms
            subscription.queue.holds.append(held_ms)
            subscription.holds.append(held_ms)
            subscription.probe_tag = 0
        self._accept(peer, command.receipt)

    def _watched_ends(self, subscription: Subscription, tag: int, message: Message) -> None:
        """A delivery was settled that has a lease, or whose bytes are counted."""
        if subscription.lease_ms:
            self.leases.end(subscription.peer, tag)
        guard = subscription.queue.guarded
        if guard is not None:
            guard.bytes -= len(message.body)
        account = subscription.queue.account
        if account is not None:
            account.keep(-message.size)
        if subscription.queue.picking is not None:
            self._group_settled(subscription.queue, message)

    def _tags(self, peer: Peer, tags: Sequence[int], cumulative: bool) -> Sequence[int]:
        """The tags meant, all of them known; Refused names the first that is not."""
        unsettled = peer.unsettled
        for tag in tags:
            if tag not in unsettled:
                raise Refused(
                    "unknown-delivery",
                    f"there is no unsettled delivery {tag} in this session; "
                    "it was settled, returned or never made",
                )
        if not cumulative:
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

    def _return(self, command: c.Return) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, command.cumulative)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        for tag in tags:
            subscription, message = peer.unsettled.pop(tag)
            self.leases.end(peer, tag)
            self._give_back(subscription, message, command.dead_reason, command.detail, command.delay_ms)
        self._accept(peer, command.receipt)

    def _came_back(self, subscription: Subscription, message: Message) -> None:
        """A lease has ended: a consumer's, or that of a message that waited before another attempt."""
        if subscription.peer is not self.resting.peer:
            self._give_back(subscription, message)
            return
        self.resting.let_go(message)
        queue = subscription.queue
        queue.unsettled -= 1
        if not queue.gone:
            self._back_to_place(queue, message)

    def _give_back(
        self,
        subscription: Subscription,
        message: Message,
        dead_reason: str = "",
        detail: str = "",
        delay_ms: int = 0,
    ) -> None:
        """A delivery came back unsettled: to its original place, or to the dead letters."""
        queue = subscription.queue
        queue.unsettled -= 1
        subscription.unsettled -= 1
        subscription.returned += 1
        subscription.probe_tag = 0  # perhaps this one's
        if not subscription.available:
            self._offer(subscription)
        message.attempts += 1
        if queue.account is not None:
            queue.account.keep(-message.size)
        if queue.gone:
            return
        if queue.picking is not None:
            self._group_settled(queue, message)
        policy = queue.policy
        if dead_reason:
            self._dead_letter(queue, message, dead_reason, detail, subscription)
        elif self._bury_worn_out(queue, message, subscription):
            return
        elif not self._rest(queue, message, delay_ms or retry_delay_ms(policy, message.attempts)):
            self._back_to_place(queue, message)

    def _bury_worn_out(self, queue: Queue, message: Message, consumer: Subscription | None = None) -> bool:
        """Make a message a dead letter that came back too often, or that consumers held as often when the
        broker ended. What is for another broker never does."""
        worn = not queue.forwarded and message.attempts >= queue.policy.max_attempts
        if not (worn and self._has_dead_letters(queue)):
            return False
        self._dead_letter(queue, message, "MAX_ATTEMPTS", f"handed out {message.attempts} times", consumer)
        return True

    def _rest(self, queue: Queue, message: Message, delay_ms: int) -> bool:
        """Let a message wait before another attempt; False when it need not, or too many do, or when others
        would overtake it that must not."""
        tag = self.resting.take(queue, message) if delay_ms and not queue.forwarded else 0
        if tag:
            self.leases.begin(self.resting.peer, tag, self.now_ms + delay_ms)
        return bool(tag)

    def _back_to_place(self, queue: Queue, message: Message) -> None:
        lane = queue.lane(message.envelope.priority)
        if message.position > lane.mark and self._belongs_outside(queue, lane, message):
            lane.paged.insert(message.position)
            lane.attempts[message.position] = message.attempts
        else:
            heappush(lane.returned, (message.order, message))
            self._remember_body(queue, message.size)
        if message.expires_ms:
            queue.expiring = True
        if queue.guarded is not None and queue.guarded.removes:
            self._overfull[queue] = None
        if queue.forwarded:
            self._out.forwarded[queue.address] = None
        self._touch(queue)

    def _expire(self, queue: Queue, message: Message) -> None:
        if queue.policy.dead_letter_expired and self._has_dead_letters(queue):
            self._dead_letter(queue, message, "EXPIRED", f"its time ended at {message.expires_ms}")
        else:
            super()._expire(queue, message)

    def _has_dead_letters(self, queue: Queue) -> bool:
        """Whether messages that die in `queue` go to another one; those of dead letters never do."""
        return has_dead_letters(queue) and queue.address not in self.policies.graves

    def _take_unsettled(self, queue: Queue) -> list[int]:
        """Take the queue's deliveries away from those who hold them; the positions of what was recorded."""
        positions: list[int] = []
        for peer in self.peers:
            tags = [tag for tag, (holder, _) in peer.unsettled.items() if holder.queue is queue]
            for tag in tags:
                subscription, message = peer.unsettled.pop(tag)
                subscription.unsettled -= 1
                subscription.returned += 1
                self.leases.end(peer, tag)
                if peer is self.resting.peer:
                    self.resting.let_go(message)
                elif queue.account is not None:
                    queue.account.keep(-message.size)
                if message.recorded:
                    positions.append(message.position)
        queue.removed_total += queue.unsettled
        queue.unsettled = 0
        return positions

    def _dead_letter(
        self,
        queue: Queue,
        message: Message,
        reason: str,
        detail: str,
        consumer: Subscription | None = None,
    ) -> None:
        """Send a message to the dead letters, or away where there are none; `consumer` had it last."""
        queue.dead_total += 1
        if queue.durable and self._listened:
            self._tell_of_dead_letter(queue, message, reason, detail)
        if not (self._has_dead_letters(queue) and queue.policy.use_dead_letters):
            self._drop(queue, message, records.DISCARDED)
            self.counters["discarded"] += 1
            return
        self._drop(queue, message, records.DEAD_LETTERED)
        origin = message.envelope
        facts = {
            deadletter.ORIGIN: queue.address,
            "dead-reason": reason,
            "dead-detail": detail,
            "dead-attempts": str(message.attempts),
            "dead-at": str(self.now_ms),
            "sent-at": str(self.ids.time_ms(message)),
        }
        if consumer is not None:
            facts["dead-consumer"] = f"{consumer.peer.user}/{consumer.id}".replace("\0", "/")
        if origin.address != queue.address:
            facts[deadletter.ORIGIN_TOPIC] = origin.address
        block = deadletter.marked(origin.block, facts)
        name = queue.policy.dead_letters
        filter = queue.named.terms.filter if queue.named is not None else ""
        address = f"/{QUEUE}/{name}" if name else dead_letters_of(queue.address, filter)
        envelope = Envelope(address, block, persistent=origin.persistent, priority=origin.priority)
        self._enqueue(self.queue(address), envelope, message.body, self.ids.of(message))

    def _extend(self, command: c.Extend) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, False)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        for tag in tags:
            self.leases.begin(peer, tag, self.now_ms + command.lease_ms)
        self._accept(peer, command.receipt)


def has_dead_letters(queue: Queue) -> bool:
    """Whether messages that die in `queue` go to another one."""
    return queue.durable and not queue.address.endswith(DEAD_SUFFIX)
