"""Durable and shared subscriptions: named subscriptions of topics, with a queue of their own."""

from __future__ import annotations

from collections.abc import Iterator

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.account import Account
from broker_app.core.accounts import Accounts
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destination import (
    DEAD_SUFFIX,
    DURABLE_PREFIX,
    SHARED_PREFIX,
    TOPIC,
    Destination,
    check_name,
    parse,
)
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.durability.records import Terms
from broker_app.core.model import NamedSubscription, Queue, Subscription
from broker_app.core.outcome import DestinationDeleted, SubscriptionChanged
from broker_app.core.selectors import compiler
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class DurableSubscriptions:
    """Creates, joins and deletes named subscriptions."""

    def __init__(
        self,
        turn: Turn,
        accounts: Accounts,
        destinations: Destinations,
        store: MessageStore,
        consumers: Consumers,
        unsettled: UnsettledDeliveries,
    ) -> None:
        self._turn = turn
        self._accounts = accounts
        self._destinations = destinations
        self._store = store
        self._consumers = consumers
        self._unsettled = unsettled
        #: why clients can create and delete no durable ones now; set by a cluster whose keeper is away
        self.refusal: Refused | None = None
        #: whether each change of a durable one is an event
        self.watched = False

    def join(self, subscription: Subscription, command: c.Subscribe, destination: Destination) -> None:
        """Make a subscription a consumer of the named subscription that it asks for."""
        _check_name(command, destination)
        address = (DURABLE_PREFIX if command.durable else SHARED_PREFIX) + command.name
        self._accounts.of(command.peer)
        owner = command.owner or command.peer.user
        terms = Terms(destination.address, command.selector, command.shared, owner)
        named = self._destinations.named.get(address)
        if named is None:
            self._check_room()
            if command.durable and self.refusal is not None:
                raise self.refusal
            named = self.begin(address, terms)
            self._record_terms(named)
        else:
            _check_terms(named, terms)
            if named.terms != terms:
                named.terms = terms
                self._record_terms(named)
        subscription.queue = named.queue
        self._consumers.join(subscription)

    def _check_room(self) -> None:
        most = self._turn.limits.named_subscriptions
        if len(self._destinations.named) >= most:
            raise Refused("too-many", f"the broker has {most} durable and shared subscriptions, its maximum")

    def check_create(self, command: c.CreateSubscription) -> None:
        """Refused when there is no room, for wrong terms, and when there is one of this name with others."""
        check_name(command.name)
        terms = command.terms
        if parse(terms.filter).kind != TOPIC:
            raise Refused("invalid", f"{terms.filter} is not a topic; only topics have named subscriptions")
        if terms.selector:
            compiler.compile_stored(terms.selector)
        named = self._destinations.named.get(DURABLE_PREFIX + command.name)
        if named is None:
            self._check_room()
        elif (named.terms.filter, named.terms.selector) != (terms.filter, terms.selector):
            raise _other_terms(named)

    def create(self, command: c.CreateSubscription) -> None:
        """Create a durable subscription without a consumer, or change the terms of one."""
        address = DURABLE_PREFIX + command.name
        named = self._destinations.named.get(address)
        if named is None:
            named = self.begin(address, command.terms)
        named.terms = command.terms
        self._record_terms(named)
        self._turn.accept(command.peer, command.receipt)

    def begin(self, address: str, terms: Terms) -> NamedSubscription:
        """Create a named subscription, durable or not by its address, and add it to its topic."""
        durable = address.startswith(DURABLE_PREFIX)
        queue = self._destinations.queue(address) if durable else Queue(address, durable=False)
        if not durable:  # all its consumers are of one user
            queue.account = Account(self._accounts.of_user(terms.owner))
        name = address.removeprefix(DURABLE_PREFIX if durable else SHARED_PREFIX)
        named = queue.named = self._destinations.named[address] = NamedSubscription(
            name, terms, queue, compiler.compile_stored(terms.selector) if terms.selector else None
        )
        if durable:
            queue.apply_policy(self._destinations.policy_of(queue))
        self._destinations.topics.add_named(parse(terms.filter).name, named)
        return named

    def end(self, named: NamedSubscription) -> None:
        """Remove a named subscription from its topic."""
        del self._destinations.named[named.queue.address]
        self._destinations.topics.remove_named(parse(named.terms.filter).name, named)
        named.queue.named = None

    def _record_terms(self, named: NamedSubscription) -> None:
        if named.durable:
            out = self._turn.out
            out.record(records.subscribed(out.destination(named.queue.address), named.terms))
            if self.watched:
                out.events.append(SubscriptionChanged(named.name, named.terms))

    def consumer_left(self, named: NamedSubscription) -> None:
        """End a shared subscription that is not durable with its last consumer."""
        if not named.durable and not named.queue.consumers:
            self.end(named)
            self._store.close_queue(named.queue)

    def delete(self, named: NamedSubscription) -> Iterator[None]:
        """Delete a durable subscription without consumers, with all its messages, in steps."""
        queue, out = named.queue, self._turn.out
        # Messages that its last consumer returned may wait for another attempt.
        yield from self._store.purge(queue)
        self._store.record_ends(queue, self._unsettled.take(queue), (), records.PURGED)
        self.end(named)
        queue.deleted = True
        del self._destinations.queues[queue.address]
        out.record(records.forgotten(out.destination(queue.address)))
        self._turn.emit_destination(DestinationDeleted(queue.address))
        if self.watched:
            out.events.append(SubscriptionChanged(named.name, None))

    def deletable(
        self, name: str, owner: str, *leaving: Subscription, decided: bool = False
    ) -> NamedSubscription:
        """The durable subscription of `name`; Refused when it cannot be deleted once `leaving` have left."""
        named = self._destinations.named.get(DURABLE_PREFIX + name)
        if named is None:
            raise Refused("not-found", f"there is no durable subscription {name!r}")
        if owner and owner != named.terms.owner:
            raise Refused("not-allowed", f"durable subscription {name!r} belongs to {named.terms.owner!r}")
        others = [consumer for consumer in named.queue.consumers if consumer not in leaving]
        if others:
            raise Refused("conflict", f"durable subscription {name!r} is consumed by {_describe(others[0])}")
        held = sum(subscription.unsettled for subscription in leaving) + self._unsettled.delayed.count(
            named.queue
        )
        if named.queue.unsettled > held:
            raise Refused(
                "conflict", f"durable subscription {name!r} has unsettled deliveries; settle them first"
            )
        if self.refusal is not None and not decided:
            raise self.refusal
        return named

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Begin or end the durable subscription that a record names."""
        address = record.address
        if record.kind == records.SUBSCRIBED:
            self.load(address, record.terms)
        elif (
            named := self._destinations.named.get(address)
        ) is not None:  # else it ended before the snapshot
            self.end(named)
            del self._destinations.queues[address]

    def load(self, address: str, terms: Terms) -> None:
        """Restore a durable subscription, or update its terms."""
        named = self._destinations.named.get(address)
        if named is None:
            self.begin(address, terms)
        else:
            named.terms = terms


def _check_name(command: c.Subscribe, destination: Destination) -> None:
    if destination.kind != TOPIC:
        raise Refused(
            "invalid", f"{destination.address} is not a topic; only topics have named subscriptions"
        )
    check_name(command.name)
    if not (command.durable or command.shared):
        raise Refused("invalid", f"subscription {command.name!r} must be durable, shared or both")
    if command.name.endswith(DEAD_SUFFIX):
        raise Refused(
            "invalid", f"the name of a subscription must not end in {DEAD_SUFFIX}, which is for dead letters"
        )


def _check_terms(named: NamedSubscription, requested: Terms) -> None:
    """Refused when the subscription with this name has other terms, or is in use."""
    terms, name = named.terms, named.name
    if terms.owner != requested.owner:
        raise Refused("not-allowed", f"subscription {name!r} belongs to {terms.owner!r}")
    if (terms.filter, terms.selector) != (requested.filter, requested.selector):
        raise _other_terms(named)
    if named.queue.consumers and not (terms.shared and requested.shared):
        raise Refused(
            "conflict", f"subscription {name!r} is consumed by {_describe(next(iter(named.queue.consumers)))}"
        )


def _other_terms(named: NamedSubscription) -> Refused:
    terms = named.terms
    return Refused(
        "conflict",
        f"subscription {named.name!r} is on {terms.filter}"
        + (f" with the selector {terms.selector!r}" if terms.selector else "")
        + "; delete it first, or use another name",
    )


def _describe(consumer: Subscription) -> str:
    return f"user {consumer.peer.user!r} (its subscription id there: {consumer.id!r})"
