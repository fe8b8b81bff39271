"""The consumers of queues, and those that can receive a message now."""

from __future__ import annotations

from broker_app.core.delivery.local_preference import AFTER_LOCAL, LocalPreference, comes_after_local
from broker_app.core.model import Queue, Subscription
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.message_store import MessageStore


class Consumers:
    """Adds consumers to queues and removes them, and keeps those with credit in rotation."""

    def __init__(
        self, store: MessageStore, selective: SelectiveDelivery, preference: LocalPreference
    ) -> None:
        self._store = store
        self._selective = selective
        self._preference = preference

    def join(self, subscription: Subscription) -> None:
        """Add a consumer to its queue."""
        queue = subscription.queue
        if comes_after_local(subscription):
            self._preference.apply(queue)
        self._selective.add_consumer(subscription)
        queue.consumers[subscription] = None
        queue.remote_consumers += subscription.remote
        subscription.watched |= queue.counts
        if subscription.exclusive:
            queue.exclusive[subscription] = None
            if subscription.remote:  # local ones come in this order
                queue.exclusive = dict.fromkeys(sorted(queue.exclusive, key=_asked))
            self._choose_active(queue)

    def leave(self, subscription: Subscription) -> None:
        """Remove a consumer from its queue."""
        queue = subscription.queue
        del queue.consumers[subscription]
        queue.remote_consumers -= subscription.remote
        if subscription.selector_group is not None:
            self._selective.remove_consumer(subscription)
        if subscription.exclusive:
            del queue.exclusive[subscription]
            self._choose_active(queue)

    def _choose_active(self, queue: Queue) -> None:
        """Serve the first exclusive consumer while all others are on standby; without one, serve all. All
        brokers of a cluster choose the same one."""
        former, active = queue.active, next(iter(queue.exclusive), None)
        if active is former:
            return
        queue.active = active
        if former is not None and active is not None:  # the others wait already
            self.make_unavailable(former)
            self.make_available(active)
        else:
            for subscription in queue.consumers:
                if active in (None, subscription):
                    self.make_available(subscription)
                else:
                    self.make_unavailable(subscription)
        if queue.selective is not None:
            self._selective.recheck_held(queue, queue.selective)

    def make_available(self, subscription: Subscription) -> None:
        """Add a subscription to the rotation when it has credit."""
        if (
            subscription.available
            or subscription.peer.paused
            or subscription.queue.consumers_paused
            or subscription.unsettled >= subscription.credit
        ):
            return
        if subscription.peer.subscriptions.get(subscription.id) is not subscription:
            return  # it was ended, and has only unsettled deliveries
        if subscription.queue.active not in (None, subscription):
            return  # an exclusive consumer is served
        subscription.available = True
        subscription.rotation.join(subscription)
        if subscription.selector_group is not None and subscription.queue.selective is not None:
            subscription.queue.selective.mark_ready(subscription.selector_group)
        self._store.mark_dirty(subscription.queue)

    def prefer_local(self, subscription: Subscription, preferred: bool) -> None:
        """Serve a consumer of another broker after local ones, or like them."""
        if preferred != comes_after_local(subscription):
            self.make_unavailable(subscription)
            if preferred:
                self._preference.apply(subscription.queue)
            subscription.priority += AFTER_LOCAL if preferred else -AFTER_LOCAL
            self.make_available(subscription)

    def make_unavailable(self, subscription: Subscription) -> None:
        """Remove a subscription from the rotation."""
        if subscription.available:
            subscription.available = False
            subscription.rotation.leave(subscription)


def _asked(subscription: Subscription) -> int:
    """The time when a consumer has asked to be the only one."""
    return subscription.exclusive_since_us
