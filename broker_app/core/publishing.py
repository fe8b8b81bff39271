"""Messages on their way in: to a queue, to everybody on a topic, or nowhere."""

from __future__ import annotations

from itertools import islice

from broker_app.core import block
from broker_app.core import commands as c
from broker_app.core.dedup import Seen
from broker_app.core.destination import (
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    Destination,
    has_wildcard,
    is_forwarded,
    parse,
)
from broker_app.core.errors import Refused
from broker_app.core.marks import check_is_no_sync_queue
from broker_app.core.message import Duplicate, Envelope, Message, MessageIds, Special
from broker_app.core.named import NamedSubscription
from broker_app.core.queue import Queue
from broker_app.core.subscribing import Subscribing
from broker_app.core.subscription import Subscription
from broker_app.core.topic import Look, Match

#: topics whose messages are counted; of so many that rest the longest, one makes room for another
MAX_COUNTED_TOPICS, OLDEST_TOPICS = 1_000, 8


class Publishing(Subscribing):
    """Where messages go."""

    def _take_in(self, queue: Queue | None, envelope: Envelope, body: bytes) -> Message:
        """Publish one message that may come in, to `queue` or (None) to the topic that it names; or keep it
        until it is due."""
        special = envelope.special
        if special is None or queue is self._NOWHERE:
            return self._bring_in(queue, envelope, body)
        return self._once(queue, envelope, body) if special.dedup_id else self._in_time(queue, envelope, body)

    def _in_time(self, queue: Queue | None, envelope: Envelope, body: bytes) -> Message:
        """Publish a message now, or keep it until it is due."""
        due_ms = envelope.special.due_at(self.now_ms) if envelope.special else 0
        if due_ms > self.now_ms:
            return self._delay(envelope, body, due_ms)
        return self._bring_in(queue, envelope, body)

    def _once(self, queue: Queue | None, envelope: Envelope, body: bytes) -> Message:
        """Publish a message unless it repeats one of the window."""
        address, special = envelope.address, envelope.special
        assert special is not None
        window_ms = self.policies.of(address).dedup_window_ms
        digest = special.digest
        seen = self.duplicates.first(address, digest, self.now_ms, window_ms)
        if seen is not None:
            self.counters["published"] -= 1
            self.counters["duplicates"] += 1
            return Duplicate(envelope, body, *seen)
        message = self._in_time(queue, envelope, body)
        if window_ms:
            own = message.explicit_id
            position = MessageIds.position(own.decode()) if own else message.position
            seen = Seen(position or message.position, message.time_ms, message.recorded)
            self.duplicates.remember(address, digest, seen, window_ms)
        return message

    def _bring_in(
        self, queue: Queue | None, envelope: Envelope, body: bytes, explicit_id: bytes | None = None
    ) -> Message:
        """Put a message where it belongs: to `queue`, or to everybody on its topic."""
        if queue is None:
            return self._publish_to_topic(envelope, body, explicit_id)
        if not (queue.durable or self._has_room(queue, len(body) + envelope.weight)):
            return self._overflow(queue, envelope, body)
        message = self._enqueue(queue, envelope, body, explicit_id)
        if envelope.special is not None and envelope.special.group:
            self._note_group(queue, message)
        return message

    def _publish_due(self, command: c.Loaded) -> None:
        """Scheduled messages whose time has come, with their bodies."""
        for message in self._take_due(command):
            envelope = message.envelope
            if message.expires_ms:
                envelope = envelope.expiring(message.expires_ms)
            # It was accepted long ago: whoever may send now does not matter any more.
            destination = parse(envelope.address)
            queue = self.queue(envelope.address) if destination.kind == QUEUE else None
            self._bring_in(queue, envelope, message.body, self.ids.of(message))

    def _target(self, envelope: Envelope) -> Queue | None:
        """The queue that an envelope names, made on first use; None when it names a topic."""
        address = envelope.address
        queue = self.queues.get(address)
        if queue is not None and not (queue.shut or queue.named) and envelope.special is None:
            return queue
        destination = self._check_sendable(address, envelope.special)
        if queue is not None:
            return queue
        if not destination.is_queue:
            return None
        if destination.kind == TEMP_QUEUE:
            # The requester has left: its replies go nowhere, and that is no fault of who answers.
            return self._NOWHERE
        return self.queue(address)

    def _check_sendable(self, address: str, special: Special | None = None) -> Destination:
        """The destination of a message; Refused when none may be sent there now. Makes nothing."""
        destination = sendable(address)
        if special is not None and special.waits and destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            raise Refused(
                "unsupported",
                f"a message to {address} cannot be delayed: a temporary destination ends with its "
                "connection, and what is delayed would outlive it; send it when it is due",
            )
        check_is_no_sync_queue(address)
        queue = self.queues.get(address)
        shut = self.policies.of(address).refuses_producers if queue is None else queue.shut
        if shut:
            raise Refused("paused", f"{address} takes no messages now: {_why_shut(address)}")
        if queue is None and destination.kind == QUEUE:
            self._check_creation(address)
        return destination

    def _publish_to_topic(self, envelope: Envelope, body: bytes, explicit_id: bytes | None = None) -> Message:
        address = envelope.address
        retention = self._retention_of(address) if self._retains else None
        if retention is not None and not 0 < envelope.ends_ms(self.now_ms) <= self.now_ms:
            message = self._retain(envelope, body, explicit_id)
            if retention.retention_bytes:
                self._trim_history(self.histories[address], retention)
        else:
            self._unrecorded += 1
            message = Message(envelope, body, self._unrecorded, self.now_ms, False)
            message.explicit_id = explicit_id
        if self.taps:
            self.taps.note(address, message)
        if address.startswith("/topic/"):
            topics, name = self.topics, address.removeprefix("/topic/")
            counts = self.topic_published
            published = counts.pop(name, 0) + 1
            counts[name] = published  # the latest last
            if published == 1 and len(counts) > MAX_COUNTED_TOPICS:
                self._forget_a_topic()
        else:
            topics, name = self.temporary_topics, address.removeprefix("/temp-topic/")
        if 0 < message.expires_ms <= self.now_ms:
            self.counters["discarded"] += 1
            return message
        matching = topics.match(name)
        looks, singles, named = self._chosen(message, matching) if topics.choosy else matching
        for look in looks:
            fanout = look.fanout
            if fanout is None:
                fanout = look.open()
                self._out.fanouts.append(fanout)
            fanout.messages.append(message)
            self.counters["delivered"] += len(fanout.members)
        for subscription in singles:
            self._keep_for(subscription, message)
        answer = message
        for kept in named:
            copy = self._keep_for_named(kept, message)
            if copy.recorded:
                answer = copy  # the sender learns that it is on the disk
        return answer

    def _forget_a_topic(self) -> None:
        """Count a topic no more: of those that rest the longest, the first that nobody hears."""
        oldest = list(islice(self.topic_published, OLDEST_TOPICS))
        unheard = (name for name in oldest if not self.topics.match(name).copies)
        del self.topic_published[next(unheard, oldest[0])]

    def _chosen(self, message: Message, matching: Match) -> Match:
        """Those whose selector, if they have one, matches `message`."""
        headers = block.headers(message.envelope.block)

        def wants(of: Look | Subscription | NamedSubscription) -> bool:
            return of.selector is None or of.selector.accepts(headers, message, self.ids)

        looks, singles, named = matching
        return Match(
            [look for look in looks if wants(look)],
            [single for single in singles if wants(single)],
            [kept for kept in named if wants(kept)],
        )

    def _overflow(self, queue: Queue, envelope: Envelope, body: bytes) -> Message:
        """Replies that a requester does not take: it is ended, not the one who answers."""
        for subscription in queue.consumers[:]:
            self._end_overrun(subscription)
        return self._discarded(envelope, body)

    def _discarded(self, envelope: Envelope, body: bytes) -> Message:
        """A message that was accepted and is not kept."""
        self.counters["discarded"] += 1
        self._unrecorded += 1
        return Message(envelope, body, self._unrecorded, self.now_ms, False)


def _why_shut(address: str) -> str:
    if is_forwarded(address):
        return "an administrator paused it, or its bridge is being drained"
    return "an administrator paused it"


def sendable(address: str) -> Destination:
    """The destination of a message; Refused when it names more than one."""
    destination = parse(address)
    if not destination.is_queue and has_wildcard(destination.name):
        raise Refused("bad-destination", f"{address!r} has a wildcard; a message is sent to one topic")
    return destination
