"""Publishing of admitted messages: to a queue, or to all subscribers of a topic."""

from __future__ import annotations

from itertools import islice

from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.destination import (
    QUEUE,
    TOPIC,
    parse,
)
from broker_app.core.destinations import Destinations
from broker_app.core.message import (
    DeliveryOptions,
    Duplicate,
    Envelope,
    Message,
    MessageIds,
)
from broker_app.core.model import FanoutGroup, NamedSubscription, Peer, Queue, Subscription
from broker_app.core.outcome import SentAgain
from broker_app.core.publishing.dedup import DedupWindows, FirstMessage
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.topics.histories import Histories
from broker_app.core.topics.topic import Match
from broker_app.core.topics.topic_delivery import TopicDelivery
from broker_app.core.turn import Turn

#: topics whose messages are counted; beyond it, one of the so many oldest is dropped for a new one
MAX_COUNTED_TOPICS, OLDEST_TOPICS = 1_000, 8


#: messages of another broker between two looks at the clock
_REMOTE = 16


class Publisher:
    """Routes admitted messages; knows schedules, duplicates and histories."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        selective: SelectiveDelivery,
        histories: Histories,
        topic_delivery: TopicDelivery,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._selective = selective
        self._histories = histories
        self._topic_delivery = topic_delivery
        self.dedup_windows = DedupWindows(turn.limits.dedup_ids, turn.limits.dedup_ids_together)
        #: messages published to recent topics, the latest topic last; a topic that was dropped is counted
        #: from 0 again
        self.topic_published: dict[str, int] = {}

    def publish(
        self, queue: Queue | None, envelope: Envelope, body: bytes, source: bytes, producer: Peer
    ) -> Message:
        """Publish one admitted message, to `queue` or (None) to the topic that it names; or schedule it.
        `source` is as in `MessageStore.enqueue`."""
        options = envelope.options
        if options is None or queue is self._destinations.discard:
            return self._route(queue, envelope, body, source, producer)
        publish = self._publish_once if options.dedup_id else self._publish_when_due
        return publish(queue, envelope, body, source, producer)

    def _publish_when_due(
        self, queue: Queue | None, envelope: Envelope, body: bytes, source: bytes, producer: Peer
    ) -> Message:
        """Publish a message now, or schedule it until it is due."""
        due_ms = envelope.options.due_at(self._turn.now_ms) if envelope.options else 0
        if due_ms > self._turn.now_ms:
            return self._scheduler.delay(envelope, body, due_ms, source=source)
        return self._route(queue, envelope, body, source, producer)

    def _publish_once(
        self, queue: Queue | None, envelope: Envelope, body: bytes, source: bytes, producer: Peer
    ) -> Message:
        """Publish a message unless it repeats one of the deduplication window."""
        address, options = envelope.address, envelope.options
        assert options is not None
        window_ms = self._turn.policies.of(address).dedup_window_ms
        digest = options.digest
        seen = self._first(envelope, options)
        if seen is not None:
            self._turn.counters["published"] -= 1
            self._turn.counters["duplicates"] += 1
            return Duplicate(envelope, body, *seen)
        message = self._publish_when_due(queue, envelope, body, source, producer)
        if window_ms:
            own = message.explicit_id
            position = MessageIds.position(own.decode()) if own else message.position
            seen = FirstMessage(position or message.position, message.time_ms, message.recorded)
            self.dedup_windows.remember(address, digest, seen, window_ms)
        if options.resent:
            self._turn.out.events.append(SentAgain(address, digest))
        return message

    def mark_repeat(self, command: c.MarkRepeat) -> None:
        """Mark a message that waits here as a repeat."""
        address, turn = command.address, self._turn
        queue = self._destinations.queues.get(address)
        window_ms = turn.policies.of(address).dedup_window_ms
        seen = self.dedup_windows.first(address, command.digest, turn.now_ms, window_ms)
        if queue is not None and seen is not None:
            self._store.mark_waiting(queue, seen.position)

    def is_repeat(self, envelope: Envelope) -> bool:
        """Return whether a message with this envelope would now repeat one of the deduplication window."""
        options = envelope.options
        return options is not None and bool(options.dedup_id) and self._first(envelope, options) is not None

    def _first(self, envelope: Envelope, options: DeliveryOptions) -> FirstMessage | None:
        window_ms = self._turn.policies.of(envelope.address).dedup_window_ms
        return self.dedup_windows.first(envelope.address, options.digest, self._turn.now_ms, window_ms)

    def _route(
        self,
        queue: Queue | None,
        envelope: Envelope,
        body: bytes,
        source: bytes,
        producer: Peer | None,
        explicit_id: bytes | None = None,
    ) -> Message:
        """Publish a message to `queue`, or to all subscribers of its topic."""
        if queue is None:
            return self.publish_to_topic(envelope, body, source, producer, explicit_id)
        if not (queue.durable or self._store.has_room(queue, len(body) + envelope.overhead_bytes)):
            return self._overflow(queue, envelope, body)
        message = self._store.enqueue(queue, envelope, body, explicit_id, source)
        options = envelope.options
        if options is not None and options.group:
            self._selective.note_group(queue, message)
        if options is not None and options.resent:
            self._store.mark_repeat(queue, message)
        return message

    def publish_due(self, command: c.Loaded) -> None:
        """Publish scheduled messages that are due, whose bodies were read."""
        for message in self._scheduler.take_due(command):
            envelope = message.envelope
            if message.expires_ms:
                envelope = envelope.with_expiry(message.expires_ms)
            if header_block.is_resent(envelope.block):
                options = envelope.options or DeliveryOptions()
                envelope = envelope.with_options(options._replace(resent=True))
            # It was accepted before: present permissions and limits do not matter.
            destination = parse(envelope.address)
            queue = self._destinations.queue(envelope.address) if destination.kind == QUEUE else None
            # Its producer is not kept with it, and may have gone.
            self._route(queue, envelope, message.body, b"", None, self._turn.ids.of(message))

    def copies(self, address: str) -> int:
        """The number of copies that are made of a message to a topic, at most."""
        kind, _, name = address[1:].partition("/")
        topics = self._destinations.topics if kind == "topic" else self._destinations.temporary_topics
        fanout_groups, singles, named = topics.match(name)
        return len(fanout_groups) + len(singles) + len(named)

    def publish_to_topic(
        self,
        envelope: Envelope,
        body: bytes,
        source: bytes,
        producer: Peer | None,
        explicit_id: bytes | None = None,
    ) -> Message:
        """Publish a message to all subscriptions that match, and retain it where the topic has retention. The
        `producer` is None where it is not known any more."""
        address = envelope.address
        retention = self._histories.retention_of(address) if self._histories.retains else None
        if retention is not None and not 0 < envelope.expires_at_ms(self._turn.now_ms) <= self._turn.now_ms:
            message = self._histories.retain(envelope, body, explicit_id, source)
            if retention.retention_bytes:
                self._histories.trim(self._histories.histories[address], retention)
        else:
            message = self._turn.transient_message(envelope, body)
            message.explicit_id = explicit_id
        if envelope.options is not None and envelope.options.resent:
            message.attempts = 1
        if address in self._store.taps:
            self._store.taps.note(address, message)
        if address.startswith("/topic/"):
            topics, name = self._destinations.topics, address.removeprefix("/topic/")
            counts = self.topic_published
            published = counts.pop(name, 0) + 1
            counts[name] = published  # move to the end
            if published == 1 and len(counts) > MAX_COUNTED_TOPICS:
                self._drop_topic_count()
        else:
            topics, name = self._destinations.temporary_topics, address.removeprefix("/temp-topic/")
        counters = self._turn.counters
        counters["published_to_topics"] += 1
        if 0 < message.expires_ms <= self._turn.now_ms:
            counters["discarded"] += 1
            return message
        matching = topics.match(name)
        fanout_groups, singles, named = (
            self._matching(message, producer, matching) if topics.conditional else matching
        )
        self._fan_out(fanout_groups, message)
        for subscription in singles:
            self._topic_delivery.deliver(subscription, message)
        answer = message
        for kept in named:
            copy = self._topic_delivery.deliver_named(kept, message, source)
            if copy.recorded:
                answer = copy  # the sender learns that it is stored
        return answer

    def _fan_out(self, groups: list[FanoutGroup], message: Message) -> None:
        """Add a message to the fan-outs of this batch."""
        delivered = 0
        for group in groups:
            fanout = group.fanout
            if fanout is None:
                fanout = group.open()
                self._turn.out.fanouts.append(fanout)
            fanout.messages.append(message)
            delivered += len(fanout.members)
        if delivered:
            self._turn.count_deliveries_of_topic(message.envelope.address, delivered)

    def publish_remote(self, command: c.PublishRemote) -> c.PublishRemote | None:
        """Publish messages of another broker to the subscribers of this one that have no name: the others
        are served from their queues at each broker. Returns the rest when the deadline has passed."""
        for at, message in enumerate(command.messages):
            if at and at % _REMOTE == 0 and self._turn.deadline.passed:
                return c.PublishRemote(command.origin, command.messages[at:])
            message.position = self._turn.transient_position()
            kind, _, name = message.envelope.address[1:].partition("/")
            topics = self._destinations.topics if kind == TOPIC else self._destinations.temporary_topics
            matching = topics.match(name)
            if topics.conditional:
                matching = self._matching(message, None, matching)
            self._fan_out(matching.fanout_groups, message)
            for subscription in matching.singles:
                if not subscription.remote:
                    self._topic_delivery.deliver(subscription, message)
        return None

    def _drop_topic_count(self) -> None:
        """Stop counting one of the topics that were idle longest, preferably one without subscribers."""
        oldest = list(islice(self.topic_published, OLDEST_TOPICS))
        unused = (name for name in oldest if not self._destinations.topics.count(name))
        del self.topic_published[next(unused, oldest[0])]

    def _matching(self, message: Message, producer: Peer | None, matching: Match) -> Match:
        """The subscriptions that want `message`, by their selectors and by who sent it."""
        headers = header_block.headers(message.envelope.block)

        def wants(of: FanoutGroup | Subscription | NamedSubscription) -> bool:
            return of.selector is None or of.selector.accepts(headers, message, self._turn.ids)

        fanout_groups, singles, named = matching
        return Match(
            [group for group in fanout_groups if wants(group)],
            [
                single
                for single in singles
                if not (single.no_local and single.peer is producer) and wants(single)
            ],
            [kept for kept in named if wants(kept)],
        )

    def _overflow(self, queue: Queue, envelope: Envelope, body: bytes) -> Message:
        """End the consumers of a temporary queue that is full; the reply is discarded."""
        for subscription in list(queue.consumers):
            self._topic_delivery.overrun(subscription)
        return self.discarded(envelope, body)

    def discarded(self, envelope: Envelope, body: bytes) -> Message:
        """A message that was accepted and is not stored."""
        self._turn.counters["discarded"] += 1
        return self._turn.transient_message(envelope, body)
