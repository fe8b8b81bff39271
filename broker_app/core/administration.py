"""Administration of destinations: policies, and queues created, purged and deleted."""

from __future__ import annotations

from collections.abc import Iterator

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.model import Queue
from broker_app.core.outcome import DestinationDeleted
from broker_app.core.publishing.admission import Admission
from broker_app.core.publishing.destination_limits import DestinationLimits
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.remote.remote_messages import RemoteMessages
from broker_app.core.remote.sync_queue import check_is_no_sync_queue
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.topics.histories import Histories
from broker_app.core.turn import Turn


class Administration:
    """Applies policies; creates, purges and deletes queues."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        consumers: Consumers,
        unsettled: UnsettledDeliveries,
        histories: Histories,
        destination_limits: DestinationLimits,
        resource_alarms: ResourceAlarms,
        admission: Admission,
        remote: RemoteMessages,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._consumers = consumers
        self._unsettled = unsettled
        self._histories = histories
        self._destination_limits = destination_limits
        self._resource_alarms = resource_alarms
        self._admission = admission
        self._remote = remote

    def reconfigure(self, command: c.Reconfigure) -> None:
        """Apply other policies, and other limits where there are any."""
        if command.limits is not None:
            self._turn.limits = command.limits
            self._resource_alarms.limits_changed()
        self._turn.policies = command.policies
        self._destination_limits.policies_changed()
        self._histories.policies_changed()
        self._destinations.create_declared()
        for queue in self._destinations.queues.values():
            self._apply_policy(queue)

    def _apply_policy(self, queue: Queue) -> None:
        self._admission.apply_policy(queue, self._destinations.policy_of(queue))
        for subscription in queue.consumers:
            if subscription.remote:
                self._consumers.prefer_local(subscription, queue.policy.prefer_local)
            if queue.consumers_paused:
                self._consumers.make_unavailable(subscription)
            else:
                self._consumers.make_available(subscription)

    def purge(self, command: c.Purge, queue: Queue) -> c.Steps | None:
        """Remove the messages that wait in a queue. Returns the rest when the deadline has passed."""
        return self._turn.in_parts(c.Steps(command.peer, self._purge(command, queue)))

    def _purge(self, command: c.Purge, queue: Queue) -> Iterator[None]:
        if command.delayed:
            self._scheduler.cancel_all(queue.address, records.PURGED)
        if command.ready:
            kept = [(lane.priority, lane.delivered_up_to, lane.shift) for lane in queue.lanes]
            yield from self._store.purge(queue)
            for priority, delivered_up_to, shift in kept:
                lane = queue.lane(priority)
                lane.delivered_up_to, lane.shift = delivered_up_to, shift
            self._destination_limits.recount(queue)
        self._turn.accept(command.peer, command.receipt)

    def check_create(self, command: c.CreateQueue) -> None:
        """Refused when only an administrator may create the queue."""
        if command.address not in self._destinations.queues:
            self._destinations.check_creation(command.address)

    def create_queue(self, command: c.CreateQueue) -> None:
        """Create a queue, unless it exists."""
        self._destinations.queue(command.address)
        self._turn.accept(command.peer, command.receipt)

    def check_purge(self, command: c.Purge) -> Queue:
        """A queue that exists and may be purged."""
        address = command.address
        check_is_no_sync_queue(address)
        queue = self._destinations.queues.get(address)
        if queue is None:
            raise _no_queue(address)
        return queue

    def delete_queue(self, command: c.DeleteQueue, queue: Queue) -> c.Steps | None:
        """Delete a queue, with all waiting and unsettled messages. Returns the rest when the deadline has
        passed."""
        return self._turn.in_parts(c.Steps(command.peer, self._delete_queue(command, queue)))

    def _delete_queue(self, command: c.DeleteQueue, queue: Queue) -> Iterator[None]:
        yield from self._store.purge(queue)
        self._store.record_ends(queue, self._unsettled.take(queue), (), records.PURGED)
        self._scheduler.cancel_all(queue.address, records.PURGED)
        del self._destinations.queues[queue.address]
        queue.deleted = True
        self._remote.queue_deleted(queue)
        self._turn.emit_destination(DestinationDeleted(queue.address))
        self._turn.accept(command.peer, command.receipt)

    def check_delete(self, command: c.DeleteQueue) -> Queue:
        """A queue that may be deleted; with `force`, also one that holds messages."""
        address = command.address
        check_is_no_sync_queue(address)
        queue = self._destinations.queues.get(address)
        if queue is None or queue.named is not None:
            raise _no_queue(address)
        if queue.consumers:
            raise Refused("conflict", f"{address} has {len(queue.consumers)} consumers; end them first")
        delayed = self._scheduler.delayed(address)
        if (queue.depth or queue.unsettled or delayed) and not command.force:
            raise Refused(
                "conflict",
                f"{address} has messages ({queue.depth} waiting, {delayed} delayed, {queue.unsettled} "
                "unsettled): purge it first, or delete it with force",
            )
        return queue


def _no_queue(address: str) -> Refused:
    return Refused("not-found", f"there is no queue {address}")
