"""The broker's mind: `decide` turns a run of commands into an outcome. Pure: no I/O, no clock.

Every deed changes memory and writes what must survive into the outcome; after all commands of a run
the queues they touched hand out what they can. The caller lets the outcome out only after its records
are safe, and hands the same records to `recovery` to get the same broker again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.destination import (
    DEAD_SUFFIX,
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    has_wildcard,
    parse,
)
from broker_app.core.errors import Refused
from broker_app.core.limits import Limits
from broker_app.core.message import OVERHEAD_BYTES, Envelope, Message, MessageIds
from broker_app.core.outcome import Fetch, Outcome
from broker_app.core.peer import Peer
from broker_app.core.queue import Lane, Queue
from broker_app.core.subscription import Subscription
from broker_app.core.timers import Leases, next_sweep
from broker_app.core.topic import Topics
from broker_app.core.transaction import Transaction

# Messages outside the journal take their positions from here up, so that ids stay unique.
UNRECORDED = 1 << 47
MAX_COUNTED_TOPICS = 1_000


class Broker:
    """All destinations, subscriptions and unsettled deliveries of one broker.

    `tag` distinguishes this broker's message ids from others'. `counters` are totals since start.
    """

    def __init__(self, *, tag: int = 0, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.ids = MessageIds(tag)
        self.queues: dict[str, Queue] = {}
        self.topics = Topics()
        #: apart from the others, so that no wildcard reaches what is private
        self.temporary_topics = Topics()
        self.topic_published: dict[str, int] = {}
        self.next_position = 1
        self.now_ms = 0
        #: bytes of messages whose bodies are in memory and waiting
        self.memory_bytes = 0
        #: peers that may hold deliveries
        self.peers: dict[Peer, None] = {}
        self.leases = Leases()
        self.sweep_ms = 0
        self.counters = {"published": 0, "delivered": 0, "discarded": 0, "lost_nonpersistent": 0}
        self._unrecorded = UNRECORDED
        self._arrivals = 0
        self._dirty: list[Queue] = []
        self._acking: list[Queue] = []
        self._out = Outcome(1, 0)
        self._deeds: dict[type, Callable[[Any], None]] = {
            c.Publish: self._publish,
            c.Subscribe: self._subscribe,
            c.Unsubscribe: self._unsubscribe,
            c.Settle: self._settle,
            c.Return: self._return,
            c.Extend: self._extend,
            c.Begin: self._begin,
            c.Enlist: self._enlist,
            c.Commit: self._commit,
            c.Abort: self._abort,
            c.Pause: self._pause,
            c.Resume: self._resume,
            c.Answer: self._answer_only,
            c.Disconnect: self._disconnect,
            c.Loaded: self._loaded,
            c.Purge: self._purge,
        }

    # ------------------------------------------------------------------ the one door

    def decide(self, run: Sequence[c.Command], now_us: int, onto: Outcome | None = None) -> Outcome:
        """Carry out `run` in order at the time `now_us` (µs since 1970, UTC) and say what follows.

        `onto` is the outcome of the former call when it was not committed yet: it grows and is returned.
        """
        out = self._out = onto or Outcome(self.next_position, now_us)
        self.now_ms = now_us // 1000
        deeds = self._deeds
        for command in run:
            deeds[type(command)](command)
        if self.now_ms >= self.next_deadline_ms:
            self._due()
        self._dispatch_dirty()
        self._record_acks()
        if out.fanouts:
            self._close_fanouts()
        self.next_position = out.first_position + out.count
        return out

    @property
    def next_deadline_ms(self) -> int:
        """When `decide` wants to be called even without commands."""
        lease = self.leases.next_ms
        return min(lease, self.sweep_ms) if lease else self.sweep_ms

    # ------------------------------------------------------------------ publishing

    def _publish(self, command: c.Publish) -> None:
        peer = command.peer
        last: Envelope | None = None
        queue: Queue | None = None
        enqueue, accept = self._enqueue, self._accept
        for envelope, body, receipt in command.entries:
            if envelope is not last:
                try:
                    queue = self._target(envelope.address)
                except Refused as refusal:
                    self._refuse(peer, receipt, refusal)
                    self.counters["published"] -= 1
                    continue
                last = envelope
            if queue is None:
                message = self._publish_to_topic(envelope, body)
            elif not queue.durable and queue.depth >= self.limits.topic_pending:
                message = self._overflow(queue, envelope, body)
            else:
                message = enqueue(queue, envelope, body)
            if receipt is not None:
                accept(peer, receipt, message)
        self.counters["published"] += len(command.entries)

    def _target(self, address: str) -> Queue | None:
        """The queue of `address`, made on first use; None when it names a topic."""
        queue = self.queues.get(address)
        if queue is not None:
            return queue
        destination = _sendable(address)
        if not destination.is_queue:
            return None
        if destination.kind == TEMP_QUEUE:
            # The requester has left: its replies go nowhere, and that is no fault of who answers.
            return self._NOWHERE
        return self.queue(address)

    _NOWHERE = Queue("/temp-queue/gone", durable=False)

    def queue(self, address: str, *, durable: bool = True) -> Queue:
        """The queue of `address`, made when it does not exist."""
        queue = self.queues.get(address)
        if queue is None:
            queue = self.queues[address] = Queue(address, durable=durable)
        return queue

    def _enqueue(
        self, queue: Queue, envelope: Envelope, body: bytes, explicit_id: bytes | None = None
    ) -> Message:
        """Put a new message at the end of its lane, recorded where it must survive or memory is full."""
        lanes = queue.lanes
        lane = (
            lanes[0]
            if len(lanes) == 1 and lanes[0].priority == envelope.priority
            else queue.lane(envelope.priority)
        )
        paging = queue.durable and (
            len(lane.paged) > 0
            or len(lane.loading) > 0
            or len(lane.ready) >= self.limits.window
            or self.memory_bytes >= self.limits.memory_bytes
        )
        recorded = queue.durable and (envelope.persistent or paging)
        if recorded:
            out = self._out
            message = Message(envelope, body, out.first_position + out.count, self.now_ms, True)
            message.explicit_id = explicit_id
            out.parts += records.published(message, out.destination(queue.address))
            out.count += 1
            out.published.append(message.position)
        else:
            self._unrecorded += 1
            message = Message(envelope, body, self._unrecorded, self.now_ms, False)
            message.explicit_id = explicit_id
        if queue is self._NOWHERE:
            self.counters["discarded"] += 1
            return message
        queue.published_total += 1
        if paging:
            lane.paged.append(message.position)
            lane.average += (len(body) - lane.average) >> 4
        else:
            self._arrive(lane, message)
        if message.expires_ms:
            queue.expiring = True
        if not queue.dirty and queue.available:
            queue.dirty = True
            self._dirty.append(queue)
        return message

    def _arrive(self, lane: Lane, message: Message) -> None:
        self._arrivals += 1
        message.order = self._arrivals
        lane.ready.append(message)
        self.memory_bytes += len(message.body) + OVERHEAD_BYTES

    def _publish_to_topic(self, envelope: Envelope, body: bytes) -> Message:
        self._unrecorded += 1
        message = Message(envelope, body, self._unrecorded, self.now_ms, False)
        address = envelope.address
        if address.startswith("/topic/"):
            topics, name = self.topics, address.removeprefix("/topic/")
            if name in self.topic_published or len(self.topic_published) < MAX_COUNTED_TOPICS:
                self.topic_published[name] = self.topic_published.get(name, 0) + 1
        else:
            topics, name = self.temporary_topics, address.removeprefix("/temp-topic/")
        if 0 < message.expires_ms <= self.now_ms:
            self.counters["discarded"] += 1
            return message
        looks, singles = topics.match(name)
        for look in looks:
            fanout = look.fanout
            if fanout is None:
                fanout = look.open()
                self._out.fanouts.append(fanout)
            fanout.messages.append(message)
            self.counters["delivered"] += len(fanout.members)
        for subscription in singles:
            self._keep_for(subscription, message)
        return message

    def _keep_for(self, subscription: Subscription, message: Message) -> None:
        """Let a topic's message wait for one subscription, or end the subscription when too many wait."""
        queue = subscription.queue
        if queue.depth >= self.limits.topic_pending:
            self._end_slow(subscription)
        else:
            self._enqueue(queue, message.envelope, message.body, self.ids.of(message))

    def _leave_fanouts(self, subscription: Subscription) -> list[Message]:
        """Take a subscription out of the fan-outs of this batch; returns what it would have got."""
        missed: list[Message] = []
        for fanout in self._out.fanouts:
            if fanout.look is subscription.look and fanout.leave(subscription):
                missed += fanout.messages
        self.counters["delivered"] -= len(missed)
        return missed

    def _close_fanouts(self) -> None:
        self._out.fanouts = [fanout for fanout in self._out.fanouts if fanout.close()]

    def _overflow(self, queue: Queue, envelope: Envelope, body: bytes) -> Message:
        """Replies that a requester does not take: it is ended, not the one who answers."""
        for subscription in queue.consumers[:]:
            self._end_slow(subscription)
        self.counters["discarded"] += 1
        self._unrecorded += 1
        return Message(envelope, body, self._unrecorded, self.now_ms, False)

    def _end_slow(self, subscription: Subscription) -> None:
        detail = (
            f"{self.limits.topic_pending} messages wait for subscription {subscription.id!r} on "
            f"{subscription.address}; it reads too slowly and was ended"
        )
        self._out.closes.append((subscription.peer, Refused("slow-consumer", detail)))
        self._end_subscription(subscription, keep_unsettled=False)

    # ------------------------------------------------------------------ handing out

    def _dispatch_dirty(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for queue in dirty:
                queue.dirty = False
                self._dispatch(queue)

    def _dispatch(self, queue: Queue) -> None:
        """Hand out messages while there are both messages in memory and consumers with credit."""
        available = queue.available
        now_ms = self.now_ms
        touched = self._out.touched
        handed_out = 0
        while available:
            lane = queue.first_lane()
            if lane is None:
                break
            ready, returned = lane.ready, lane.returned
            mark = lane.mark
            while available:
                if returned and (not ready or returned[0][0] < ready[0].order):
                    message = heappop(returned)[1]
                elif ready:
                    message = ready.popleft()
                else:
                    break
                self.memory_bytes -= len(message.body) + OVERHEAD_BYTES
                if 0 < message.expires_ms <= now_ms:
                    self._expire(queue, message)
                    continue
                subscription = available[0]
                if len(available) > 1:
                    available.rotate(-1)
                peer = subscription.peer
                if subscription.ack == c.AUTO:
                    tag = 0
                    queue.acked_total += 1
                    if message.recorded:
                        self._acknowledged(queue, message)
                else:
                    tag = peer.next_tag
                    peer.next_tag = tag + 1
                    peer.unsettled[tag] = (subscription, message)
                    queue.unsettled += 1
                    subscription.unsettled += 1
                    if subscription.lease_ms:
                        self.leases.begin(peer, tag, now_ms + subscription.lease_ms)
                    if message.recorded and message.position > lane.mark:
                        lane.mark = message.position
                    if subscription.unsettled >= subscription.credit:
                        available.pop()
                        subscription.available = False
                handed_out += 1
                peer.deliveries.append((subscription, tag, message))
                if not peer.touched:
                    peer.touched = True
                    touched.append(peer)
            if lane.mark != mark:
                out = self._out
                out.record(records.delivered(out.destination(queue.address), lane.priority, lane.mark))
            self._fetch(queue, lane)
            if not ready and (lane.loading or lane.paged):
                break
        queue.delivered_total += handed_out
        self.counters["delivered"] += handed_out

    def _fetch(self, queue: Queue, lane: Lane) -> None:
        """Ask for the next run of bodies when memory runs low on them."""
        limits = self.limits
        if lane.loading or not lane.paged or len(lane.ready) > limits.fetch_messages:
            return
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average)))
        lane.loading = lane.paged.take(count)
        self._out.fetches.append(Fetch(queue.address, lane.priority, list(lane.loading)))

    def _loaded(self, command: c.Loaded) -> None:
        queue = self.queues.get(command.address)
        if queue is None:
            return
        lane = queue.lane(command.priority)
        if list(lane.loading) != list(command.positions):
            return  # the queue was purged meanwhile
        del lane.loading[:]
        read = queue.reader.message
        for position, record in zip(command.positions, command.records, strict=True):
            message = read(record, position)
            if position <= lane.mark:
                message.attempts = lane.attempts.pop(position, 1)
            self._arrive(lane, message)
        lane.average = sum(map(len, command.records)) // len(command.records)
        self._touch(queue)

    def _touch(self, queue: Queue) -> None:
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)

    # ------------------------------------------------------------------ settling

    def _settle(self, command: c.Settle) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, command.cumulative)
        except Refused as refusal:
            self._refuse(peer, command.receipt, refusal)
            return
        unsettled = peer.unsettled
        for tag in tags:
            subscription, message = unsettled.pop(tag)
            queue = subscription.queue
            queue.unsettled -= 1
            queue.acked_total += 1
            subscription.unsettled -= 1
            if subscription.lease_ms:
                self.leases.end(peer, tag)
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
        self._accept(peer, command.receipt)

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

    def _acknowledged(self, queue: Queue, message: Message) -> None:
        if not queue.acked:
            self._acking.append(queue)
        queue.acked.append(message.position)

    def _record_acks(self) -> None:
        out = self._out
        for queue in self._acking:
            out.record(records.acked(out.destination(queue.address), records.ACKNOWLEDGED, queue.acked))
            out.freed += queue.acked
            queue.acked = []
        self._acking.clear()

    def _return(self, command: c.Return) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, command.cumulative)
        except Refused as refusal:
            self._refuse(peer, command.receipt, refusal)
            return
        for tag in tags:
            subscription, message = peer.unsettled.pop(tag)
            self.leases.end(peer, tag)
            self._give_back(subscription, message, command.dead_reason, command.detail)
        self._accept(peer, command.receipt)

    def _give_back(
        self, subscription: Subscription, message: Message, dead_reason: str = "", detail: str = ""
    ) -> None:
        """A delivery came back unsettled: to its original place, or to the dead letters."""
        queue = subscription.queue
        queue.unsettled -= 1
        subscription.unsettled -= 1
        if not subscription.available:
            self._offer(subscription)
        message.attempts += 1
        if queue.gone:
            return
        if dead_reason:
            self._dead_letter(queue, message, dead_reason, detail)
        elif message.attempts >= self.limits.max_attempts and _has_dead_letters(queue):
            self._dead_letter(queue, message, "MAX_ATTEMPTS", f"handed out {message.attempts} times")
        else:
            self._back_to_place(queue, message)

    def _back_to_place(self, queue: Queue, message: Message) -> None:
        lane = queue.lane(message.envelope.priority)
        heappush(lane.returned, (message.order, message))
        self.memory_bytes += len(message.body) + OVERHEAD_BYTES
        if message.expires_ms:
            queue.expiring = True
        # A first return follows from the lane's mark; only further ones need a record of their own.
        if message.recorded and message.attempts > 1:
            out = self._out
            out.record(
                records.returned(out.destination(queue.address), [(message.position, message.attempts)])
            )
        self._touch(queue)

    def _dead_letter(self, queue: Queue, message: Message, reason: str, detail: str) -> None:
        queue.dead_total += 1
        if not _has_dead_letters(queue):
            self._drop(queue, message, records.DISCARDED)
            self.counters["discarded"] += 1
            return
        self._drop(queue, message, records.DEAD_LETTERED)
        origin = message.envelope
        facts = {"origin": queue.address, "dead-reason": reason, "dead-detail": detail}
        block = origin.block + b"".join(
            f"{name}:{_escape(value)}\n".encode() for name, value in facts.items() if value
        )
        address = queue.address + DEAD_SUFFIX
        envelope = Envelope(address, block, persistent=origin.persistent, priority=origin.priority)
        self._enqueue(self.queue(address), envelope, message.body, self.ids.of(message))

    def _expire(self, queue: Queue, message: Message) -> None:
        queue.expired_total += 1
        self._drop(queue, message, records.EXPIRED)

    def _drop(self, queue: Queue, message: Message, cause: int) -> None:
        """Forget a message that is in no lane and no longer unsettled."""
        if message.recorded:
            out = self._out
            out.record(records.acked(out.destination(queue.address), cause, (message.position,)))
            out.freed.append(message.position)

    def _extend(self, command: c.Extend) -> None:
        peer = command.peer
        try:
            tags = self._tags(peer, command.tags, False)
        except Refused as refusal:
            self._refuse(peer, command.receipt, refusal)
            return
        for tag in tags:
            self.leases.begin(peer, tag, self.now_ms + command.lease_ms)
        self._accept(peer, command.receipt)

    # ------------------------------------------------------------------ subscribing

    def _subscribe(self, command: c.Subscribe) -> None:
        peer = command.peer
        try:
            subscription = self._new_subscription(command)
        except Refused as refusal:
            self._refuse(peer, command.receipt, refusal)
            return
        peer.subscriptions[command.id] = subscription
        self.peers[peer] = None
        self._accept(peer, command.receipt)
        if not peer.paused:
            self._offer(subscription)

    def _new_subscription(self, command: c.Subscribe) -> Subscription:
        peer, limits = command.peer, self.limits
        if command.id in peer.subscriptions:
            raise Refused("conflict", f"subscription id {command.id!r} is already in use on this connection")
        if len(peer.subscriptions) >= limits.subscriptions_per_peer:
            raise Refused("too-many", f"a connection may hold {limits.subscriptions_per_peer} subscriptions")
        if not 1 <= command.credit <= limits.max_credit:
            raise Refused(
                "invalid", f"credit is {command.credit}; it must be between 1 and {limits.max_credit}"
            )
        destination = parse(command.address)
        look = None if destination.is_queue else command.look
        subscription = Subscription(
            peer, command.id, command.address, command.ack, command.credit, command.lease_ms, look
        )
        if destination.is_queue:
            self._join_queue(subscription, destination)
        else:
            _check_filter(destination)
            subscription.queue = Queue(command.address, durable=False)
            subscription.queue.consumers.append(subscription)
            self._listen(subscription, destination)
        return subscription

    def _listen(self, subscription: Subscription, destination: Destination) -> None:
        topics = self.topics if destination.kind == TOPIC else self.temporary_topics
        topics.add(destination.name, subscription, together=_goes_together(subscription))

    def _unlisten(self, subscription: Subscription, destination: Destination) -> None:
        topics = self.topics if destination.kind == TOPIC else self.temporary_topics
        topics.remove(destination.name, subscription)

    def _join_queue(self, subscription: Subscription, destination: Destination) -> None:
        address = destination.address
        if destination.kind == TEMP_QUEUE:
            temporary = subscription.peer.temporary
            if address in self.queues and address not in temporary:
                raise Refused(
                    "not-allowed", f"{address} belongs to another connection; only that one may consume it"
                )
            temporary.add(address)
        subscription.queue = self.queue(address, durable=destination.kind == QUEUE)
        subscription.queue.consumers.append(subscription)

    def _offer(self, subscription: Subscription) -> None:
        """Let a subscription stand in line for messages when it has credit."""
        if (
            subscription.available
            or subscription.peer.paused
            or subscription.unsettled >= subscription.credit
        ):
            return
        if subscription.peer.subscriptions.get(subscription.id) is not subscription:
            return  # it has ended; only its unsettled deliveries were left
        subscription.available = True
        subscription.queue.available.append(subscription)
        self._touch(subscription.queue)

    def _withdraw(self, subscription: Subscription) -> None:
        if subscription.available:
            subscription.available = False
            subscription.queue.available.remove(subscription)

    def _unsubscribe(self, command: c.Unsubscribe) -> None:
        subscription = command.peer.subscriptions.get(command.id)
        if subscription is None:
            refusal = Refused("not-found", f"there is no subscription {command.id!r} on this connection")
            self._refuse(command.peer, command.receipt, refusal)
            return
        self._end_subscription(subscription, keep_unsettled=command.keep_unsettled)
        self._accept(command.peer, command.receipt)

    def _end_subscription(self, subscription: Subscription, *, keep_unsettled: bool) -> None:
        peer = subscription.peer
        peer.subscriptions.pop(subscription.id, None)
        queue = subscription.queue
        self._withdraw(subscription)
        queue.consumers.remove(subscription)
        destination = parse(subscription.address)
        if not destination.is_queue:
            self._leave_fanouts(subscription)
            self._unlisten(subscription, destination)
            self._forget(queue)
            keep_unsettled = False
        if subscription.unsettled and not keep_unsettled:
            for tag in [tag for tag, (holder, _) in peer.unsettled.items() if holder is subscription]:
                _, message = peer.unsettled.pop(tag)
                self._give_back(subscription, message)

    def _pause(self, command: c.Pause) -> None:
        peer = command.peer
        peer.paused = True
        for subscription in list(peer.subscriptions.values()):
            self._withdraw(subscription)
            if subscription.look is not None:
                self._serve_singly(subscription)

    def _serve_singly(self, subscription: Subscription) -> None:
        """Hold back what goes to a paused subscription, beginning with what this batch has for it."""
        missed = self._leave_fanouts(subscription)
        destination = parse(subscription.address)
        self._unlisten(subscription, destination)
        self._listen(subscription, destination)
        for message in missed:
            if not subscription.queue.gone:
                self._keep_for(subscription, message)

    def _resume(self, command: c.Resume) -> None:
        peer = command.peer
        peer.paused = False
        for subscription in peer.subscriptions.values():
            self._offer(subscription)
            if _goes_together(subscription) and subscription.look is None:
                # What waits goes into its mailbox at the end of this run, and mailboxes go before fan-outs.
                destination = parse(subscription.address)
                self._unlisten(subscription, destination)
                self._listen(subscription, destination)

    def _disconnect(self, command: c.Disconnect) -> None:
        peer = command.peer
        peer.paused = True  # nothing more is handed to it, whatever comes back below
        peer.transactions.clear()
        for subscription, message in peer.unsettled.values():
            self._give_back(subscription, message)
        peer.unsettled.clear()
        for subscription in list(peer.subscriptions.values()):
            self._end_subscription(subscription, keep_unsettled=True)
        self.peers.pop(peer, None)
        for address in peer.temporary:
            self._remove_queue(address)
        peer.temporary.clear()
        self._accept(peer, command.receipt)

    def _remove_queue(self, address: str) -> None:
        queue = self.queues.pop(address, None)
        if queue is not None:
            self.counters["discarded"] += queue.depth
            self._forget(queue)

    def _forget(self, queue: Queue) -> None:
        """The end of a queue that lives in memory."""
        queue.gone = True
        self.memory_bytes -= sum(message.size for lane in queue.lanes for message in lane.in_memory())
        queue.lanes.clear()

    def _purge(self, command: c.Purge) -> None:
        queue = self.queues.get(command.address)
        if queue is None:
            self._refuse(
                command.peer, command.receipt, Refused("not-found", f"there is no queue {command.address}")
            )
            return
        positions: list[int] = []
        for lane in queue.lanes:
            for message in lane.in_memory():
                self.memory_bytes -= message.size
                if message.recorded:
                    positions.append(message.position)
            positions += lane.loading
            for chunk in lane.paged.chunks():
                positions += chunk
        if positions:
            out = self._out
            out.record(records.acked(out.destination(queue.address), records.PURGED, positions))
            out.freed += positions
        marks = [(lane.priority, lane.mark) for lane in queue.lanes]
        queue.lanes.clear()
        for priority, mark in marks:
            queue.lane(priority).mark = mark
        self._accept(command.peer, command.receipt)

    # ------------------------------------------------------------------ transactions

    def _begin(self, command: c.Begin) -> None:
        peer = command.peer
        if command.transaction in peer.transactions:
            refusal = Refused("conflict", f"transaction {command.transaction!r} has already begun")
        elif len(peer.transactions) >= self.limits.transactions_per_peer:
            refusal = Refused(
                "too-many", f"a connection may hold {self.limits.transactions_per_peer} transactions"
            )
        else:
            peer.transactions[command.transaction] = Transaction()
            self._accept(peer, command.receipt)
            return
        self._refuse(peer, command.receipt, refusal)

    def _enlist(self, command: c.Enlist) -> None:
        peer, limits = command.peer, self.limits
        transaction = peer.transactions.get(command.transaction)
        if transaction is None:
            self._refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        transaction.bytes += _published_bytes(command.command)
        held = sum(open_.bytes for open_ in peer.transactions.values())
        if (
            len(transaction.commands) >= limits.commands_per_transaction
            or held > limits.bytes_per_transaction
        ):
            del peer.transactions[command.transaction]
            detail = (
                f"transaction {command.transaction!r} is larger than "
                f"{limits.commands_per_transaction} frames or {limits.bytes_per_transaction} bytes "
                "and was aborted"
            )
            self._refuse(peer, command.receipt, Refused("too-large", detail))
            return
        transaction.commands.append(command.command)
        self._accept(peer, command.receipt)

    def _commit(self, command: c.Commit) -> None:
        peer = command.peer
        transaction = peer.transactions.pop(command.transaction, None)
        if transaction is None:
            self._refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        try:
            self._check_all(peer, transaction.commands)
        except Refused as refusal:
            detail = f"transaction {command.transaction!r} was rolled back: {refusal.detail}"
            self._refuse(peer, command.receipt, Refused(refusal.code, detail))
            return
        for deed in transaction.commands:
            self._deeds[type(deed)](deed)
        self._accept(peer, command.receipt)

    def _check_all(self, peer: Peer, enlisted: Sequence[c.Command]) -> None:
        """Refused when any deed of a transaction cannot be carried out."""
        settled: set[int] = set()
        for deed in enlisted:
            if isinstance(deed, c.Publish):
                for envelope, _, _ in deed.entries:
                    _sendable(envelope.address)
            elif isinstance(deed, c.Settle | c.Return):
                if settled.intersection(deed.tags):
                    raise Refused("unknown-delivery", "the transaction settles one delivery twice")
                settled.update(self._tags(peer, deed.tags, deed.cumulative))

    def _abort(self, command: c.Abort) -> None:
        if command.peer.transactions.pop(command.transaction, None) is None:
            self._refuse(command.peer, command.receipt, _no_transaction(command.transaction))
        else:
            self._accept(command.peer, command.receipt)

    # ------------------------------------------------------------------ answers

    def _answer_only(self, command: c.Answer) -> None:
        self._accept(command.peer, command.receipt)

    def _accept(self, peer: Peer, receipt: Any, message: Message | None = None) -> None:
        if receipt is None:
            return
        peer.receipts.append((receipt, message) if peer.detailed else receipt)
        if not peer.touched:
            peer.touched = True
            self._out.touched.append(peer)

    def _refuse(self, peer: Peer, receipt: Any, refusal: Refused) -> None:
        peer.refusals.append((receipt, refusal))
        if not peer.touched:
            peer.touched = True
            self._out.touched.append(peer)

    # ------------------------------------------------------------------ time

    def _due(self) -> None:
        for peer, tag in self.leases.due(self.now_ms):
            held = peer.unsettled.pop(tag, None)
            if held is not None:
                self._give_back(*held)
        if self.now_ms >= self.sweep_ms:
            self.sweep_ms = next_sweep(self.now_ms)
            self._sweep()

    def _sweep(self) -> None:
        """Drop what expired at the heads of queues, and queues that nobody uses."""
        # What is read back only to be looked at must leave memory for what moves.
        room = self.limits.memory_bytes // 2 - self.memory_bytes
        for queue in list(self.queues.values()):
            if queue.expiring:
                self._expire_waiting(queue)
                for lane in queue.lanes:
                    if room > 0 and lane.paged and not lane.ready:
                        self._fetch(queue, lane)
                        room -= self.limits.fetch_bytes
            if queue.consumers or queue.unsettled or queue.depth or not queue.durable:
                queue.idle_since_ms = 0
            elif not queue.idle_since_ms:
                queue.idle_since_ms = self.now_ms
            elif self.now_ms - queue.idle_since_ms >= self.limits.idle_queue_ms:
                del self.queues[queue.address]

    def _expire_waiting(self, queue: Queue) -> None:
        for lane in queue.lanes:
            for message in [m for m in lane.in_memory() if 0 < m.expires_ms <= self.now_ms]:
                self.memory_bytes -= message.size
                self._expire(queue, message)
            alive = [m for m in lane.ready if not 0 < m.expires_ms <= self.now_ms]
            lane.ready.clear()
            lane.ready.extend(alive)
            lane.returned = [entry for entry in lane.returned if not 0 < entry[1].expires_ms <= self.now_ms]
            heapify(lane.returned)
        queue.expiring = any(m.expires_ms for lane in queue.lanes for m in lane.in_memory()) or any(
            lane.paged or lane.loading for lane in queue.lanes
        )


def _has_dead_letters(queue: Queue) -> bool:
    return queue.durable and not queue.address.endswith(DEAD_SUFFIX)


def _goes_together(subscription: Subscription) -> bool:
    return subscription.ack == c.AUTO and subscription.look_key is not None and not subscription.peer.paused


def _check_filter(destination: Destination) -> None:
    """Refused when a topic filter could never match, or would look into the topics of others."""
    if destination.kind == TEMP_TOPIC and has_wildcard(destination.name):
        raise Refused("bad-destination", "a temporary topic is subscribed to by its name, not by a wildcard")
    if any(level in (">", "#") for level in destination.name.split(".")[:-1]):
        raise Refused(
            "bad-destination", f"{destination.name!r} has '>' or '#' before its end; they stand for the rest"
        )


def _sendable(address: str) -> Destination:
    """The destination of a message; Refused when it names more than one."""
    destination = parse(address)
    if not destination.is_queue and has_wildcard(destination.name):
        raise Refused("bad-destination", f"{address!r} has a wildcard; a message is sent to one topic")
    return destination


def _no_transaction(name: str) -> Refused:
    return Refused("not-found", f"there is no open transaction {name!r}; BEGIN it first")


def _published_bytes(deed: c.Command) -> int:
    return sum(len(body) for _, body, _ in deed.entries) if isinstance(deed, c.Publish) else 0


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace(":", "\\c")
