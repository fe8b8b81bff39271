"""The client of the engine for the REST API.

One peer holds all unsettled deliveries of REST clients, because leases outlive requests. Replies of the
engine go to a `PendingReply`, deliveries to the `DeliverySink` of their subscription.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from broker_app.core.commands import Answer, Command, Return
from broker_app.core.errors import Refused
from broker_app.core.message import Message
from broker_app.core.model import Delivery, InnerReceiver, Peer, Subscription
from broker_app.core.unsettled import LARGE_BODY
from broker_app.engine import Backpressure, Engine
from broker_app.engine.record_reader import NotLoaded
from broker_app.internal_errors import internal_errors
from broker_app.journal.port import Damaged
from broker_app.net.rest import refusals
from broker_app.net.rest.refusals import Refusal
from broker_app.net.rest.replies import Header

_Value = TypeVar("_Value")
_SEPARATOR = "\0"


class PendingReply:
    """Waits for the replies to one or more commands: `messages` in the order of submission, or a refusal."""

    __slots__ = ("_awaited", "_future", "messages", "refusal")

    def __init__(self, awaited: int = 1) -> None:
        self._awaited = awaited
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.messages: list[Message | None] = []
        self.refusal: Refused | None = None

    def accepted(self, message: Message | None) -> None:
        self.messages.append(message)
        self._count()

    def refused(self, refusal: Refused) -> None:
        self.refusal = refusal
        self._count()

    def failed(self, error: Exception) -> None:
        """The engine has ended; no reply will come."""
        if not self._future.done():
            self._future.set_exception(error)

    def _count(self) -> None:
        self._awaited -= 1
        if not self._awaited and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> list[Message | None]:
        """The messages, once all replies have arrived. Raises Refusal if one was a refusal."""
        await self._future
        if self.refusal is not None:
            raise refusals.from_core(self.refusal)
        return self.messages


class BatchReply(PendingReply):
    """Waits for the replies to many messages, and keeps each separately: the message, or the refusal."""

    __slots__ = ("answers",)

    def __init__(self, awaited: int) -> None:
        super().__init__(awaited)
        self.answers: list[Message | Refusal | None] = [None] * awaited

    def item(self, index: int) -> BatchReplyItem:
        """The receipt of one message."""
        return BatchReplyItem(self, index)

    def put(self, index: int, answer: Message | Refusal | None) -> None:
        self.answers[index] = answer
        self._count()


class BatchReplyItem:
    """The reply to one message of a batch."""

    __slots__ = ("_index", "_reply")

    def __init__(self, batch_reply: BatchReply, index: int) -> None:
        self._reply = batch_reply
        self._index = index

    def accepted(self, message: Message | None) -> None:
        self._reply.put(self._index, message)

    def refused(self, refusal: Refused) -> None:
        self._reply.put(self._index, refusals.from_core(refusal))

    def failed(self, error: Exception) -> None:
        self._reply.failed(error)


class InspectRequest(PendingReply):
    """Reads the state of the broker between two batches, when all of it is in the journal."""

    __slots__ = ("_error", "_read", "_result")

    def __init__(self, read: Callable[[], object]) -> None:
        super().__init__()
        self._read = read
        self._result: object = None

    def accepted(self, message: Message | None) -> None:
        try:
            self._result = self._read()
        except Exception as error:  # it is this request's failure, not the engine's
            self.failed(error)
        else:
            super().accepted(message)

    async def result(self) -> object:
        await self.wait()
        return self._result


class ReplyReceiver(Protocol):
    """A request that waits for a reply of the engine."""

    def accepted(self, message: Message | None) -> None: ...

    def refused(self, refusal: Refused) -> None: ...

    def failed(self, error: Exception) -> None: ...


class DeliverySink(Protocol):
    """The receiver of the deliveries of one subscription."""

    def collect(self, tag: int, message: Message) -> None: ...

    def end(self, refusal: Refused) -> None:
        """The broker has ended the subscription."""


class EngineClient(InnerReceiver):
    """The receiver of the API's peer. `boot` distinguishes receipts of this process from those of former
    ones; `blocked_timeout_ms` is how long a message waits for room in a full queue."""

    #: settled deliveries that are remembered, to distinguish "settled twice" from "settled too late"
    REMEMBERED = 10_000

    def __init__(self, engine: Engine, blocked_timeout_ms: int = 0) -> None:
        self.engine = engine
        self.boot = secrets.token_hex(4)
        self._boot = self.boot.encode()
        self.peer = Peer(
            self, user="rest", detailed=True, blocked_timeout_ms=blocked_timeout_ms, ordered=False
        )
        self._numbers = itertools.count(1)
        self._sinks: dict[str, DeliverySink] = {}
        self._open: set[ReplyReceiver] = set()
        self.backpressure = Backpressure(engine, self.peer)
        self._settled: OrderedDict[int, None] = OrderedDict()

    def request_id(self, number: int) -> Header:
        """The header that names a request of this process."""
        return (b"request-id", b"%b-%x" % (self._boot, number))

    # ------------------------------------------------------------------ commands

    def pending_reply(self, awaited: int = 1) -> PendingReply:
        """A PendingReply for `awaited` replies; pass it to commands as their receipt."""
        self.check_alive()
        pending_reply = PendingReply(awaited)
        self.watch(pending_reply)
        return pending_reply

    def watch(self, waiting: ReplyReceiver) -> None:
        """Notify `waiting` when the engine fails, until it is forgotten."""
        self._open.add(waiting)

    def submit(self, command: Command, size: int = 0) -> None:
        self.engine.submit(command, size)

    def batch_reply(self, awaited: int) -> BatchReply:
        """A BatchReply for `awaited` messages."""
        self.check_alive()
        batch_reply = BatchReply(awaited)
        self.watch(batch_reply)
        return batch_reply

    async def answer(self, pending_reply: PendingReply) -> list[Message | None]:
        """The reply of the engine to commands, after their commit. Raises Refusal."""
        try:
            return await pending_reply.wait()
        finally:
            self._open.discard(pending_reply)

    def forget(self, waiting: ReplyReceiver) -> None:
        """Stop watching: it was answered, or its request has ended."""
        self._open.discard(waiting)

    async def inspect(self, read: Callable[[], _Value]) -> _Value:
        """Return the result of `read`, called between two batches; again when records had to be fetched."""
        records = self.engine.records
        fetched: dict[int, bytes | Damaged] = {}
        try:
            while True:
                try:
                    return await self._inspect(partial(records.using, fetched, read))
                except NotLoaded as missing:
                    fetched |= await records.load(missing)
        finally:
            fetched.clear()  # tracebacks refer to it until they are collected

    async def _inspect(self, read: Callable[[], _Value]) -> _Value:
        self.check_alive()
        inspect = InspectRequest(read)
        self._open.add(inspect)
        self.submit(Answer(self.peer, inspect))
        try:
            return await inspect.result()  # type: ignore[return-value]
        finally:
            self._open.discard(inspect)

    async def turn(self) -> None:
        """Wait until all commands submitted before are carried out."""
        await self.inspect(lambda: None)

    def check_alive(self) -> None:
        """Raises Refusal if the engine has ended."""
        if self.engine.ended is not None:
            raise Refusal("not-active", f"the node stopped: {self.engine.ended}")

    def engine_ended(self, error: BaseException) -> None:
        """Fail all requests that wait for a reply."""
        for pending_reply in list(self._open):
            pending_reply.failed(
                Refusal("store-unavailable", f"the node stopped before it was done: {error}")
            )
        self.backpressure.writable()

    # ------------------------------------------------------------------ leases

    def open_collection(self, sink: DeliverySink, user: str) -> str:
        """A subscription id for `sink`, whose leases will belong to `user`."""
        subscription_id = f"{next(self._numbers)}{_SEPARATOR}{user}"
        self._sinks[subscription_id] = sink
        return subscription_id

    def close_collection(self, subscription_id: str) -> None:
        self._sinks.pop(subscription_id, None)

    def receipt(self, tag: int) -> str:
        return f"r1.{self.boot}.{tag:x}"

    def lease_until_ms(self, tag: int) -> int:
        """The time when the lease of an unsettled delivery ends; 0 without a lease."""
        return self.engine.broker.unsettled.leases.until_ms(self.peer, tag)

    def release_body(self, tag: int, message: Message) -> None:
        """Keep the body of a delivery no longer, which was rendered for its client, if it is large."""
        if len(message.body) > LARGE_BODY and (held := self.peer.unsettled.get(tag)) is not None:
            self.engine.broker.unsettled.release_bodies([(held[0], tag, message)])

    def tag_of(self, receipt: str, user: str) -> int:
        """The delivery behind a receipt. Raises Refusal if it is no receipt, another user's, or lost."""
        parts = receipt.split(".")
        if (
            len(parts) != 3
            or parts[0] != "r1"
            or len(parts[1]) != 8
            or not _is_hex(parts[1])
            or not _is_hex(parts[2])
        ):
            raise Refusal("not-found", f"{receipt[:80]!r} is not the receipt of a received message")
        if parts[1] != self.boot:
            raise Refusal("lease-lost", "the node was restarted since; the message is delivered again")
        tag = int(parts[2], 16)
        held = self.peer.unsettled.get(tag)
        if held is None:
            raise self.lost(tag)
        if held[0].id.partition(_SEPARATOR)[2] != user:
            raise Refusal("not-allowed", "the receipt was given to another user", right="settle")
        return tag

    def source_of(self, tag: int) -> str:
        """The address that an unsettled delivery was received from."""
        return self.peer.unsettled[tag][0].address

    def lost(self, tag: int) -> Refusal:
        """The reason why a delivery cannot be settled any more."""
        if tag in self._settled:
            return Refusal("lease-lost", "the message was settled before", now_held_by="gone")
        return Refusal("lease-lost", "the lease ended before the message was settled; it is delivered again")

    def remember_settled(self, tags: list[int]) -> None:
        settled = self._settled
        for tag in tags:
            settled[tag] = None
        while len(settled) > self.REMEMBERED:
            settled.popitem(last=False)

    # ------------------------------------------------------------------ called by the engine

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        """Report the end of a subscription to its sink."""
        sink = self._sinks.get(subscription.id)
        if sink is not None:
            sink.end(refusal)

    def flush(self, peer: Peer) -> None:
        if peer.deliveries:
            deliveries, peer.deliveries = peer.deliveries, []
            self._hand_over(deliveries)
        receipts, peer.receipts = peer.receipts, []
        for pending_reply, message in receipts:
            try:
                pending_reply.accepted(message)
            except Exception as error:  # it is this request's failure, not that of the others
                internal_errors.note("answering a request", error)
                pending_reply.failed(
                    Refusal("internal", "the node failed at this request; its log has the details")
                )
        if peer.refusals:
            refused, peer.refusals = peer.refusals, []
            for pending_reply, refusal in refused:
                if pending_reply is not None:
                    pending_reply.refused(refusal)

    def _hand_over(self, deliveries: list[Delivery]) -> None:
        unwanted: list[int] = []
        for subscription, tag, message in deliveries:
            sink = self._sinks.get(subscription.id)
            if sink is not None:
                sink.collect(tag, message)
            elif tag in self.peer.unsettled:
                unwanted.append(tag)
        if unwanted:
            self.submit(Return(self.peer, unwanted))


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 16 and all(character in "0123456789abcdef" for character in text)
