"""The deliverer of one callback: a consumer that pushes each message, and settles it by the answer.

It has as many messages as may be in flight. While the host is not available, nothing is delivered to it, and
what has not been sent goes back without counting as an attempt. A message that failed keeps its place in
flight for a while, longer with each failure in a row, so that a receiver which refuses everything at once is
not asked all the time, and does not make dead letters of a whole queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base import causes
from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core import client_address
from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.core.message import Message
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.callbacks.webhooks import cloud_event, verdict
from broker_app.features.callbacks.webhooks.byte_budget import MAX_OF_CALLBACK, ByteBudget
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.host import Host
from broker_app.features.callbacks.webhooks.push_totals import PushTotals
from broker_app.features.callbacks.webhooks.sender import Sender
from broker_app.features.callbacks.webhooks.verdict import ACCEPTED, ENDED, NO_ATTEMPTS, PushVerdict

#: the id of its subscription
_ID: Final = "callback"
#: the receipt of a return after a failed push
_FAILED: Final = "failed"
#: seconds for which a failed message keeps its place: after the first failure, then twice as long, at most
_FIRST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 10.0
#: seconds that pushes without an answer are waited for when it stops
STOP_S: Final = 3.0


class Deliverer(InnerReceiver):
    """The deliverer of one subscription, started and stopped once. `on_end` is called when the receiver
    ends the callback, `on_loss` when the broker ends the subscription; both with the reason."""

    def __init__(
        self,
        callback: Callback,
        engine: Engine,
        host: Host,
        sender: Sender,
        budget: ByteBudget,
        totals: PushTotals,
        source: str,
        on_end: Callable[[str], None],
        on_loss: Callable[[str], None],
    ) -> None:
        self._callback = callback
        self._engine = engine
        self._host = host
        self._sender = sender
        self._budget = budget
        self._totals = totals
        self._source = source
        self._on_end = on_end
        self._on_loss = on_loss
        self._ids = engine.broker.turn.ids
        self._peer = Peer(self, user=f"callback:{callback.name}")
        self._peer.client = client_address.address_of(callback.owner, self._peer.user)
        self._subscribed = self._stopping = False
        #: the subscription in the core, once it had a delivery; and its dead letters that were counted
        self._subscription: Subscription | None = None
        self._dead_lettered = 0
        #: whether the engine delivers nothing, as it was asked
        self._paused = False
        #: delivered and not sent yet: (tag, message)
        self._unsent: deque[tuple[int, Message]] = deque()
        self._pushes: set[asyncio.Task[None]] = set()
        #: of them, those that have failed and keep their place
        self._resting = 0
        #: failures since the last push that was accepted
        self._failures = 0
        #: how often an operator has asked to push now
        self._retries = 0
        #: set, and replaced, when those that keep their place are to go on
        self._go_on = asyncio.Event()
        #: bytes of the bodies of all that it has
        self._bytes = 0

    @property
    def in_flight(self) -> int:
        """Pushes without an answer."""
        return len(self._pushes) - self._resting

    def start(self) -> None:
        """Subscribe, and push what comes."""
        self._host.join(self)
        self._peer.paused = self._paused = not self._host.is_available
        callback = self._callback
        credit = min(callback.max_in_flight, self._engine.broker.turn.limits.max_credit)
        self._engine.submit(
            c.Subscribe(
                self._peer,
                _ID,
                callback.address,
                c.INDIVIDUAL,
                credit,
                selector=callback.selector,
                name=callback.subscription,
                durable=bool(callback.subscription),
                receipt=_ID,
            )
        )

    async def stop(self) -> None:
        """Take nothing more, return what was not sent, and wait a while for answers."""
        self._stopping = True
        self._end_rests()
        self._host.leave(self)
        self._budget.stop_waiting(self._resume)
        self._pause()
        self._return_unsent()
        if self._pushes:
            await asyncio.wait(self._pushes, timeout=STOP_S)
        for push in self._pushes:
            push.cancel()
        if self._pushes:
            await asyncio.wait(self._pushes)
        self._engine.submit(c.Disconnect(self._peer))
        self._budget.give(self._bytes)
        self._bytes = 0

    def retry(self) -> None:
        """Push now what waits for its next attempt."""
        self._retries += 1
        self._end_rests()
        name = self._callback.subscription
        address = DURABLE_PREFIX + name if name else self._callback.address
        self._engine.submit(c.RetryDelayed(self._peer, address))

    # ------------------------------------------------------------------ called by the engine

    def flush(self, peer: Peer) -> None:
        """Push deliveries."""
        deliveries, peer.deliveries = peer.deliveries, []
        receipts, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        self._subscribed = self._subscribed or bool(receipts)
        if refusals and not self._subscribed:
            self._on_loss(refusals[0][1].detail)
        if _FAILED in receipts:
            self._count_dead_letters()
        for self._subscription, tag, message in deliveries:
            self._unsent.append((tag, message))
            self._take(message.size)
        if deliveries:
            self._push_unsent()

    def _count_dead_letters(self) -> None:
        if self._subscription is not None:
            self._totals.dead_lettered += self._subscription.dead_lettered - self._dead_lettered
            self._dead_lettered = self._subscription.dead_lettered

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        """Subscribe again later: the broker has ended the subscription."""
        self._on_loss(refusal.detail)

    # ------------------------------------------------------------------ called by the host

    def host_changed(self) -> None:
        """Wait while the host is not available."""
        if self._host.is_available:
            self._resume()
        else:
            self._pause()
            self._return_unsent()

    def room_available(self) -> None:
        """Another push may begin."""
        self._push_unsent()

    # ------------------------------------------------------------------ pushing

    def _push_unsent(self) -> None:
        if self._stopping or not self._host.is_available:
            self._return_unsent()
            return
        while self._unsent and self._host.begin(self):
            tag, message = self._unsent.popleft()
            push = asyncio.create_task(self._push(tag, message))
            self._pushes.add(push)
            push.add_done_callback(self._pushes.discard)

    async def _push(self, tag: int, message: Message) -> None:
        found = PushVerdict(verdict.FAILED, detail=causes.BROKER_STOPPED)
        retry_at = time.monotonic()
        try:
            found = await self._send(message)
            retry_at = time.monotonic() + found.retry_s(self._sender.callback, message.attempts + 1)
            if found.outcome == ACCEPTED:
                self._end_rests()
            elif found.outcome not in NO_ATTEMPTS and await self._rest():
                retry_at = 0.0
        finally:
            self._settle(tag, message, found, retry_at)

    async def _send(self, message: Message) -> PushVerdict:
        """The verdict on one push; the host has room for another one after it."""
        found = PushVerdict(verdict.FAILED)
        try:
            event = cloud_event.of_message(message, self._ids.of(message).decode(), self._source)
            found = await self._sender.push(event, message.attempts + 1)
        except Exception as error:  # a bug: this message failed, and others go on
            internal_errors.note("a webhook", error, self._callback.name)
            found = PushVerdict(verdict.FAILED, detail=f"internal error of the broker: {error!r}")
        finally:
            self._host.end(found.effect, found.detail, found.pause_s)
        return found

    def _end_rests(self) -> None:
        """Have failed messages give up their places: the receiver accepts again, or everything ends."""
        self._failures = 0
        if self._resting:
            self._go_on.set()
            self._go_on = asyncio.Event()

    async def _rest(self) -> bool:
        """Keep a failed message in its place for a while; True if it is to be pushed again at once."""
        self._failures += 1
        if self._stopping:
            return False
        rest_s = min(_FIRST_REST_S * 2.0 ** min(self._failures - 1, 20), _LONGEST_REST_S)
        retries = self._retries
        self._resting += 1
        try:
            async with asyncio.timeout(rest_s):
                await self._go_on.wait()
        except TimeoutError:
            pass
        finally:
            self._resting -= 1
        return self._retries > retries

    def _settle(self, tag: int, message: Message, found: PushVerdict, retry_at: float) -> None:
        self._give(message.size)
        if tag not in self._peer.unsettled:
            return  # the subscription was ended meanwhile, and the message returned
        if found.outcome == ACCEPTED:
            self._engine.submit(c.Settle(self._peer, (tag,)), 16)
        elif found.outcome in NO_ATTEMPTS:
            self._return((tag,))
            if found.outcome == ENDED:
                self._on_end(found.detail)
        else:
            delay_ms = max(1, round(1000 * (retry_at - time.monotonic())))
            self._engine.submit(
                c.Return(self._peer, (tag,), detail=found.detail, delay_ms=delay_ms, receipt=_FAILED)
            )

    def _return_unsent(self) -> None:
        unsent, self._unsent = self._unsent, deque()
        for _, message in unsent:
            self._give(message.size)
        self._return([tag for tag, _ in unsent if tag in self._peer.unsettled])

    def _return(self, tags: Sequence[int]) -> None:
        if tags:
            self._engine.submit(c.Return(self._peer, tags, attempted=False))

    # ------------------------------------------------------------------ memory

    def _take(self, size: int) -> None:
        self._bytes += size
        self._budget.take(size)
        if self._bytes > MAX_OF_CALLBACK or self._budget.exhausted:
            self._pause()
            if self._bytes <= MAX_OF_CALLBACK:
                self._budget.wait(self._resume)

    def _give(self, size: int) -> None:
        self._bytes -= size
        self._budget.give(size)
        if 2 * self._bytes <= MAX_OF_CALLBACK:
            self._resume()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._engine.submit(c.Pause(self._peer))

    def _resume(self) -> None:
        """Have messages delivered, if there is room and the host is available."""
        if not self._paused or self._stopping or not self._host.is_available or self._bytes > MAX_OF_CALLBACK:
            return
        if self._budget.exhausted:
            self._budget.wait(self._resume)
        else:
            self._paused = False
            self._engine.submit(c.Resume(self._peer))
