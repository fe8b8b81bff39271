"""What an administrator decides about destinations: their policies, emptying a queue, and its end."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.errors import Refused
from broker_app.core.facts import DestinationGone
from broker_app.core.marks import check_is_no_sync_queue
from broker_app.core.moving import Moving
from broker_app.core.queue import Queue


class Configuring(Moving):
    """New policies for what is there; queues made, emptied and removed."""

    def _reconfigure(self, command: c.Reconfigure) -> None:
        if command.limits is not None:
            self.limits = self.parking.limits = command.limits
            self._count_again_at = 0
            self._gauge()
        self.policies = command.policies
        self._limits_topics = command.policies.limits_topics
        self._retains = command.policies.retains
        self._retentions.clear()
        self._topic_guards.clear()
        self.make_declared()
        for queue in self.queues.values():
            self._obey(queue)

    def _obey(self, queue: Queue) -> None:
        self._reguard(queue, self.policy_of(queue))
        for subscription in queue.consumers:
            if queue.held:
                self._withdraw(subscription)
            else:
                self._offer(subscription)

    def _purge(self, command: c.Purge) -> None:
        try:
            queue = self._purgeable(command.address)
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        if command.delayed:
            self._cancel_all(queue.address, records.PURGED)
        if command.ready:
            marks = [(lane.priority, lane.mark, lane.shift) for lane in queue.lanes]
            self._record_purged(queue, self._empty(queue))
            for priority, mark, shift in marks:
                lane = queue.lane(priority)
                lane.mark, lane.shift = mark, shift
            self._recount(queue)
        self._accept(command.peer, command.receipt)

    def _make(self, command: c.MakeQueue) -> None:
        try:
            if command.address not in self.queues:
                self._check_creation(command.address)
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        self.queue(command.address)
        self._accept(command.peer, command.receipt)

    def _purgeable(self, address: str) -> Queue:
        check_is_no_sync_queue(address)
        queue = self.queues.get(address)
        if queue is None:
            raise _no_queue(address)
        return queue

    def _remove(self, command: c.RemoveQueue) -> None:
        try:
            queue = self._removable(command.address, command.force)
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        self._record_purged(queue, self._empty(queue) + self._take_unsettled(queue))
        self._cancel_all(queue.address, records.PURGED)
        del self.queues[queue.address]
        queue.gone = True
        self._tell_of_destination(DestinationGone(queue.address))
        self._accept(command.peer, command.receipt)

    def _removable(self, address: str, force: bool) -> Queue:
        check_is_no_sync_queue(address)
        queue = self.queues.get(address)
        if queue is None or queue.named is not None:
            raise _no_queue(address)
        if queue.consumers:
            raise Refused("conflict", f"{address} has {len(queue.consumers)} consumers; end them first")
        delayed = self.delayed(address)
        if (queue.depth or queue.unsettled or delayed) and not force:
            raise Refused(
                "conflict",
                f"{queue.depth} messages wait in {address}, {delayed} are delayed and {queue.unsettled} "
                "unsettled; purge it first, or remove it by force",
            )
        return queue


def _no_queue(address: str) -> Refused:
    return Refused("not-found", f"there is no queue {address}")
