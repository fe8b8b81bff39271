"""Temporary queues: each is consumed by one connection, and deleted with it.

A client of another broker of the cluster has its temporary queues here, too, where messages to them wait
until they cross. The link to its broker is their consumer. They outlive a link that ends: what was sent in
the meantime is delivered when the broker is linked again, if that is within `Limits.suspended_queue_ms`.
"""

from __future__ import annotations

from itertools import takewhile

from broker_app.base.refused import Refused
from broker_app.core.accounts import Accounts
from broker_app.core.destinations import Destinations
from broker_app.core.model import InnerReceiver, Peer, Queue, Subscription
from broker_app.core.outcome import DestinationDeleted
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class _Owner:
    """Another broker, whose clients have these queues. `peer` has their memory in its account, which links
    that come and go do not change."""

    __slots__ = ("peer", "queues")

    def __init__(self, user: str) -> None:
        self.peer = Peer(InnerReceiver(), user=user)
        self.queues: set[str] = set()


class TemporaryQueues:
    """The temporary queues of all connections, and of the clients of other brokers."""

    def __init__(
        self, turn: Turn, accounts: Accounts, destinations: Destinations, store: MessageStore
    ) -> None:
        self._turn = turn
        self._accounts = accounts
        self._destinations = destinations
        self._store = store
        #: other brokers by the user of their links
        self._owners: dict[str, _Owner] = {}
        self._owner_of: dict[str, _Owner] = {}
        #: queues without a consumer, with the time when they are deleted, in its order
        self._suspended: dict[str, int] = {}

    def queue(self, subscription: Subscription, address: str) -> Queue:
        """The queue of `address` for its consumer, created when it is the first. Raises Refused for one of
        another connection."""
        peer = subscription.peer
        if address in self._destinations.queues and not self._owns(subscription, address):
            raise Refused(
                "not-allowed",
                f"{address} belongs to another connection; only that connection can consume it",
            )
        queue = self._destinations.queue(address, durable=False)
        if subscription.remote:
            peer = self._keep_for_broker(peer.user, address)
        else:
            peer.temporary.add(address)
        queue.account = self._accounts.of(peer)
        return queue

    def _owns(self, subscription: Subscription, address: str) -> bool:
        peer = subscription.peer
        if not subscription.remote:
            return address in peer.temporary
        owner = self._owners.get(peer.user)
        return owner is not None and address in owner.queues

    def _keep_for_broker(self, user: str, address: str) -> Peer:
        """Keep a queue for another broker; returns the peer in whose account it is."""
        owner = self._owners.get(user)
        if owner is None:
            owner = self._owners[user] = _Owner(user)
        owner.queues.add(address)
        self._owner_of[address] = owner
        self._suspended.pop(address, None)
        return owner.peer

    # ------------------------------------------------------------------ their end

    def end_all(self, peer: Peer) -> bool:
        """Delete the queues of a connection. Returns False if some are left when the deadline has passed."""
        for address in self._turn.deadline.each(iter(list(peer.temporary))):
            self._remove(address)
            peer.temporary.discard(address)
        return not peer.temporary

    def consumer_left(self, subscription: Subscription) -> None:
        """Delete the queue of a client of another broker that is not subscribed any more. It is kept for a
        time where the link has ended, or messages wait."""
        queue = subscription.queue
        if not subscription.remote or queue.consumers or queue.address not in self._owner_of:
            return
        if subscription.peer.disconnected or queue.depth or queue.unsettled:
            until_ms = self._turn.now_ms + self._turn.limits.suspended_queue_ms
            self._suspended[queue.address] = until_ms
        else:
            self._remove_remote(queue.address)

    def remove_overdue(self) -> None:
        """Delete queues whose consumers have not come back in time."""
        now_ms = self._turn.now_ms
        due = [address for address, _ in takewhile(lambda one: one[1] <= now_ms, self._suspended.items())]
        for address in self._turn.deadline.each(iter(due)):
            del self._suspended[address]
            self._remove_remote(address)

    def _remove_remote(self, address: str) -> None:
        owner = self._owner_of.pop(address)
        owner.queues.discard(address)
        self._remove(address)
        if not owner.queues:
            self._accounts.close(owner.peer)
            del self._owners[owner.peer.user]

    def _remove(self, address: str) -> None:
        queue = self._destinations.queues.pop(address, None)
        if queue is not None:
            self._turn.counters["discarded"] += queue.depth
            self._store.close_queue(queue)
            self._turn.emit_destination(DestinationDeleted(address))

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift the times when queues are deleted, because the clock was set."""
        self._suspended = {address: until_ms + by_ms for address, until_ms in self._suspended.items()}
