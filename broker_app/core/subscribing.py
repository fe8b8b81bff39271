"""Subscriptions and sessions: their beginning, their pauses and their end."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core import selector
from broker_app.core.destination import (
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    has_wildcard,
    parse,
)
from broker_app.core.errors import Refused
from broker_app.core.facts import ConsumerJoined, ConsumerLeft, ConsumerSlow, DestinationGone, SnapshotWanted
from broker_app.core.marks import check_is_no_sync_queue
from broker_app.core.message import Message
from broker_app.core.named import DURABLE_PREFIX, NamedSubscription
from broker_app.core.peer import Peer
from broker_app.core.policy import DestinationPolicy
from broker_app.core.queue import Queue
from broker_app.core.replay import NOW, parse_start
from broker_app.core.replaying import Replaying
from broker_app.core.selector import Selector
from broker_app.core.subscription import Subscription


class Subscribing(Replaying):
    """Who listens to what."""

    def _subscribe(self, command: c.Subscribe) -> None:
        peer = command.peer
        try:
            subscription, destination = self._checked(command)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        try:
            self._begin_subscription(subscription, destination, command)
        except Refused as refusal:
            self._refuse(peer, command.receipt, refusal)
            return
        self._enter(subscription)
        if command.snapshot and self._listened:
            self._out.facts.append(SnapshotWanted(subscription))
        self._accept(peer, command.receipt)
        if not peer.paused:
            self._offer(subscription)

    def _checked(self, command: c.Subscribe) -> tuple[Subscription, Destination]:
        """A subscription that is as it may be by itself, and its destination. Changes nothing."""
        peer, limits = command.peer, self.limits
        self._check_subscribable(peer, command.id, command.address, command.selector)
        if not 1 <= command.credit <= limits.max_credit:
            raise Refused(
                "invalid", f"credit is {command.credit}; it must be between 1 and {limits.max_credit}"
            )
        destination = parse(command.address)
        if command.exclusive and not (destination.is_queue or command.name):
            raise Refused("invalid", "only a consumer of a queue can be exclusive; a topic serves everybody")
        look = None if destination.is_queue or command.name else command.look
        if look is not None and command.selector:
            look = (look, command.selector)
        subscription = Subscription(
            peer, command.id, command.address, command.ack, command.credit, command.lease_ms, look
        )
        subscription.selector = selector.compile(command.selector) if command.selector else None
        if DURABLE_PREFIX + command.name not in self.named:
            self._check_searches(peer.user, subscription.selector)
        subscription.exclusive = command.exclusive
        subscription.since_ms = self.now_ms
        if not destination.is_queue:
            _check_filter(destination)
        start = parse_start(command.start) if command.start else None
        if start is not None and start.kind != NOW:
            _check_replayable(command, destination)
        return subscription, destination

    def _begin_subscription(
        self, subscription: Subscription, destination: Destination, command: c.Subscribe
    ) -> None:
        """Let a subscription consume its destination. Refused where that has no place for it."""
        if command.name:
            self._join_named(subscription, command, destination)
        elif destination.is_queue:
            self._join_queue(subscription, destination)
        else:
            if not has_wildcard(destination.name):
                _check_number(
                    self.policies.of(command.address), command.address, self._listeners(destination)
                )
            subscription.queue = Queue(command.address, durable=False)
            subscription.queue.account = self._account_of(command.peer)
            subscription.watched = True
            start = parse_start(command.start) if command.start else None
            if start is not None and destination.kind == TOPIC:
                self._begin_replay(subscription, start, destination)
            subscription.queue.consumers.append(subscription)
            self._listen(subscription, destination)

    def _check_subscribable(self, peer: Peer, id: str, *texts: str) -> None:
        """Refused when a connection can have no further subscription of this id."""
        if id in peer.subscriptions:
            raise Refused("conflict", f"subscription id {id!r} is already in use on this connection")
        most = self.limits.subscriptions_per_peer
        if len(peer.subscriptions) >= most:
            raise Refused("too-many", f"a connection may hold {most} subscriptions")
        told = peer.account.told if peer.account is not None else 0
        most = self.limits.subscription_bytes_per_peer
        if told + len(id) + sum(map(len, texts)) > most:
            raise Refused(
                "too-many",
                f"ids, destinations and selectors of a connection's subscriptions may have {most} "
                "characters together; use shorter ones, or end some subscriptions",
            )

    def _check_searches(self, user: str, wanted: Selector | None) -> None:
        """Refused when a user's selectors would search messages for too many patterns."""
        if wanted is None or not wanted.searches:
            return
        of_user, most = self.users.get(user), self.limits.searches_per_user
        searches = of_user.searches if of_user is not None else 0
        kept = (named for named in self.named.values() if named.selector and named.terms.owner == user)
        searches += sum(named.selector.searches for named in kept if named.selector)
        if searches + wanted.searches > most:
            raise Refused(
                "too-many",
                f"the selectors of {user or 'this user'} have {most} texts between two % in their patterns, "
                "as many as they may (with _ in it, one counts as two); compare with = or IN instead",
            )

    def _enter(self, subscription: Subscription) -> None:
        """Let a subscription be one of its connection's."""
        peer = subscription.peer
        peer.subscriptions[subscription.id] = subscription
        self.peers[peer] = None
        self._count_texts(subscription, 1)
        self._tell_of_consumer(ConsumerJoined(subscription))

    def _count_texts(self, subscription: Subscription, sign: int) -> None:
        """Count what a subscription says among what its connection says, or (-1) no more."""
        account, selector = self._account_of(subscription.peer), subscription.selector
        account.told += sign * len(subscription.id + subscription.address)
        if selector is not None:
            account.told += sign * len(selector.text)
            if subscription.queue.named is None:
                account.of_user.searches += sign * selector.searches

    def _listen(self, subscription: Subscription, destination: Destination) -> None:
        topics = self.topics if destination.kind == TOPIC else self.temporary_topics
        topics.add(destination.name, subscription, together=_goes_together(subscription))

    def _listeners(self, destination: Destination) -> int:
        """How many subscriptions a topic has, those by wildcards too."""
        topics = self.topics if destination.kind == TOPIC else self.temporary_topics
        return topics.match(destination.name).copies

    def _unlisten(self, subscription: Subscription, destination: Destination) -> None:
        topics = self.topics if destination.kind == TOPIC else self.temporary_topics
        topics.remove(destination.name, subscription)

    def _join_queue(self, subscription: Subscription, destination: Destination) -> None:
        address = destination.address
        check_is_no_sync_queue(address)
        if destination.kind == TEMP_QUEUE:
            temporary = subscription.peer.temporary
            if address in self.queues and address not in temporary:
                raise Refused(
                    "not-allowed", f"{address} belongs to another connection; only that one may consume it"
                )
            temporary.add(address)
        elif address not in self.queues:
            self._check_creation(address)
        queue = subscription.queue = self.queue(address, durable=destination.kind == QUEUE)
        if destination.kind == TEMP_QUEUE:
            queue.account = self._account_of(subscription.peer)
        _check_number(queue.policy, address, len(queue.consumers))
        self._join(subscription)

    def _check_creation(self, address: str) -> None:
        """Refused when a queue of this name is not made by its use."""
        if not self.policies.of(address).auto_create:
            raise Refused(
                "not-found", f"there is no queue {address}, and only an administrator can make it here"
            )

    def _hand(self, command: c.Hand) -> None:
        """Messages for one subscription alone, in whatever way it is served otherwise."""
        subscription = command.subscription
        for envelope, body in command.messages:
            # It may have ended since they were asked for, or by one of them; a durable one's queue stays.
            if subscription.ended:
                return
            self._unrecorded += 1
            message = Message(envelope, body, self._unrecorded, self.now_ms, False)
            self._keep_for(subscription, message)

    def _unsubscribe(self, command: c.Unsubscribe) -> None:
        subscription = command.peer.subscriptions.get(command.id)
        if subscription is None:
            refusal = Refused("not-found", f"there is no subscription {command.id!r} on this connection")
            self._refuse(command.peer, command.receipt, refusal)
            return
        try:
            named = self._named_to_forget(subscription) if command.forget else None
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        self._end_subscription(subscription, keep_unsettled=command.keep_unsettled and named is None)
        if named is not None:
            self._delete_named(named)
        self._accept(command.peer, command.receipt)

    def _named_to_forget(self, subscription: Subscription) -> NamedSubscription:
        named = subscription.queue.named
        if named is None or not named.durable:
            raise Refused("conflict", f"subscription {subscription.id!r} is not durable; it keeps nothing")
        return self._deletable(named.name, subscription.peer.user, subscription)

    def _forget_name(self, command: c.Forget) -> None:
        peer = command.peer
        own = [
            subscription
            for subscription in peer.subscriptions.values()
            if subscription.queue.address == DURABLE_PREFIX + command.name
        ]
        try:
            named = self._deletable(command.name, command.owner, *own)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        for subscription in own:
            self._end_subscription(subscription, keep_unsettled=False)
        self._delete_named(named)
        self._accept(peer, command.receipt)

    def _end_subscription(self, subscription: Subscription, *, keep_unsettled: bool) -> None:
        peer = subscription.peer
        peer.subscriptions.pop(subscription.id, None)
        self._count_texts(subscription, -1)
        self._tell_of_consumer(ConsumerLeft(subscription))
        queue = subscription.queue
        self._withdraw(subscription)
        self._leave(subscription)
        destination = parse(subscription.address)
        if queue.named is not None:
            self._leave_named(queue.named)
            keep_unsettled = keep_unsettled and queue.durable
        elif not destination.is_queue:
            self._leave_fanouts(subscription)
            self._unlisten(subscription, destination)
            self._finish_replay(subscription)
            self._forget(queue)
            keep_unsettled = False
        if subscription.unsettled and not keep_unsettled:
            for tag in [tag for tag, (holder, _) in peer.unsettled.items() if holder is subscription]:
                _, message = peer.unsettled.pop(tag)
                self._give_back(subscription, message)

    def _keep_for(self, subscription: Subscription, message: Message) -> None:
        """Let a topic's message wait for one subscription, or end the subscription when too many wait."""
        queue = subscription.queue
        if subscription.replay is not None and message.recorded:
            self._postpone(subscription, subscription.replay, message)
            return
        depth = queue.depth
        if not self._has_room(queue, message.size):
            self._end_overrun(subscription)
        elif queue.in_order:
            self._follow(subscription, message)
        else:
            self._enqueue(queue, message.envelope, message.body, self.ids.of(message))
            if depth or not subscription.available:
                self.slowness.behind[subscription] = None

    def _end_outrun(self) -> None:
        """End subscriptions whose history was given up before they had read it."""
        outrun, self._outrun = self._outrun, {}
        for subscription, address in outrun.items():
            if subscription.replay is not None:
                detail = f"{address}: history was given up before subscription {subscription.id!r} read it"
                self._out.closes.append((subscription.peer, Refused("history-gone", detail)))
                self._end_subscription(subscription, keep_unsettled=False)

    def _keep_for_named(self, named: NamedSubscription, message: Message) -> Message:
        """Let a copy wait for whoever consumes a name; returns it, or the message where there is none."""
        queue = named.queue
        if queue.durable or self._has_room(queue, message.size):
            special = message.envelope.special
            copy = self._enqueue(queue, message.envelope, message.body, self.ids.of(message))
            if special is not None and special.group:
                self._note_group(queue, copy)
            return copy
        for subscription in queue.consumers[:]:
            self._end_overrun(subscription)
        return message

    def _leave_fanouts(self, subscription: Subscription) -> list[Message]:
        """Take a subscription out of the fan-outs of this batch; returns what it would have got."""
        missed: list[Message] = []
        for fanout in self._out.fanouts:
            if fanout.look is subscription.look and fanout.leave(subscription):
                missed += fanout.messages
        self.counters["delivered"] -= len(missed)
        subscription.handed_out -= len(missed)
        return missed

    def _close_fanouts(self) -> None:
        self._out.fanouts = [fanout for fanout in self._out.fanouts if fanout.close()]

    def _look_for_slow_consumers(self) -> None:
        """See who stands still while messages wait, and end those that have for longer than they may."""
        behind = self.slowness.behind
        for subscription in [s for s in behind if s.queue.gone or s.queue.first_lane() is None]:
            del behind[subscription]
        waiting = [queue for queue in self.queues.values() if queue.consumers and queue.first_lane()]
        candidates = [*behind, *(s for queue in waiting for s in queue.consumers if not queue.held)]
        for subscription, still_ms in self.slowness.look(candidates, self.now_ms):
            queue = subscription.queue
            policy = queue.policy if queue.durable else self.policies.of(subscription.address)
            if 0 < policy.slow_consumer_ms <= still_ms:
                self._end_slow(
                    subscription,
                    f"subscription {subscription.id!r} on {subscription.address} took nothing for "
                    f"{still_ms / 1000:.0f} s while messages waited for it, holding {subscription.unsettled} "
                    "unsettled; it was ended",
                )

    def _end_overrun(self, subscription: Subscription) -> None:
        self._end_slow(
            subscription,
            f"{subscription.queue.depth} messages wait for subscription {subscription.id!r} on "
            f"{subscription.address}, as many or as large ones as may; it reads too slowly and was ended",
        )

    def _end_slow(self, subscription: Subscription, detail: str) -> None:
        if subscription.ended:
            return  # one may be slow in two ways at once
        self._out.closes.append((subscription.peer, Refused("slow-consumer", detail)))
        self._tell_of_consumer(ConsumerSlow(subscription, detail))
        self._end_subscription(subscription, keep_unsettled=False)

    def _pause(self, command: c.Pause) -> None:
        peer = command.peer
        peer.paused = True
        for subscription in list(peer.subscriptions.values()):
            self._withdraw(subscription)
            if subscription.look is not None:
                self._serve_singly(subscription)

    def _serve_singly(self, subscription: Subscription) -> None:
        """Hold back what goes to a paused subscription, beginning with what this batch has for it."""
        missed = self._leave_fanouts(subscription)
        destination = parse(subscription.address)
        self._unlisten(subscription, destination)
        self._listen(subscription, destination)
        for message in missed:
            if not subscription.queue.gone:
                self._keep_for(subscription, message)

    def _resume(self, command: c.Resume) -> None:
        peer = command.peer
        peer.paused = False
        for subscription in peer.subscriptions.values():
            self._offer(subscription)
            if _goes_together(subscription) and subscription.look is None:
                # What waits goes into its mailbox at the end of this run, and mailboxes go before fan-outs.
                destination = parse(subscription.address)
                self._unlisten(subscription, destination)
                self._listen(subscription, destination)

    def _disconnect(self, command: c.Disconnect) -> None:
        peer = command.peer
        peer.paused = True  # nothing more is handed to it, whatever comes back below
        for subscription, message in peer.unsettled.values():
            self._give_back(subscription, message)
        peer.unsettled.clear()
        for subscription in list(peer.subscriptions.values()):
            self._end_subscription(subscription, keep_unsettled=True)
        self.peers.pop(peer, None)
        for address in peer.temporary:
            self._remove_queue(address)
        peer.temporary.clear()
        self._close_account(peer)
        self._accept(peer, command.receipt)

    def _remove_queue(self, address: str) -> None:
        queue = self.queues.pop(address, None)
        if queue is not None:
            self.counters["discarded"] += queue.depth
            self._forget(queue)
            self._tell_of_destination(DestinationGone(address))


def _check_replayable(command: c.Subscribe, destination: Destination) -> None:
    """Refused when there is no past to begin in."""
    if destination.kind != TOPIC:
        raise Refused("invalid", f"{destination.address} has no history; only topics are replayed")
    if command.name:
        raise Refused("unsupported", "a durable or shared subscription begins with what is published now")


def _goes_together(subscription: Subscription) -> bool:
    return subscription.ack == c.AUTO and subscription.look_key is not None and not subscription.peer.paused


def _check_filter(destination: Destination) -> None:
    """Refused when a topic filter could never match, or would look into the topics of others."""
    if destination.kind == TEMP_TOPIC and has_wildcard(destination.name):
        raise Refused("bad-destination", "a temporary topic is subscribed to by its name, not by a wildcard")
    if any(level in (">", "#") for level in destination.name.split(".")[:-1]):
        raise Refused(
            "bad-destination", f"{destination.name!r} has '>' or '#' before its end; they stand for the rest"
        )


def _check_number(policy: DestinationPolicy, address: str, consumers: int) -> None:
    """Refused when a destination has as many consumers as it may."""
    if policy.max_consumers and consumers >= policy.max_consumers:
        raise Refused("too-many", f"{address} has {policy.max_consumers} consumers, as many as it may have")
