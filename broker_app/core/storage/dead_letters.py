"""Dead letters: messages that expired, were rejected, or were delivered too often."""

from __future__ import annotations

from broker_app.core import reasons
from broker_app.core.destination import QUEUE, dead_letters_of
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.message import (
    Envelope,
    Message,
)
from broker_app.core.model import Queue, Subscription
from broker_app.core.policy import DestinationPolicy
from broker_app.core.storage import dead_letter_headers
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class DeadLetters:
    """Moves messages to the dead letters of their queue, or discards them where there are none. `broker` is
    the name of the broker."""

    def __init__(self, turn: Turn, destinations: Destinations, store: MessageStore, broker: str) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._broker = broker

    def add(
        self,
        queue: Queue,
        message: Message,
        reason: str,
        detail: str,
        consumer: Subscription | None = None,
    ) -> None:
        """Move a message to the dead letters, or discard it where there are none; `consumer` had it last."""
        queue.counters.dead += 1
        if consumer is not None:
            consumer.dead_lettered += 1
        if queue.durable and self._turn.has_listeners:
            self._turn.emit_dead_letter(queue, message, reason, detail)
        if not (queue.policy.use_dead_letters and self._can_die(queue, message, reason)):
            self._store.drop(queue, message, records.DISCARDED, reason)
            self._turn.counters["discarded"] += 1
            self._turn.dropped[reason] += 1
            return
        self._turn.dead[reason] += 1
        self._store.drop(queue, message, records.DEAD_LETTERED, reason)
        origin = message.envelope
        headers = {
            dead_letter_headers.ORIGIN: queue.address,
            "dead-reason": reason,
            "dead-detail": detail,
            "dead-attempts": str(message.attempts),
            "dead-at": str(self._turn.now_ms),
            "dead-broker": self._broker,
            "sent-at": str(self._turn.ids.time_ms(message)),
        }
        if consumer is not None:
            headers["dead-consumer"] = f"{consumer.peer.user}/{consumer.id}".replace("\0", "/")
        if origin.address != queue.address:
            headers[dead_letter_headers.ORIGIN_TOPIC] = origin.address
        block = dead_letter_headers.marked(origin.block, headers)
        address = _target(queue)
        envelope = Envelope(address, block, persistent=origin.persistent, priority=origin.priority)
        self._store.enqueue(
            self._destinations.queue(address), envelope, message.body, self._turn.ids.of(message)
        )

    def expire(self, queue: Queue, message: Message) -> None:
        """Remove an expired message."""
        if queue.policy.dead_letter_expired and self._can_die(queue, message, reasons.EXPIRED):
            self.add(queue, message, reasons.EXPIRED, f"it expired at {message.expires_ms}")
        else:
            queue.counters.expired += 1
            self._turn.counters["expired"] += 1
            self._store.drop(queue, message, records.EXPIRED, reasons.EXPIRED)

    def add_if_exhausted(
        self, queue: Queue, message: Message, consumer: Subscription | None = None, failure: str = ""
    ) -> bool:
        """Dead-letter a message that was returned too often, or as often unsettled when the broker stopped;
        returns whether it was. Store-and-forward queues are exempt. `failure` describes the last attempt."""
        if not self.is_exhausted(queue, message):
            return False
        detail = f"delivered {message.attempts} times" + (f"; the last time: {failure}" if failure else "")
        self.add(queue, message, reasons.MAX_ATTEMPTS, detail, consumer)
        return True

    def is_exhausted(self, queue: Queue, message: Message) -> bool:
        """Return whether a message was delivered too often, and becomes a dead letter."""
        exhausted = not queue.forwarded and message.attempts >= queue.policy.max_attempts
        return exhausted and self._can_die(queue, message, reasons.MAX_ATTEMPTS)

    def _can_die(self, queue: Queue, message: Message, reason: str) -> bool:
        """Return whether a message can become a dead letter. One that is a dead letter, in a queue of them,
        goes on only where the settings of that queue name another one; not for want of room, or it could go
        round for ever."""
        is_of_dead = self._turn.policies.is_of_dead_letters(queue.address)
        if not (queue.durable and is_of_dead and dead_letter_headers.origin_of(message.envelope.block)):
            return queue.durable
        goes_on = queue.policy.dead_letters and _target(queue) != queue.address
        return bool(goes_on) and reason not in reasons.NO_ROOM


def address_of(address: str, policy: DestinationPolicy, filter: str = "") -> str:
    """The dead letter queue of the queue with an address and policy, which may be that of a durable
    subscription to the topic `filter`."""
    return f"/{QUEUE}/{policy.dead_letters}" if policy.dead_letters else dead_letters_of(address, filter)


def _target(queue: Queue) -> str:
    """The address of the dead letter queue of a queue."""
    filter = queue.named.terms.filter if queue.named is not None else ""
    return address_of(queue.address, queue.policy, filter)
