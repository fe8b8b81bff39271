"""Admission of messages: limits of destinations and of the broker, and what happens at them.

With FLOW_CONTROL, a message for which there is no room is blocked until there is some or its time limit ends.
Its producer gets no receipt; when many of its bytes are blocked, it is throttled. Blocked messages are
admitted in the order of their arrival, and later messages to the same destination are blocked behind them, so
that the order of each producer is kept."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.dispatcher import Dispatcher
from broker_app.core.destinations import Destinations
from broker_app.core.message import (
    Envelope,
    Message,
)
from broker_app.core.model import BlockedPublish, LimitUsage, Peer, Queue, Subscription
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy
from broker_app.core.publishing.blocked_producers import BlockedProducers
from broker_app.core.publishing.destination_limits import DestinationLimits, queue_full
from broker_app.core.publishing.paced_producers import SHORT, SHORT_OF_HELD, PacedProducers
from broker_app.core.publishing.publisher import Publisher
from broker_app.core.publishing.resource_alarm import EXEMPT
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn

_BY_ARRIVAL = attrgetter("arrival")
#: messages of one command between two looks at the clock; where more copies are made of each, it is looked at
#: after each
MOST_ENTRIES, MOST_COPIES = 256, 16


class Admission:
    """Admits messages, blocks their producers, or refuses them."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        dispatcher: Dispatcher,
        publisher: Publisher,
        destination_limits: DestinationLimits,
        resource_alarms: ResourceAlarms,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._destination_limits = destination_limits
        self._resource_alarms = resource_alarms
        paced: set[Peer] = set()
        #: the bytes of blocked messages
        self.blocked = BlockedProducers(turn, paced)
        #: producers that wait for consumers at full speed
        self.paced = PacedProducers(turn, paced, self.blocked.check_later)
        #: whether what was held of paced producers is being published
        self._goes_on = False
        #: queues with blocked messages
        self.blocked_queues: dict[Queue, None] = {}
        #: messages that a resource alarm blocks
        self.blocked_by_alarm: deque[BlockedPublish] = deque()
        #: the number of messages that were blocked so far
        self._arrivals = 0
        #: receipts of peers that disconnected while messages of theirs were blocked
        self._pending_disconnects: dict[Peer, Any] = {}
        turn.on_stop.append(self._peer_stopped)

    def publish(self, command: c.Publish) -> c.Publish | None:
        """Publish messages, block them or refuse them, or hold them while their producers are paced. Returns
        the rest when there are many."""
        if self.paced.queues and self._is_held(command):
            return None
        if self._resource_alarms.alarm is not None or self.blocked_by_alarm:
            self._publish_under_alarm(command)
            return None
        rest: list[c.Entry] | None = None
        run = command.entries
        if len(run) > MOST_ENTRIES:
            run, rest = run[:MOST_ENTRIES], run[MOST_ENTRIES:]
        peer = command.peer
        client = command.client or peer.client
        source = self._turn.out.client(client) if client else b""
        last: Envelope | None = None
        queue: Queue | None = None
        #: whether many copies are made of each message to the destination
        is_crowded = False
        plain = open_topic = False
        enqueue, accept = self._store.enqueue, self._turn.accept
        entries, taps = iter(run), self._store.taps
        for envelope, body, receipt in entries:
            if envelope is not last:
                try:
                    queue = self._destinations.target(envelope)
                except Exception as error:
                    self._not_published(peer, receipt, error)
                    self._pass_over(peer, entries)
                    continue
                last = envelope
                if queue is None:
                    plain = False
                    open_topic = envelope.options is None and not self._destination_limits.limits_topics
                    is_crowded = self._publisher.copies(envelope.address) > MOST_COPIES
                else:
                    plain = envelope.options is None and queue.durable and queue.limit_usage is None
                    open_topic = is_crowded = False
                if envelope.address in taps:
                    is_crowded |= len(taps[envelope.address]) > MOST_COPIES
            message: Message | None
            if plain:
                message = enqueue(queue, envelope, body, None, source)  # type: ignore[arg-type]  # `plain` implies a queue
            elif open_topic:
                message = self._publisher.publish_to_topic(envelope, body, source, peer)
            else:
                message = self._admit(peer, client, queue, envelope, body, receipt)
                if message is None:
                    self._pass_over(peer, entries)
                    continue
            if receipt is not None:
                accept(peer, receipt, message)
            if is_crowded and self._turn.deadline.passed:
                rest = [*entries, *(rest or ())]
        if (
            queue is not None
            and (queue.unsettled or queue.pace is not None)
            and queue.depth > (SHORT if peer.ordered else SHORT_OF_HELD)
        ):
            self.paced.published(queue, peer, len(run))
        if not rest:
            self._turn.counters["published"] += len(command.entries)
            return None
        self._turn.counters["published"] += len(command.entries) - len(rest)
        return c.Publish(peer, rest, command.user, command.client)

    def _is_held(self, command: c.Publish) -> bool:
        """Hold a command of a paced producer that has no connection to be left unread; returns whether it is
        held."""
        if command.peer.ordered or self._goes_on:
            return False
        envelope = command.entries[0][0]
        return self.paced.hold(self._destinations.queues.get(envelope.address), command)

    def end_waits(self) -> bool:
        """Let paced producers go on that have waited long enough, and publish what was held of them. Returns
        whether something was published."""
        resumed = self.paced.review()
        for queue in resumed:
            self._publish_held(queue)
        return bool(resumed)

    def _publish_held(self, queue: Queue) -> None:
        """Publish what was held for a queue, some of it in any case, until the deadline has passed. Of many
        messages the rest waits again."""
        rest: c.Publish | None = None
        self._goes_on = True
        try:
            while rest is None and (held := self.paced.next_held(queue)) is not None:
                rest = self.publish(held)
                if self._turn.deadline.passed:
                    break
        finally:
            self._goes_on = False
        self.paced.put_back(queue, rest)

    def _source(self, client: str) -> bytes:
        """The `source` of messages of a client, as records have it."""
        return self._turn.out.client(client) if client else b""

    def _not_published(self, peer: Peer, receipt: Any, error: Exception) -> None:
        """Refuse one message of a run, all of which is counted as published."""
        self._turn.counters["published"] -= 1
        self._turn.refuse(peer, receipt, error)

    def _pass_over(self, peer: Peer, entries: Iterator[c.Entry]) -> None:
        """Skip the rest of a run, all of which is counted as published, when a refusal has stopped its
        peer."""
        if peer.stopped:
            self._turn.counters["published"] -= sum(1 for _ in entries)

    def _admit(
        self,
        peer: Peer,
        client: str,
        queue: Queue | None,
        envelope: Envelope,
        body: bytes,
        receipt: Any,
        waited: BlockedPublish | None = None,
    ) -> Message | None:
        """Publish one message if its destination has room; None when it is blocked (still, if it has
        `waited`) or was refused."""
        address, size = envelope.address, len(body)
        usage = self._destination_limits.of_topic(address) if queue is None else queue.limit_usage
        if usage is not None and not (queue is not None and queue.deleted):
            try:
                self._destination_limits.check_admissible(peer, usage, address, size)
            except Exception as error:
                self._not_published(peer, receipt, error)
                return None
        full = self._full_copy(address, size, waited) if queue is None else queue
        if queue is not None and not self._destination_limits.is_full(queue, size, waited):
            full = None
        if full is None:
            return self._publisher.publish(queue, envelope, body, self._source(client), peer)
        self._destination_limits.emit_full(full)
        if full.policy.limit_behavior != REJECT_NEWEST:
            self._turn.counters["published"] -= 1
            assert full.limit_usage is not None
            entry = waited or self._arrived(peer, client, envelope, body, receipt)
            self._block(full.limit_usage.blocked, entry, queue_full(full))
            self.blocked_queues[full] = None
            return None
        self._turn.counters["refused"] += 1
        if envelope.persistent:
            self._not_published(peer, receipt, queue_full(full))
            return None
        full.counters.discarded += 1
        return self._publisher.discarded(envelope, body)

    def _full_copy(self, address: str, size: int, waited: BlockedPublish | None) -> Queue | None:
        """The queue of a durable subscription to a topic that has no room for its copy, if there is one."""
        # Messages stay blocked when limits are removed, until all of them are admitted.
        if not (self._destination_limits.limits_topics or self.blocked_queues) or not address.startswith(
            "/topic/"
        ):
            return None
        named = self._destinations.topics.match(address.removeprefix("/topic/")).named
        return next(
            (kept.queue for kept in named if self._destination_limits.is_full(kept.queue, size, waited)), None
        )

    def _arrived(
        self, peer: Peer, client: str, envelope: Envelope, body: bytes, receipt: Any
    ) -> BlockedPublish:
        self._arrivals += 1
        until_ms = self._turn.now_ms + (peer.blocked_timeout_ms or self._turn.limits.blocked_timeout_ms)
        return BlockedPublish(peer, client, envelope, body, receipt, self._arrivals, until_ms)

    def _block(self, waiting: deque[BlockedPublish], entry: BlockedPublish, why: Refused) -> None:
        """Add a message to `waiting`, or refuse it when too many bytes are blocked already."""
        if self.blocked.takes(entry):
            if waiting and waiting[-1].arrival > entry.arrival:  # it was blocked elsewhere before
                waiting.insert(bisect(waiting, entry.arrival, key=_BY_ARRIVAL), entry)
            else:
                waiting.append(entry)
        else:
            self._turn.counters["refused"] += 1
            self._turn.refuse(entry.peer, entry.receipt, why)

    def admit_blocked(self) -> None:
        """Admit and trim until nothing changes."""
        moved = True
        while moved:
            moved = self._admit_broker_wide()
            for queue in list(self.blocked_queues):
                moved |= self._admit_to(queue)
            over_limit, self._store.over_limit = self._store.over_limit, {}
            for queue in over_limit:
                moved |= self._destination_limits.trim(queue)
            if moved:
                self._dispatcher.run()

    def _admit_to(self, queue: Queue) -> bool:
        """Admit blocked messages of a queue in order; returns whether there was room."""
        usage, moved = queue.limit_usage, False
        if usage is None:
            del self.blocked_queues[queue]
            return False
        waiting = usage.blocked
        while waiting and (
            queue.deleted
            or usage.removes
            or self._destination_limits.fits(queue, usage, 1, len(waiting[0].body))
        ):
            moved = True
            self._publish_blocked(waiting.popleft())
        if not waiting:
            del self.blocked_queues[queue]
            if not queue.policy.has_limits:
                queue.limit_usage = None
                self._destination_limits.watch_consumers(queue)
        return moved

    def _publish_blocked(self, entry: BlockedPublish) -> None:
        """Publish a blocked message to its destination as it is now."""
        self.blocked.leaves(entry)
        self._turn.counters["published"] += 1
        envelope, peer = entry.envelope, entry.peer
        try:
            queue = self._destinations.target(envelope)
        except Exception as error:
            self._not_published(peer, entry.receipt, error)
        else:
            if queue is None:  # other durable subscriptions of the topic may be full as well
                message = self._admit(peer, entry.client, queue, envelope, entry.body, entry.receipt, entry)
            else:
                source = self._source(entry.client)
                message = self._publisher.publish(queue, envelope, entry.body, source, peer)
            if message is not None:
                self._turn.accept(peer, entry.receipt, message)
        self._answer_disconnect(peer)

    def refuse_overdue(self) -> None:
        """Refuse messages that were blocked too long, and for which there is no space now either."""
        self._destination_limits.forget_full()
        self._admit_broker_wide()
        for queue in list(self.blocked_queues):
            if queue.limit_usage is not None:
                self._refuse_overdue(queue.limit_usage.blocked, queue_full(queue))
        if self.blocked_by_alarm:
            alarm = self._resource_alarms.alarm
            self._refuse_overdue(self.blocked_by_alarm, alarm.refusal if alarm is not None else _late())

    def _refuse_overdue(self, waiting: deque[BlockedPublish], refusal: Refused) -> None:
        overdue = [entry for entry in waiting if entry.until_ms <= self._turn.now_ms]
        if not overdue:
            return
        kept = [entry for entry in waiting if entry.until_ms > self._turn.now_ms]
        waiting.clear()
        waiting.extend(kept)
        for entry in overdue:
            self.blocked.leaves(entry)
            self._turn.counters["refused"] += 1
            self._turn.refuse(entry.peer, entry.receipt, refusal)
            self._answer_disconnect(entry.peer)

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift how long blocked messages may wait, because the clock was set."""
        usages = (queue.limit_usage for queue in self.blocked_queues)
        for waiting in (self.blocked_by_alarm, *(usage.blocked for usage in usages if usage is not None)):
            for entry in waiting:
                entry.until_ms += by_ms

    def subscription_changed(self, subscription: Subscription) -> None:
        """Check again whether a producer is throttled: consumers that acknowledge never are."""
        self.blocked.recheck(subscription.peer)

    def disconnect(self, command: c.Disconnect) -> Any:
        """The receipt to answer now. Blocked messages of a session that disconnects are still admitted, and
        its receipt is answered after that; those of a session that lost its connection are dropped."""
        peer = command.peer
        if peer not in self.blocked.by_peer:
            return command.receipt
        self.blocked.recheck(peer)
        if command.receipt is None or command.abandon:
            self._drop_blocked(peer)
            return command.receipt
        self._pending_disconnects[peer] = command.receipt
        return None

    def _peer_stopped(self, peer: Peer) -> None:
        if peer in self.blocked.by_peer:
            self._drop_blocked(peer)

    def _answer_disconnect(self, peer: Peer) -> None:
        """Answer the DISCONNECT of a peer when none of its messages is blocked any more."""
        if peer in self._pending_disconnects and peer not in self.blocked.by_peer:
            self._turn.accept(peer, self._pending_disconnects.pop(peer))

    def _drop_blocked(self, peer: Peer) -> None:
        for waiting in [
            self.blocked_by_alarm,
            *(queue.limit_usage.blocked for queue in self.blocked_queues if queue.limit_usage),
        ]:
            mine = [entry for entry in waiting if entry.peer is peer]
            if mine:
                others = [entry for entry in waiting if entry.peer is not peer]
                waiting.clear()
                waiting.extend(others)
                for entry in mine:
                    self.blocked.leaves(entry)
                self._turn.counters["discarded"] += len(mine)

    def _publish_under_alarm(self, command: c.Publish) -> None:
        """Publish during a resource alarm, or while messages are still blocked by it."""
        peer, alarm = command.peer, self._resource_alarms.alarm
        client = command.client or peer.client
        self._turn.counters["published"] += len(command.entries)
        entries = iter(command.entries)
        for envelope, body, receipt in entries:
            if envelope.address.startswith(alarm.exempt if alarm else EXEMPT):
                self._publish_one(self._arrived(peer, client, envelope, body, receipt))
            elif alarm is None or (alarm.waits and not self._is_overdue()):
                self._turn.counters["published"] -= 1
                entry = self._arrived(peer, client, envelope, body, receipt)
                self._block(self.blocked_by_alarm, entry, alarm.refusal if alarm else _late())
            else:
                self._turn.counters["refused"] += 1
                self._not_published(peer, receipt, alarm.refusal)
            self._pass_over(peer, entries)

    def _is_overdue(self) -> bool:
        """Return whether there has been no room for as long as a message waits. Otherwise a producer that was
        throttled would hear of each part of what it has sent only after another wait."""
        alarms, turn = self._resource_alarms, self._turn
        return turn.now_ms - alarms.since_ms >= turn.limits.blocked_timeout_ms

    def _publish_one(self, entry: BlockedPublish) -> None:
        """Publish a message that is counted as published already."""
        peer = entry.peer
        try:
            queue = self._destinations.target(entry.envelope)
        except Exception as error:
            self._not_published(peer, entry.receipt, error)
            return
        message = self._admit(peer, entry.client, queue, entry.envelope, entry.body, entry.receipt, entry)
        if message is not None:
            self._turn.accept(peer, entry.receipt, message)

    def _admit_broker_wide(self) -> bool:
        """Admit messages that a resource alarm had blocked."""
        moved = False
        while self.blocked_by_alarm:
            self._resource_alarms.check()
            if self._resource_alarms.alarm is not None:
                break
            moved = True
            entry = self.blocked_by_alarm.popleft()
            self.blocked.leaves(entry)
            self._resource_alarms.take_space(entry.size)
            self._turn.counters["published"] += 1
            self._publish_one(entry)
            self._answer_disconnect(entry.peer)
        return moved

    def check_room(self, peer: Peer, needs: Mapping[str, c.Need]) -> Iterator[None]:
        """Refused unless messages that need so much room, by address, can be admitted at once. In steps."""
        alarm, destination_limits = self._resource_alarms.alarm, self._destination_limits
        wanted: dict[str, tuple[int, int]] = {}
        for address, need in needs.items():
            if (alarm or self.blocked_by_alarm) and not address.startswith(alarm.exempt if alarm else EXEMPT):
                raise alarm.refusal if alarm else _late()
            usage = destination_limits.of(address)
            if usage is not None:
                destination_limits.check_admissible(peer, usage, address, need.largest)
            for full, queue, limits in destination_limits.limited(address, usage):
                messages, bytes_ = wanted.get(full, (0, 0))
                wanted[full] = messages, bytes_ = messages + need.messages, bytes_ + need.bytes
                if not limits.removes and (
                    limits.blocked or not destination_limits.fits(queue, limits, messages, bytes_)
                ):
                    raise _no_room(full, limits, messages, bytes_)
            yield

    def apply_policy(self, queue: Queue, policy: DestinationPolicy) -> None:
        """Apply another policy to a queue while messages are in it."""
        weighed = queue.limit_usage is not None and queue.policy.max_bytes > 0
        queue.apply_policy(policy)
        usage = queue.limit_usage
        if usage is not None and not policy.has_limits and not usage.blocked:
            queue.limit_usage = None
        elif not weighed:
            self._destination_limits.recount(queue)
        self._destination_limits.watch_consumers(queue)
        if queue.limit_usage is not None and queue.limit_usage.removes:
            self._store.trim_later(queue)
        if queue in self.blocked_queues:
            self._admit_to(queue)  # before later messages


def _no_room(address: str, limits: LimitUsage, messages: int, bytes_: int) -> Refused:
    """The refusal of messages that a queue has no room for at once: now, or ever."""
    if limits.holds(messages, bytes_):
        return Refused(
            "queue-full", f"{address} has no room for all {messages} messages; send them again later"
        )
    policy = limits.policy
    most, wanted, unit = (
        (policy.max_messages, messages, "messages")
        if 0 < policy.max_messages < messages
        else (policy.max_bytes, bytes_, "bytes")
    )
    return Refused(
        "queue-full",
        f"{address} holds at most {most} {unit}, so never {wanted} at once; send fewer at once, or raise its "
        "limit",
        fits=False,
    )


def _late() -> Refused:
    return Refused(
        "queue-full", "the broker was full, and earlier messages are still blocked; send it again later"
    )
