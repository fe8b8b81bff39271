"""Subscriptions: created, paused, resumed and ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.accounts import Accounts
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.delivery.deliveries import RETURNED_AT_ONCE, Deliveries
from broker_app.core.delivery.local_preference import AFTER_LOCAL
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destination import (
    DURABLE_PREFIX,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    has_wildcard,
    parse,
)
from broker_app.core.destinations import Destinations
from broker_app.core.half_open import HalfOpenConnections
from broker_app.core.model import NamedSubscription, Peer, Queue, Subscription
from broker_app.core.outcome import (
    ConsumerJoined,
    ConsumerLeft,
    ConsumerSlow,
    SnapshotWanted,
)
from broker_app.core.policy import DestinationPolicy
from broker_app.core.reasons import CONSUMER_LEFT
from broker_app.core.remote.sync_queue import check_is_no_sync_queue
from broker_app.core.selectors import compiler
from broker_app.core.selectors.selector import Selector
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.temporary_queues import TemporaryQueues
from broker_app.core.topics.durable_subscriptions import DurableSubscriptions
from broker_app.core.topics.histories import Histories
from broker_app.core.topics.replay import NOW, parse_start
from broker_app.core.topics.topic_delivery import TopicDelivery, is_fanned_out
from broker_app.core.turn import Turn

#: deliveries of ended subscriptions that a connection may still acknowledge, in vain; of the last one that
#: ended, as many as its credit
MAX_RETURNED = 10_000


class Subscriptions:
    """The subscriptions of all peers. `on_begin` and `on_end` are called with each that begins and ends,
    `on_credit` with each whose credit changes."""

    def __init__(
        self,
        turn: Turn,
        accounts: Accounts,
        destinations: Destinations,
        store: MessageStore,
        temporary_queues: TemporaryQueues,
        topic_delivery: TopicDelivery,
        consumers: Consumers,
        unsettled: UnsettledDeliveries,
        deliveries: Deliveries,
        histories: Histories,
        durables: DurableSubscriptions,
        half_open: HalfOpenConnections,
    ) -> None:
        self._turn = turn
        self._accounts = accounts
        self._destinations = destinations
        self._store = store
        self._temporary_queues = temporary_queues
        self._topic_delivery = topic_delivery
        self.slow_consumers = topic_delivery.slow_consumers
        topic_delivery.on_overrun.append(self.end_overrun)
        self._consumers = consumers
        self._unsettled = unsettled
        self._deliveries = deliveries
        self._histories = histories
        self._durables = durables
        self._half_open = half_open
        self.on_begin: list[Callable[[Subscription], None]] = []
        self.on_end: list[Callable[[Subscription], None]] = []
        self.on_credit: list[Callable[[Subscription], None]] = []

    def subscribe(self, command: c.Subscribe, checked: tuple[Subscription, Destination]) -> None:
        """Begin a subscription."""
        peer = command.peer
        subscription, destination = checked
        self._half_open.give_way(peer, self._in_the_way(command, destination))
        try:
            self._begin(subscription, destination, command)
        except Refused as refusal:
            self._turn.refuse(peer, command.receipt, refusal)
            return
        self.enter(subscription)
        if command.snapshot and self._turn.has_listeners:
            self._turn.out.events.append(SnapshotWanted(subscription))
        self._turn.accept(peer, command.receipt)
        if not peer.paused:
            self._consumers.make_available(subscription)

    def _in_the_way(self, command: c.Subscribe, destination: Destination) -> list[Peer]:
        """The connections whose consumers leave no room for a new one."""
        if not (command.name or destination.is_queue):
            if self._topic_room(destination) > 0:
                return []
            consumers = self._destinations.topics_of(destination).consumers(destination.name)
            return [consumer.peer for consumer in consumers]
        queue: Queue | None = None
        if command.name:
            named = self._destinations.named.get(DURABLE_PREFIX + command.name)
            if named is not None and not (named.terms.shared and command.shared):
                queue = named.queue
        else:
            found = self._destinations.queues.get(command.address)
            if found is not None and (
                command.exclusive or 0 < found.policy.max_consumers <= len(found.consumers)
            ):
                queue = found
        return [consumer.peer for consumer in queue.consumers] if queue is not None else []

    def _topic_room(self, destination: Destination) -> float:
        """The number of further consumers that a topic may have."""
        most = self._turn.policies.of(destination.address).max_consumers
        if not most or has_wildcard(destination.name):
            return math.inf
        return most - self._destinations.topics_of(destination).count(destination.name)

    def set_inner_ack(self, command: c.SetInnerAck) -> None:
        """Have a part of the node settle the deliveries of a subscription for its client, or no longer."""
        subscription = command.subscription
        if subscription.ended or subscription.inner_ack == command.on:
            return
        if command.on and subscription.ack == c.AUTO:
            subscription.inner_ack, subscription.ack = True, c.INDIVIDUAL
            if subscription.fanout_group is not None:
                self._topic_delivery.serve_singly(subscription, parse(subscription.address))
        elif not command.on:
            subscription.inner_ack, subscription.ack = False, c.AUTO
            self._consumers.make_available(subscription)
            if is_fanned_out(subscription):
                self._topic_delivery.serve_together(subscription, parse(subscription.address))

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift since when consumers are slow, because the clock was set."""
        self.slow_consumers.shift(by_ms)

    def check_subscribe(self, command: c.Subscribe) -> tuple[Subscription, Destination]:
        """A new subscription with valid terms, and its destination. Changes nothing."""
        peer = command.peer
        self.check_subscribable(peer, command.id, command.address, command.selector, is_link=command.remote)
        self._check_credit(command.credit)
        destination = parse(command.address)
        if command.exclusive and not (destination.is_queue or command.name):
            raise Refused(
                "invalid", "only a consumer of a queue can be exclusive; a topic serves all its subscribers"
            )
        alone = destination.is_queue or command.name or command.no_local or command.remote
        render_key = None if alone else command.render_key
        if render_key is not None and command.selector:
            render_key = (render_key, command.selector)
        inner_ack = command.inner_ack and command.ack == c.AUTO
        ack = c.INDIVIDUAL if inner_ack else command.ack
        subscription = Subscription(
            peer, command.id, command.address, ack, command.credit, command.lease_ms, render_key
        )
        subscription.inner_ack = inner_ack
        subscription.selector = compiler.compile(command.selector) if command.selector else None
        if DURABLE_PREFIX + command.name not in self._destinations.named:
            self._check_searches(peer.user, subscription.selector)
        subscription.exclusive, subscription.priority = command.exclusive, command.priority
        subscription.exclusive_since_us = command.exclusive_since_us or self._turn.out.time_us
        subscription.no_local = command.no_local
        if command.remote:
            self._check_remote(subscription)
        subscription.client = command.client or peer.client
        subscription.principal = command.principal
        subscription.since_ms = self._turn.now_ms
        if not destination.is_queue:
            _check_filter(destination)
        start = parse_start(command.start) if command.start else None
        is_replay = start is not None and start.kind != NOW
        if command.no_local and (destination.is_queue or command.name or is_replay):
            raise Refused(
                "unsupported",
                "no-local is for topics without a name for the subscription and without a start in the past: "
                "which connection sent a message is not kept with it",
            )
        if is_replay:
            _check_replayable(command, destination)
        return subscription, destination

    def _check_remote(self, subscription: Subscription) -> None:
        """Mark a subscription as that of another broker. Refused where only local consumers are served."""
        policy = self._turn.policies.of(subscription.address)
        if policy.local_only:
            raise Refused("local-only", f"{subscription.address} serves the consumers of its own broker only")
        subscription.remote = True
        if policy.prefer_local:
            subscription.priority += AFTER_LOCAL

    def _begin(self, subscription: Subscription, destination: Destination, command: c.Subscribe) -> None:
        """Add a subscription to its destination. Refused when that cannot take it."""
        if command.name:
            self._durables.join(subscription, command, destination)
        elif destination.is_queue:
            self._join_queue(subscription, destination)
        else:
            if self._topic_room(destination) <= 0 and not command.remote:
                raise _too_many(command.address, self._turn.policies.of(command.address))
            subscription.queue = Queue(command.address, durable=False)
            subscription.queue.account = self._accounts.of(command.peer)
            subscription.watched = True
            start = parse_start(command.start) if command.start else None
            if start is not None and destination.kind == TOPIC:
                self._histories.begin_replay(subscription, start, destination)
            subscription.queue.consumers[subscription] = None
            self._topic_delivery.listen(subscription, destination)

    def check_subscribable(self, peer: Peer, id: str, *texts: str, is_link: bool = False) -> None:
        """Refused when a connection cannot have another subscription, or has one with this id."""
        if id in peer.subscriptions:
            raise Refused("conflict", f"subscription id {id!r} is already in use on this connection")
        limits = self._turn.limits
        most = limits.subscriptions_per_link if is_link else limits.subscriptions_per_peer
        if len(peer.subscriptions) >= most:
            raise Refused("too-many", f"a connection may have {most} subscriptions; end some first")
        used = peer.account.text_bytes if peer.account is not None else 0
        most = limits.subscription_bytes_per_link if is_link else limits.subscription_bytes_per_peer
        if used + len(id) + sum(map(len, texts)) > most:
            raise Refused(
                "too-many",
                f"ids, destinations and selectors of a connection's subscriptions may have {most} "
                "characters together; use shorter ones, or end some subscriptions",
            )

    def _check_searches(self, user: str, wanted: Selector | None) -> None:
        """Refused when a user's selectors would search messages for too many patterns."""
        if wanted is None or not wanted.searches:
            return
        of_user, most = self._accounts.users.get(user), self._turn.limits.searches_per_user
        searches = of_user.searches if of_user is not None else 0
        kept = (
            named
            for named in self._destinations.named.values()
            if named.selector and named.terms.owner == user
        )
        searches += sum(named.selector.searches for named in kept if named.selector)
        if searches + wanted.searches > most:
            raise Refused(
                "too-many",
                f"the selectors of {user or 'this user'} have {most} texts between two % in their patterns, "
                "the maximum (a text with _ counts as two); compare with = or IN instead",
            )

    def enter(self, subscription: Subscription) -> None:
        """Add a subscription to its connection."""
        peer = subscription.peer
        peer.subscriptions[subscription.id] = subscription
        self._unsettled.peers[peer] = None
        self._count_texts(subscription, 1)
        self._turn.emit_consumer(ConsumerJoined(subscription))
        for listener in self.on_begin:
            listener(subscription)

    def _count_texts(self, subscription: Subscription, sign: int) -> None:
        """Add (or, with -1, remove) the texts of a subscription to its connection's account."""
        account, selector = self._accounts.of(subscription.peer), subscription.selector
        account.text_bytes += sign * len(subscription.id + subscription.address)
        if selector is not None:
            account.text_bytes += sign * len(selector.text)
            if subscription.queue.named is None:
                account.of_user.searches += sign * selector.searches

    def _join_queue(self, subscription: Subscription, destination: Destination) -> None:
        address = destination.address
        check_is_no_sync_queue(address)
        if destination.kind == TEMP_QUEUE:
            queue = self._temporary_queues.queue(subscription, address)
        else:
            if address not in self._destinations.queues:
                self._destinations.check_creation(address)
            queue = self._destinations.queue(address)
        subscription.queue = queue
        if not subscription.remote:
            _check_number(queue.policy, address, len(queue.consumers))
        self._consumers.join(subscription)

    def deliver_to(self, command: c.DeliverTo) -> None:
        """Deliver messages to only one subscription."""
        subscription = command.subscription
        if isinstance(subscription, NamedSubscription):
            for envelope, body in command.messages:
                message = self._turn.transient_message(envelope, body)
                self._topic_delivery.deliver_named(subscription, message, b"")
            return
        for envelope, body in command.messages:
            # It may have ended since they were requested, or by one of them; the queue of a durable one
            # remains.
            if subscription.ended:
                return
            message = self._turn.transient_message(envelope, body)
            self._topic_delivery.deliver(subscription, message)

    def check_credit(self, command: c.SetCredit) -> Subscription:
        """A subscription of this connection. Refused for a credit out of bounds."""
        subscription = command.peer.subscriptions.get(command.id)
        if subscription is None:
            raise Refused("not-found", f"there is no subscription {command.id!r} on this connection")
        self._check_credit(command.credit)
        return subscription

    def set_credit(self, command: c.SetCredit, subscription: Subscription) -> None:
        """Change the credit of a subscription."""
        subscription.credit = command.credit
        for listener in self.on_credit:
            listener(subscription)
        if subscription.unsettled >= command.credit:
            self._consumers.make_unavailable(subscription)
        elif not command.peer.paused:
            self._consumers.make_available(subscription)
        self._turn.accept(command.peer, command.receipt)

    def _check_credit(self, credit: int) -> None:
        most = self._turn.limits.max_credit
        if not 1 <= credit <= most:
            raise Refused("invalid", f"credit is {credit}; it must be between 1 and {most}")

    def check_unsubscribe(self, command: c.Unsubscribe) -> tuple[Subscription, NamedSubscription | None]:
        """A subscription of this connection, and the durable subscription that is to be deleted with it."""
        subscription = command.peer.subscriptions.get(command.id)
        if subscription is None:
            raise Refused("not-found", f"there is no subscription {command.id!r} on this connection")
        return subscription, self._named_to_delete(subscription) if command.forget else None

    def unsubscribe(
        self, command: c.Unsubscribe, checked: tuple[Subscription, NamedSubscription | None]
    ) -> c.Parts | None:
        """End a subscription. Returns the rest when the deadline has passed."""
        subscription, named = checked
        if named is not None:
            return self._turn.in_parts(c.Steps(command.peer, self._unsubscribe(command, subscription, named)))
        return self._turn.in_parts(c.Parts(command.peer, self._unsubscribe(command, subscription)))

    def _unsubscribe(
        self, command: c.Unsubscribe, subscription: Subscription, named: NamedSubscription | None = None
    ) -> Iterator[None]:
        yield from self._end(subscription, keep_unsettled=command.keep_unsettled and named is None)
        if named is not None:
            yield from self._durables.delete(named)
        self._turn.accept(command.peer, command.receipt)

    def _named_to_delete(self, subscription: Subscription) -> NamedSubscription:
        named = subscription.queue.named
        if named is None or not named.durable:
            raise Refused(
                "conflict", f"subscription {subscription.id!r} is not durable; there is nothing to delete"
            )
        return self._durables.deletable(named.name, subscription.peer.user, subscription)

    def check_delete_durable(self, command: c.DeleteSubscription) -> NamedSubscription:
        """The durable subscription to be deleted; Refused when others use it."""
        own = _consumers_of(command.peer, command.name)
        return self._durables.deletable(command.name, command.owner, *own, decided=command.decided)

    def delete_durable(self, command: c.DeleteSubscription, named: NamedSubscription) -> c.Steps | None:
        """Delete a durable subscription, with all its messages. Returns the rest when the deadline has
        passed."""
        return self._turn.in_parts(c.Steps(command.peer, self._delete_durable(command, named)))

    def _delete_durable(self, command: c.DeleteSubscription, named: NamedSubscription) -> Iterator[None]:
        for subscription in _consumers_of(command.peer, command.name):
            yield from self._end(subscription, keep_unsettled=False)
        yield from self._durables.delete(named)
        self._turn.accept(command.peer, command.receipt)

    def end(self, subscription: Subscription, *, keep_unsettled: bool) -> None:
        """End a subscription. Unsettled deliveries are returned, or (`keep_unsettled`) stay with the peer."""
        for _ in self._end(subscription, keep_unsettled=keep_unsettled):
            """It may take longer than a turn."""

    def _end(self, subscription: Subscription, *, keep_unsettled: bool) -> Iterator[None]:
        """End a subscription at once; the steps return its deliveries."""
        peer = subscription.peer
        peer.subscriptions.pop(subscription.id, None)
        self._count_texts(subscription, -1)
        self._turn.emit_consumer(ConsumerLeft(subscription))
        queue = subscription.queue
        self._consumers.make_unavailable(subscription)
        self._consumers.leave(subscription)
        destination = parse(subscription.address)
        if queue.named is not None:
            self._durables.consumer_left(queue.named)
            keep_unsettled = keep_unsettled and queue.durable
        elif not destination.is_queue:
            self._topic_delivery.leave_fanouts(subscription)
            self._topic_delivery.unlisten(subscription, destination)
            self._histories.finish_replay(subscription)
            self._store.close_queue(queue)
            keep_unsettled = False
        if subscription.unsettled and not keep_unsettled:
            most_returned = max(MAX_RETURNED, subscription.credit)
            for at, tag in enumerate(self._unsettled.take_tags(subscription), 1):
                if at % RETURNED_AT_ONCE == 0:
                    yield
                held = peer.unsettled.pop(tag, None)
                if held is None:
                    continue  # its lease has ended meanwhile
                self._deliveries.return_delivery(*held, CONSUMER_LEFT)
                if peer.strict:
                    peer.returned[tag] = None
                    if len(peer.returned) > most_returned:
                        del peer.returned[next(iter(peer.returned))]
        for listener in self.on_end:
            listener(subscription)

    def end_outrun(self) -> None:
        """End subscriptions whose history was trimmed before they had read it."""
        outrun, self._histories.outrun = self._histories.outrun, {}
        for subscription, address in outrun.items():
            if subscription.replay is not None:
                detail = f"{address}: history was trimmed before subscription {subscription.id!r} had read it"
                self._turn.out.ended.append((subscription, Refused("history-gone", detail)))
                self.end(subscription, keep_unsettled=False)

    def check_slow_consumers(self) -> None:
        """End consumers that have received nothing for too long while messages wait for them."""
        behind = self.slow_consumers.behind
        for subscription in [s for s in behind if s.queue.deleted or s.queue.first_lane() is None]:
            del behind[subscription]
        waiting = [
            queue for queue in self._destinations.queues.values() if queue.consumers and queue.first_lane()
        ]
        candidates = [
            *behind,
            *(s for queue in waiting for s in queue.consumers if not queue.consumers_paused),
        ]
        for subscription, still_ms in self.slow_consumers.check(candidates, self._turn.now_ms):
            queue = subscription.queue
            policy = queue.policy if queue.durable else self._turn.policies.of(subscription.address)
            if 0 < policy.slow_consumer_ms <= still_ms:
                self._end_slow(
                    subscription,
                    f"subscription {subscription.id!r} on {subscription.address} settled nothing for "
                    f"{still_ms / 1000:.0f} s while messages waited for it, with {subscription.unsettled} "
                    "unsettled; it was ended",
                )

    def end_overrun(self, subscription: Subscription) -> None:
        """End a subscription for which too many messages wait."""
        self._end_slow(
            subscription,
            f"{subscription.queue.depth} messages wait for subscription {subscription.id!r} on "
            f"{subscription.address}, the maximum by number or size; it reads too slowly and was ended",
        )

    def _end_slow(self, subscription: Subscription, detail: str) -> None:
        if subscription.ended:
            return  # it may be slow for two reasons at once
        self._turn.out.ended.append((subscription, Refused("slow-consumer", detail)))
        self._turn.emit_consumer(ConsumerSlow(subscription, detail))
        self.end(subscription, keep_unsettled=False)

    def pause(self, command: c.Pause) -> c.Pause | None:
        """Deliver nothing more to a peer until it resumes. Returns the command again when the deadline has
        passed before all of its subscriptions were served no longer."""
        command.peer.paused = True
        served = [
            subscription
            for subscription in command.peer.subscriptions.values()
            if subscription.available or subscription.fanout_group is not None
        ]
        left = iter(served)
        for subscription in self._turn.deadline.each(left):
            self._consumers.make_unavailable(subscription)
            if subscription.fanout_group is not None:
                self._topic_delivery.serve_singly(subscription, parse(subscription.address))
        return command if next(left, None) is not None else None

    def resume(self, command: c.Resume) -> c.Resume | None:
        """Deliver to a peer again. Returns the rest when the deadline has passed."""
        peer = command.peer
        peer.paused = False
        left = iter(command.left or list(peer.subscriptions.values()))
        for subscription in self._turn.deadline.each(left):
            if subscription.ended:
                continue
            self._consumers.make_available(subscription)
            if is_fanned_out(subscription) and subscription.fanout_group is None:
                self._topic_delivery.serve_together(subscription, parse(subscription.address))
        rest = list(left)
        return c.Resume(peer, rest) if rest else None

    def end_all(self, peer: Peer) -> bool:
        """End all that a connection has: deliveries, subscriptions, temporary queues. Returns False if
        something is left when the deadline has passed."""
        deadline = self._turn.deadline
        peer.paused = True  # nothing more is delivered to it, whatever is returned below
        served = iter([one for one in peer.subscriptions.values() if one.available])
        for subscription in deadline.each(served):
            self._consumers.make_unavailable(subscription)
        if next(served, None) is not None:
            return False
        for tag in deadline.each(iter(list(peer.unsettled))):
            subscription, message = peer.unsettled.pop(tag)
            self._deliveries.return_delivery(subscription, message, CONSUMER_LEFT)
        if peer.unsettled:
            return False
        for subscription in list(peer.subscriptions.values()):
            self.end(subscription, keep_unsettled=True)
            if deadline.passed:  # much may wait for each
                break
        if peer.subscriptions:
            return False
        self._unsettled.forget(peer)
        if not self._temporary_queues.end_all(peer):
            return False
        self._accounts.close(peer)
        return True


def _consumers_of(peer: Peer, name: str) -> list[Subscription]:
    """The subscriptions by which a connection consumes a durable subscription."""
    address = DURABLE_PREFIX + name
    return [one for one in peer.subscriptions.values() if one.queue.address == address]


def _check_replayable(command: c.Subscribe, destination: Destination) -> None:
    """Refused when the destination has no history."""
    if destination.kind != TOPIC:
        raise Refused("invalid", f"{destination.address} has no history; only topics can be replayed")
    if command.name:
        raise Refused(
            "unsupported",
            "a durable or shared subscription cannot replay history; it begins with new messages",
        )


def _check_filter(destination: Destination) -> None:
    """Refused when a topic filter could never match, or would match private topics."""
    if destination.kind == TEMP_TOPIC and has_wildcard(destination.name):
        raise Refused("bad-destination", "subscribe to a temporary topic by its name, not by a wildcard")
    if any(level in (">", "#") for level in destination.name.split(".")[:-1]):
        raise Refused(
            "bad-destination",
            f"{destination.name!r} has '>' or '#' before its end; they are allowed only as the last level",
        )


def _check_number(policy: DestinationPolicy, address: str, consumers: int) -> None:
    """Refused when a destination has its maximum of consumers."""
    if policy.max_consumers and consumers >= policy.max_consumers:
        raise _too_many(address, policy)


def _too_many(address: str, policy: DestinationPolicy) -> Refused:
    return Refused("too-many", f"{address} has {policy.max_consumers} consumers, its maximum")
