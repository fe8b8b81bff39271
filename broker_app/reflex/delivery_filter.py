"""The filter of deliveries: they are held until their chains have decided.

Deliveries of one subscription keep their order. A refused one becomes a dead letter. A subscription with ack
auto settles nothing, so its deliveries are settled here when they leave (`SetInnerAck`). Dead letter queues
and store-and-forward queues are not filtered: their messages are for operators, and for other brokers.

Chains begin, and deliveries leave, in turns of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.base.turns import StepsInTurns
from broker_app.core import commands as c
from broker_app.core.destination import is_forwarded, is_reserved
from broker_app.core.model import Delivery, Peer, Subscription
from broker_app.engine import Engine
from broker_app.reflex.api import service_of
from broker_app.reflex.chain import FAILED, Evaluation, HeaderBlocks, Outcome
from broker_app.reflex.chains import MessageChains, type_of
from broker_app.reflex.further import FurtherMessages
from broker_app.reflex.subject import MessageSubject

FILTERED: Final = "FILTERED"
#: addresses of subscriptions that are remembered
_MAX_CACHED: Final = 10_000
#: chains that begin at once, before others wait for a later turn
_AT_ONCE: Final = 16
#: bytes that a command of so many tags takes in the inbox of the engine
_TAG_BYTES: Final = 16


class HeldDelivery:
    """A delivery; `outcome` is None until it is decided."""

    __slots__ = ("delivery", "outcome")

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.outcome: Outcome | None = None


class DeliveryFilter:
    """Holds deliveries that have a chain: a delivery interceptor of the engine, while it `is_needed`.
    `changed` is called when that may have changed."""

    def __init__(
        self, engine: Engine, blocks: HeaderBlocks, further: FurtherMessages, changed: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._blocks = blocks
        self._further = further
        self._changed = changed
        #: whether any subscription has a chain
        self.is_needed = False
        self._loop = asyncio.get_running_loop()
        self._chains: MessageChains
        self._ids = engine.broker.turn.ids
        #: whether deliveries of an address are held, as far as that is known
        self._concerned: dict[str, bool] = {}
        #: addresses of which deliveries were held when the chains changed
        self._former: set[str] = set()
        self._lines: dict[Subscription, deque[HeldDelivery]] = {}
        self._deadline = Deadline(time.monotonic)
        #: those whose chains are still to begin, in order
        self._unbegun: deque[HeldDelivery] = deque()
        self._beginning = StepsInTurns(self._unbegun, self._begin_next)
        #: subscriptions with decided deliveries, to be sent in the next turn of the loop
        self._ready: dict[Subscription, None] = {}

    # ------------------------------------------------------------------ subscriptions

    def use(self, chains: MessageChains) -> None:
        """Use other chains for what is decided from now on."""
        self._chains = chains
        self._concerned.clear()
        self._former = {subscription.address for subscription in self._lines}
        self.check_subscriptions()

    def check_subscriptions(self) -> None:
        """Have the deliveries of subscriptions settled here, or no longer, as their chains require."""
        self.is_needed = bool(self._lines)
        for subscription in self._subscriptions():
            wanted = self._has_chain(subscription.address) or subscription in self._lines
            self.is_needed |= wanted
            wanted |= self._is_held_before(subscription)
            if wanted != subscription.inner_ack and (wanted is False or subscription.ack == c.AUTO):
                self._engine.submit(c.SetInnerAck(subscription, wanted))

    def _is_held_before(self, subscription: Subscription) -> bool:
        """Return whether another interceptor holds its deliveries before this one."""
        address = subscription.address
        return any(one is not self and one.concerns(address) for one in self._engine.delivery_interceptors)

    def _subscriptions(self) -> Iterator[Subscription]:
        for peer in list(self._engine.broker.unsettled.peers):
            yield from list(peer.subscriptions.values())

    def receives(self, command: c.Subscribe | c.DeliverChosen) -> None:
        """Prepare new deliveries: of a subscription, or of chosen messages."""
        if isinstance(command, c.Subscribe):
            wanted = command.inner_ack = self._has_chain(command.address)
        else:
            wanted = self._has_chain(command.source)
        if wanted and not self.is_needed:
            self.is_needed = True
            self._changed()

    def _has_chain(self, address: str) -> bool:
        wanted = self._concerned.get(address)
        if wanted is None:
            wanted = bool(self._chains) and self.is_filtered(address) and self._chains.may_match(address)
            if len(self._concerned) >= _MAX_CACHED:
                self._concerned.clear()
            self._concerned[address] = wanted
        return wanted

    # ------------------------------------------------------------------ deliveries come

    def concerns(self, address: str) -> bool:
        """Return whether deliveries of subscriptions to `address` are held."""
        return self._has_chain(address) or address in self._former

    def take(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Hold deliveries of one peer, and begin their chains: the first ones at once, unless others wait for
        a turn already."""
        first = 0 if self._unbegun else min(len(deliveries), _AT_ONCE)
        for delivery in deliveries:
            held = HeldDelivery(delivery)
            self._lines.setdefault(delivery[0], deque()).append(held)
            self._unbegun.append(held)
        for _ in range(first):
            self._begin_next()
        self._beginning.later()

    def _begin_next(self) -> None:
        held = self._unbegun.popleft()
        try:
            held.outcome = self._evaluate(held)
        except Exception as error:  # it is this delivery's failure, not that of the others
            internal_errors.note("the reflexes of a delivery", error)
            held.outcome = Outcome(accepted=False, reason=FAILED)
        if held.outcome is not None:
            self._send_soon(held.delivery[0])

    def _evaluate(self, held: HeldDelivery) -> Outcome | None:
        subscription, tag, message = held.delivery
        queue = subscription.queue
        address = queue.address if queue.durable and queue.named is None else message.envelope.address
        steps = self._chains.find(address, message.envelope)
        # One without a tag was settled before the filter was there.
        if not steps or not tag or subscription.peer.own:
            return Outcome()
        subject = MessageSubject(
            address,
            type_of(message.envelope.block),
            message.envelope,
            message.body,
            subscription.id.partition("\0")[2] or subscription.peer.user,
            self._ids.of(message),
            message.attempts + 1,
        )
        return Evaluation(steps, subject, self._blocks, partial(self._decided, held)).run()

    def _decided(self, held: HeldDelivery, outcome: Outcome) -> None:
        held.outcome = outcome
        self._send_soon(held.delivery[0])

    def _send_soon(self, subscription: Subscription) -> None:
        if not self._ready:
            self._loop.call_soon(self._send)
        self._ready[subscription] = None

    # ------------------------------------------------------------------ deliveries go

    def _send(self) -> None:
        """Send the decided deliveries that a turn has time for, of one subscription at least."""
        self._deadline.begin()
        ready, self._ready = self._ready, {}
        for at, subscription in enumerate(ready):
            if at and self._deadline.passed:
                self._send_soon(subscription)
            else:
                self._send_from(subscription, self._lines[subscription])
        if not self._lines and self._former:
            self._former.clear()
            self.check_subscriptions()
            self._changed()

    def _send_from(self, subscription: Subscription, line: deque[HeldDelivery]) -> None:
        """Send the first deliveries of a subscription, one at least, up to one that is not decided or the end
        of the turn."""
        peer = subscription.peer
        accepted: list[Delivery] = []
        tags: list[int] = []
        while line and (outcome := line[0].outcome) is not None:
            delivery = line.popleft().delivery
            _, tag, message = delivery
            if tag and tag not in peer.unsettled:
                pass  # it was returned meanwhile
            elif not outcome.accepted:
                detail = f"reflex {outcome.reflex}: {outcome.reason}"
                self._engine.submit(c.Return(peer, [tag], False, FILTERED, detail, lenient=True))
            else:
                self._further.publish(outcome.further)
                accepted.append((subscription, 0, message) if subscription.inner_ack else delivery)
                if subscription.inner_ack and tag:
                    tags.append(tag)
            if self._deadline.passed:
                break
        if accepted:
            self._engine.deliver(self, peer, accepted)
        if tags:
            self._engine.submit(c.Settle(peer, tags, lenient=True), _TAG_BYTES * len(tags))
        if not line:
            self._end_line(subscription)
        elif line[0].outcome is not None:
            self._send_soon(subscription)

    def _end_line(self, subscription: Subscription) -> None:
        """Nothing of a subscription is held any more."""
        del self._lines[subscription]
        wanted = self._has_chain(subscription.address) or self._is_held_before(subscription)
        if subscription.inner_ack and not wanted:
            self._engine.submit(c.SetInnerAck(subscription, False))

    def is_filtered(self, address: str) -> bool:
        """Return whether reflexes may see what is delivered from an address."""
        return not (
            is_reserved(service_of(address))
            or is_forwarded(address)
            or self._engine.broker.turn.policies.is_of_dead_letters(address)
        )
