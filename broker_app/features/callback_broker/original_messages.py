"""Originals in place of callback messages: fetched when these are delivered, and settled at the origin before
these are.

Commands of a client wait until what it settled before is settled at the origin, so that its receipts keep
their meaning. A subscription with ack auto settles nothing, so its originals are settled here, once they were
sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.model import Delivery, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.callback_broker.callback_messages import GONE, CallbackMessage, CallbackMessages
from broker_app.features.callback_broker.pending_queue import Fetched, PendingQueue, WantedMessage

#: milliseconds until a delivery is tried again whose original the origin does not deliver now
_LATER_MS: Final = 500
#: commands of a client that wait before nothing more is read from it
_MOST_WAITING: Final = 100
_QUEUES: Final = "/queue/"
_Settling = c.Settle | c.Return
#: a callback message that a command settles, and the tag of its delivery
_Held = tuple[int, CallbackMessage]


class OriginalMessages:
    """An interceptor of commands and of deliveries (`engine.interceptors`)."""

    def __init__(self, engine: Engine, callback_messages: CallbackMessages) -> None:
        self._engine = engine
        self._callback_messages = callback_messages
        self._queues: dict[str, list[PendingQueue]] = {}
        #: commands that wait, by client; the first one is being carried out
        self._waiting: dict[Peer, deque[tuple[c.Command, int]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ queues

    def add(self, queue: PendingQueue) -> None:
        """Fetch and settle originals of a queue."""
        self._queues.setdefault(queue.address, []).append(queue)

    def remove(self, queue: PendingQueue) -> None:
        """Forget a queue."""
        queues = self._queues[queue.address]
        queues.remove(queue)
        if not queues:
            del self._queues[queue.address]

    async def wait_idle(self) -> None:
        """Wait until everything that was settled here is settled at the origins."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def close(self) -> None:
        """Settle nothing more."""
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------------ deliveries

    def concerns(self, address: str) -> bool:
        """Return whether callback messages may wait there."""
        return address.startswith(_QUEUES)

    def take(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Have the originals of callback messages fetched; other messages leave at once."""
        others: list[Delivery] = []
        for delivery in deliveries:
            subscription, tag, message = delivery
            one = self._callback_messages.of(message)
            if one is None:
                others.append(delivery)
                continue
            one.queue.release(one)  # if it was returned just now
            one.returned = False
            if one.state == GONE or not tag:
                self._drop([WantedMessage(one, subscription, tag)])
            else:
                one.queue.want(one, subscription, tag)
        if others:
            self._send(peer, others)

    def fetched(self, fetched: Fetched) -> None:
        """Deliver originals; drop the callback messages of those that are gone."""
        by_peer: dict[Peer, list[Delivery]] = {}
        for wanted, original in fetched.originals:
            delivery = (wanted.subscription, wanted.tag, original)
            by_peer.setdefault(wanted.subscription.peer, []).append(delivery)
        for peer, deliveries in by_peer.items():
            self._send(peer, deliveries)
        self._drop(fetched.gone)
        for wanted in fetched.later:
            peer = wanted.subscription.peer
            self._submit(c.Return(peer, [wanted.tag], delay_ms=_LATER_MS, lenient=True))

    def _send(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Send deliveries. Those of subscriptions with ack auto are settled afterwards, by the last
        interceptor."""
        sent: list[Delivery] = []
        settle: list[int] = []
        for subscription, tag, message in deliveries:
            if subscription.inner_ack and tag and not self._is_held_behind(subscription):
                settle.append(tag)
                sent.append((subscription, 0, message))
            else:
                sent.append((subscription, tag, message))
        self._engine.deliver(self, peer, sent)
        if settle:
            self._start(self._settle(c.Settle(peer, settle, lenient=True), self._held(peer, settle)))

    def _is_held_behind(self, subscription: Subscription) -> bool:
        """Return whether another interceptor sees its deliveries after this one."""
        interceptors = self._engine.delivery_interceptors
        behind = interceptors[interceptors.index(self) + 1 :]
        return any(one.concerns(subscription.address) for one in behind)

    def _drop(self, deliveries: Iterable[WantedMessage]) -> None:
        for wanted in deliveries:
            wanted.one.state = GONE
            if wanted.tag:
                self._submit(c.Settle(wanted.subscription.peer, [wanted.tag], lenient=True))
            self._callback_messages.settled(wanted.one)

    # ------------------------------------------------------------------ commands

    def takes(self, command: c.Command, size: int) -> bool:
        """Hold what settles callback messages, and what a client sends after that."""
        if isinstance(command, c.Subscribe):
            return self._takes_subscribe(command, size)
        peer = getattr(command, "peer", None)
        if peer is not None and self._waits(peer, command, size):
            return True
        if isinstance(command, c.Settle | c.Return):
            held = self._held(command.peer, self._tags(command))
            if held:
                self._hold(command, size)
            return bool(held)
        if isinstance(command, c.Enlist) and isinstance(command.command, c.Settle | c.Return):
            return self._refuses_transaction(command, command.command)
        return False

    def _takes_subscribe(self, command: c.Subscribe, size: int) -> bool:
        command.inner_ack = command.inner_ack or command.address.startswith(_QUEUES)
        if self._waits(command.peer, command, size):
            return True
        if command.selector and command.address in self._queues:
            detail = "callback messages have no headers to select by: receive from the origin with a selector"
            self._submit(c.Refuse(command.peer, command.receipt, Refused("unsupported", detail)))
            return True
        return False

    def _waits(self, peer: Peer, command: c.Command, size: int) -> bool:
        """Return whether a command waits behind others of its client."""
        waiting = self._waiting.get(peer)
        if not waiting:
            return False
        waiting.append((command, size))
        if len(waiting) == _MOST_WAITING:
            peer.receiver.hold(True)
        return True

    def _refuses_transaction(self, command: c.Enlist, settling: _Settling) -> bool:
        if not self._held(command.peer, self._tags(settling)):
            return False
        detail = "a message that came through a callback broker cannot be settled in a transaction"
        refused = Refused("unsupported", detail)
        self._submit(c.MarkRollbackOnly(command.peer, command.transaction, refused))
        receipt = settling.receipt if settling.receipt is not None else command.receipt
        if receipt is not None:
            self._submit(c.Refuse(command.peer, receipt, refused))
        return True

    def _tags(self, command: _Settling) -> list[int]:
        """The deliveries that a command settles; none if it is invalid, which the core reports."""
        try:
            return list(self._engine.broker.deliveries.check_tags(command))
        except Refused:
            return []

    def _held(self, peer: Peer, tags: Iterable[int]) -> list[_Held]:
        """The callback messages among deliveries."""
        found = []
        for tag in tags:
            unsettled = peer.unsettled.get(tag)
            one = self._callback_messages.of(unsettled[1]) if unsettled is not None else None
            if one is not None:
                found.append((tag, one))
        return found

    def _hold(self, command: _Settling, size: int) -> None:
        if not command.peer.ordered:
            self._start(self._carry_out(command))
            return
        self._waiting[command.peer] = deque([(command, size)])
        self._start(self._carry_out_all(command.peer))

    async def _carry_out_all(self, peer: Peer) -> None:
        """Carry out the commands of a client that wait, in order."""
        waiting = self._waiting[peer]
        try:
            while waiting:
                command, size = waiting[0]
                if isinstance(command, c.Settle | c.Return):
                    await self._carry_out(command)
                elif not (isinstance(command, c.Enlist) and self._refuses(command)):
                    self._submit(command, size)
                waiting.popleft()
        finally:
            del self._waiting[peer]
            peer.receiver.hold(False)
            for command, size in waiting:
                self._submit(command, size)

    def _refuses(self, command: c.Enlist) -> bool:
        inner = command.command
        return isinstance(inner, c.Settle | c.Return) and self._refuses_transaction(command, inner)

    async def _carry_out(self, command: _Settling) -> None:
        held = self._held(command.peer, self._tags(command))
        if not held:
            self._submit(command)
        elif isinstance(command, c.Settle):
            await self._settle(command, held)
        else:
            await self._return(command, held)

    async def _settle(self, command: c.Settle, held: list[_Held]) -> None:
        """Settle at the origin, then here. What the origin does not confirm is delivered again."""
        errors = await self._at_origin(held, "ack")
        failed = {tag for tag, _ in errors}
        done = [tag for tag in self._tags(command) if tag not in failed]
        if not failed:
            self._submit(replace(command, tags=done, cumulative=False))
        else:
            self._submit(c.Settle(command.peer, done, lenient=True))
            self._submit(c.Return(command.peer, list(failed), lenient=True))
            if not command.lenient:
                self._submit(c.Refuse(command.peer, command.receipt, errors[0][1]))
        for tag, one in held:
            if tag not in failed:
                self._callback_messages.settled(one)

    async def _return(self, command: c.Return, held: list[_Held]) -> None:
        """Return at the origin, then here. Dead letters are made at the origin only."""
        dead = bool(command.dead_reason)
        members = {"delay_s": command.delay_ms / 1000, "reason": command.detail, "dead": dead}
        errors = await self._at_origin(held, "nack", **members)
        tags = self._tags(command)
        if dead:
            lost = {tag for tag, _ in errors}
            dropped = {tag: one for tag, one in held if tag not in lost}
            self._submit(c.Settle(command.peer, list(dropped), lenient=True))
            self._submit(c.Return(command.peer, list(lost), lenient=True))
            for one in dropped.values():
                self._callback_messages.settled(one)
            tags = [tag for tag in tags if tag not in dropped and tag not in lost]
        self._submit(replace(command, tags=tags, cumulative=False, lenient=True))

    async def _at_origin(
        self, held: list[_Held], operation: str, **members: Any
    ) -> list[tuple[int, Refused]]:
        """Settle originals; returns the deliveries that could not be settled, each with the reason."""
        results = await asyncio.gather(
            *(one.queue.settle(one, operation, **members) for _, one in held), return_exceptions=True
        )
        errors: list[tuple[int, Refused]] = []
        for (tag, _), result in zip(held, results, strict=True):
            if isinstance(result, Refused):
                errors.append((tag, result))
            elif isinstance(result, BaseException):
                raise result
        return errors

    def _submit(self, command: c.Command, size: int = 0) -> None:
        self._engine.resume(self, command, size)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            internal_errors.note("settling originals", error)
