"""Delivery of messages of topics to their subscriptions."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.core.commands import AUTO
from broker_app.core.delivery.slow_consumers import SlowConsumers
from broker_app.core.destination import Destination
from broker_app.core.destinations import Destinations
from broker_app.core.message import Message
from broker_app.core.model import NamedSubscription, Subscription
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.topics.histories import Histories
from broker_app.core.turn import Turn


class TopicDelivery:
    """Delivers to subscriptions one by one, or to groups of them together.

    `on_overrun` is called with each subscription for which too much waits; it ends it.
    """

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        selective: SelectiveDelivery,
        histories: Histories,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._selective = selective
        self._histories = histories
        self.slow_consumers = SlowConsumers()
        self.on_overrun: list[Callable[[Subscription], None]] = []

    def listen(self, subscription: Subscription, destination: Destination) -> None:
        """Begin to deliver what is published to a topic, or to what a filter matches."""
        topics = self._destinations.topics_of(destination)
        topics.add(destination.name, subscription, together=is_fanned_out(subscription))

    def unlisten(self, subscription: Subscription, destination: Destination) -> None:
        """Deliver nothing more of a topic."""
        self._destinations.topics_of(destination).remove(destination.name, subscription)

    def deliver(self, subscription: Subscription, message: Message) -> None:
        """Queue a topic's message for one subscription, or end the subscription when too many wait."""
        queue = subscription.queue
        if subscription.replay is not None and message.recorded:
            self._histories.postpone(subscription, subscription.replay, message)
            return
        depth = queue.depth
        if not self._store.has_room(queue, message.size):
            self.overrun(subscription)
        elif queue.in_order:
            self._histories.follow(subscription, message)
        else:
            copy = self._store.enqueue(queue, message.envelope, message.body, self._turn.ids.of(message))
            copy.attempts = message.attempts
            if depth or not subscription.available:
                self.slow_consumers.behind[subscription] = None

    def deliver_named(self, named: NamedSubscription, message: Message, source: bytes) -> Message:
        """Queue a copy for a named subscription; returns it, or the message where there was no room."""
        queue = named.queue
        if queue.durable or self._store.has_room(queue, message.size):
            options = message.envelope.options
            id = self._turn.ids.of(message)
            copy = self._store.enqueue(queue, message.envelope, message.body, id, source)
            if options is not None and options.group:
                self._selective.note_group(queue, copy)
            if message.attempts:
                self._store.mark_repeat(queue, copy)
            return copy
        for subscription in list(queue.consumers):
            self.overrun(subscription)
        return message

    def overrun(self, subscription: Subscription) -> None:
        """End a subscription for which too much waits."""
        for listener in self.on_overrun:
            listener(subscription)

    def leave_fanouts(self, subscription: Subscription) -> list[Message]:
        """Take a subscription out of the fan-outs of this batch; returns what it would have got."""
        missed: list[Message] = []
        for fanout in self._turn.out.fanouts:
            if fanout.group is subscription.fanout_group and fanout.leave(subscription):
                missed += fanout.messages
        self._turn.count_deliveries_of_topic(subscription.address, -len(missed))
        subscription.delivered_directly -= len(missed)
        return missed

    def serve_singly(self, subscription: Subscription, destination: Destination) -> None:
        """Hold back what goes to a paused subscription, beginning with what this batch has for it."""
        missed = self.leave_fanouts(subscription)
        self.unlisten(subscription, destination)
        self.listen(subscription, destination)
        for message in missed:
            if not subscription.queue.deleted:
                self.deliver(subscription, message)

    def serve_together(self, subscription: Subscription, destination: Destination) -> None:
        """Deliver to a resumed subscription together with its group again."""
        # What waits goes into its mailbox at the end of this run, and mailboxes go before fan-outs.
        self.unlisten(subscription, destination)
        self.listen(subscription, destination)


def is_fanned_out(subscription: Subscription) -> bool:
    """Return whether a subscription is served together with others for which messages are rendered
    equally."""
    return subscription.ack == AUTO and subscription.render_key is not None and not subscription.peer.paused
