"""The client of the engine within the process: of the REST API, of JSON sessions, and of features.

A client is one peer. Answers of the engine go to a `PendingReply`, deliveries to the `DeliverySink` of
their subscription.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

from broker_app.base.internal_errors import internal_errors
from broker_app.base.large_record import bytes_of
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability.records import head_of
from broker_app.core.inspection.browse import LeftMemory
from broker_app.core.message import Message
from broker_app.core.model import Delivery, InnerReceiver, Peer, Subscription
from broker_app.engine.engine import Backpressure, Engine
from broker_app.engine.leases import SEPARATOR, Leases
from broker_app.engine.record_reader import NotLoaded
from broker_app.journal.errors import NoSuchPosition
from broker_app.journal.port import Damaged

_Found = TypeVar("_Found")
_Value = TypeVar("_Value")
_Command = (
    c.Transfer
    | c.Insert
    | c.PublishBulk
    | c.DeleteBulkProducer
    | c.CreateSubscription
    | c.DeleteSubscription
    | c.Subscribe
    | c.Answer
)


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
        """The engine has ended, and no reply will come; or what was to be done with it failed."""
        if not self._future.done():
            self._future.set_exception(error)

    def _count(self) -> None:
        self._awaited -= 1
        if not self._awaited and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> list[Message | None]:
        """The messages, once all replies have arrived. Raises Refused if one was a refusal."""
        await self._future
        if self.refusal is not None:
            raise self.refusal
        return self.messages


class BatchReply(PendingReply):
    """Waits for the replies to many messages, and keeps each separately: the message, or the refusal."""

    __slots__ = ("answers",)

    def __init__(self, awaited: int) -> None:
        super().__init__(awaited)
        self.answers: list[Message | Refused | None] = [None] * awaited

    def item(self, index: int) -> BatchReplyItem:
        """The receipt of one message."""
        return BatchReplyItem(self, index)

    def put(self, index: int, answer: Message | Refused | None) -> None:
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
        self._reply.put(self._index, refusal)

    def failed(self, error: Exception) -> None:
        self._reply.failed(error)


class _Question(PendingReply):
    """Makes something of an answer as soon as it comes: before any later command is carried out."""

    __slots__ = ("_result", "_then")

    def __init__(self, then: Callable[[Any], object]) -> None:
        super().__init__()
        self._then = then
        self._result: Any = None

    def accepted(self, message: Any) -> None:
        try:
            self._result = self._then(message)
        except Exception as error:  # it is the client's failure, not the engine's
            self.failed(error)
        else:
            super().accepted(None)

    async def result(self) -> Any:
        await self.wait()
        return self._result


class ReplyReceiver(Protocol):
    """A request that waits for a reply of the engine."""

    def accepted(self, message: Message | None) -> None: ...

    def refused(self, refusal: Refused) -> None: ...

    def failed(self, error: Exception) -> None: ...


class _Departure:
    """Has nothing refer to a client any more once the engine has carried out its end."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def accepted(self, message: Message | None) -> None:
        self._peer.receiver = _NO_RECEIVER

    def refused(self, refusal: Refused) -> None:
        self._peer.receiver = _NO_RECEIVER

    def failed(self, error: Exception) -> None:
        """Do nothing: the engine has ended, and lets go of everything."""


class _NoReceiver(InnerReceiver):
    """Receives what comes for clients that have left: the batch in which one leaves may have ended a
    subscription of it, or closed it in favour of its newer connection."""

    def close(self, refusal: Refused) -> None:
        """Do nothing."""

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        """Do nothing."""


_NO_RECEIVER: Final = _NoReceiver()


class DeliverySink(Protocol):
    """The receiver of the deliveries of one subscription."""

    def collect(self, tag: int, message: Message) -> None: ...

    def end(self, refusal: Refused) -> None:
        """The broker has ended the subscription."""


class EngineClient(InnerReceiver):
    """The receiver of one peer, whose name is `user`. `blocked_timeout_ms` is how long a message waits for
    room in a full queue; deliveries of a peer that is not `ordered` may be settled in any order."""

    def __init__(
        self, engine: Engine, user: str, *, blocked_timeout_ms: int = 0, ordered: bool = True
    ) -> None:
        self.engine = engine
        self.peer = Peer(
            self, user=user, detailed=True, blocked_timeout_ms=blocked_timeout_ms, ordered=ordered
        )
        self.leases = Leases(engine.broker, self.peer)
        self.backpressure = Backpressure(engine, self.peer)
        self._numbers = itertools.count(1)
        self._sinks: dict[str, DeliverySink] = {}
        self._open: set[ReplyReceiver] = set()
        #: called with the reason when a newer connection of its client has taken over
        self.closed: Callable[[Refused], None] | None = None

    # ------------------------------------------------------------------ commands

    def submit(self, command: c.Command, size: int = 0) -> None:
        self.engine.submit(command, size)

    def disconnect(self) -> None:
        """End the session of this client, whose unsettled messages are returned. The client is freed then,
        without the garbage collector."""
        self.closed = None
        self._sinks.clear()
        if self.engine.ended is None:
            self.submit(c.Disconnect(self.peer, _Departure(self.peer), abandon=True))

    def pending_reply(self, awaited: int = 1) -> PendingReply:
        """A PendingReply for `awaited` replies; pass it to commands as their receipt."""
        self.check_alive()
        pending_reply = PendingReply(awaited)
        self.watch(pending_reply)
        return pending_reply

    def batch_reply(self, awaited: int) -> BatchReply:
        """A BatchReply for `awaited` messages."""
        self.check_alive()
        batch_reply = BatchReply(awaited)
        self.watch(batch_reply)
        return batch_reply

    async def answer(self, pending_reply: PendingReply) -> list[Message | None]:
        """The reply of the engine to commands, after their commit. Raises Refused."""
        try:
            return await pending_reply.wait()
        finally:
            self._open.discard(pending_reply)

    def watch(self, waiting: ReplyReceiver) -> None:
        """Notify `waiting` when the engine fails, until it is forgotten."""
        self._open.add(waiting)

    def forget(self, waiting: ReplyReceiver) -> None:
        """Stop watching: it was answered, or its request has ended."""
        self._open.discard(waiting)

    async def ask(self, command: _Command, then: Callable[[Any], _Value]) -> _Value:
        """Return the result of `then(answer)`. It is called after the commit of the command and before any
        later command is carried out, also if the caller was cancelled. Raises Refused."""
        self.check_alive()
        question = _Question(then)
        command.receipt = question
        self._open.add(question)
        self.submit(command, _size(command))
        del command  # what it holds may be large, and is no longer needed once it is carried out
        try:
            answer: _Value = await question.result()
        finally:
            self._open.discard(question)
        return answer

    async def inspect(self, read: Callable[[], _Value]) -> _Value:
        """Return the result of `read`, called between two batches, when all state is in the journal.

        It is called again when records had to be fetched for it.
        """
        return await self._inspect(read, lambda record: record)

    async def inspect_heads(self, read: Callable[[], _Value]) -> _Value:
        """The same of a `read` that needs no bodies: those of the records that it reads, which may be many
        and large, are not kept until it has read all."""
        return await self._inspect(read, head_of)

    async def _inspect(self, read: Callable[[], _Value], kept: Callable[[bytes], bytes]) -> _Value:
        records = self.engine.records
        fetched: dict[int, bytes | Damaged] = {}

        def reading(_: object) -> _Value:
            return records.using(fetched, read)

        try:
            while True:
                try:
                    return await self.ask(c.Answer(self.peer, None), reading)
                except NotLoaded as missing:
                    loaded = await records.load(missing)
                    fetched |= {
                        position: record if isinstance(record, Damaged) else kept(record)
                        for position, record in loaded.items()
                    }
                    loaded.clear()
        finally:
            fetched.clear()  # tracebacks refer to it until they are collected

    @asynccontextmanager
    async def read_in_turn(
        self,
        find: Callable[[], _Found],
        stored: Callable[[_Found], Sequence[int]],
        read: Callable[[_Found, int], _Value],
    ) -> AsyncIterator[_Value]:
        """The result of `read(found, most)` of what `find` returns, both called as by `inspect`. If messages
        of it are `stored` at some positions in the journal, `read` is called when it is the turn of this
        reader, which may read `most` of them; `find` is called again only if one was removed meanwhile. The
        messages that were read are no longer in memory at the end of the `with` block."""

        def begin() -> tuple[_Found, Sequence[int], list[_Value]]:
            found = find()
            positions = stored(found)
            return found, positions, [] if positions else [read(found, 0)]

        found, positions, values = await self.inspect(begin)
        if not positions:
            yield values.pop()
            return
        async with self.engine.records.turn(positions) as first:

            def read_now() -> _Value:
                try:
                    return read(found, len(first))
                except (NoSuchPosition, LeftMemory):
                    return read(find(), len(first))

            yield await self.inspect(read_now)

    async def turn(self) -> None:
        """Wait until all commands submitted before are carried out."""
        await self.inspect(lambda: None)

    def check_alive(self) -> None:
        """Raises Refused if the engine has ended."""
        if self.engine.ended is not None:
            raise Refused("not-active", f"the node stopped: {self.engine.ended}")

    def engine_ended(self, error: BaseException) -> None:
        """Fail all requests that wait for a reply."""
        for waiting in list(self._open):
            waiting.failed(Refused("store-unavailable", f"the node stopped before it was done: {error}"))
        self._open.clear()
        self.backpressure.writable()

    # ------------------------------------------------------------------ subscriptions

    def open_collection(self, sink: DeliverySink, user: str) -> str:
        """A subscription id for `sink`, whose leases will belong to `user`."""
        subscription_id = f"{next(self._numbers)}{SEPARATOR}{user}"
        self._sinks[subscription_id] = sink
        return subscription_id

    def close_collection(self, subscription_id: str) -> None:
        self._sinks.pop(subscription_id, None)

    # ------------------------------------------------------------------ called by the engine

    def close(self, refusal: Refused) -> None:
        if self.closed is not None:
            self.closed(refusal)

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
        for waiting, answer in receipts:
            try:
                waiting.accepted(answer)
            except Exception as error:  # it is this request's failure, not that of the others
                internal_errors.note("answering a request", error)
                waiting.failed(
                    Refused("internal", "the node failed at this request; its log has the details")
                )
        if peer.refusals:
            refused, peer.refusals = peer.refusals, []
            for waiting, refusal in refused:
                if waiting is not None:
                    waiting.refused(refusal)

    def _hand_over(self, deliveries: list[Delivery]) -> None:
        unwanted: list[int] = []
        for subscription, tag, message in deliveries:
            sink = self._sinks.get(subscription.id)
            if sink is not None:
                sink.collect(tag, message)
            elif tag in self.peer.unsettled:
                unwanted.append(tag)
        if unwanted:
            self.submit(c.Return(self.peer, unwanted))


def _size(command: _Command) -> int:
    """About the bytes that a command holds in memory."""
    if isinstance(command, c.Transfer):
        return 100 * len(command.chosen) + bytes_of(one.record for one in command.chosen if one.record)
    if isinstance(command, c.Insert):
        return sum(200 + len(body) for _, _, body in command.entries)
    if isinstance(command, c.PublishBulk):
        return sum(200 + len(body) for _, body in command.entries)
    return 0
