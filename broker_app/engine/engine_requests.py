"""Requests of clients within the process to the engine, which are answered after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from broker_app.core import commands as c
from broker_app.core.errors import Refused
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine.engine import Backpressure, Engine
from broker_app.engine.record_reader import NotLoaded, RecordReader
from broker_app.journal.port import Damaged

_Value = TypeVar("_Value")
_Question = (
    c.Transfer
    | c.Insert
    | c.PublishBulk
    | c.DeleteBulkProducer
    | c.DeleteSubscription
    | c.Subscribe
    | c.Answer
)


def _read(
    records: RecordReader, fetched: Mapping[int, bytes | Damaged], read: Callable[[], _Value], _: object
) -> _Value:
    return records.using(fetched, read)


class _Request:
    __slots__ = ("future", "then")

    def __init__(self, then: Callable[[Any], Any]) -> None:
        self.then = then
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class EngineRequests(InnerReceiver):
    """The receiver behind the one peer of such a client, whose name is `user`."""

    def __init__(self, engine: Engine, user: str) -> None:
        self.engine = engine
        self.peer = Peer(self, user=user, detailed=True)
        self._open: set[_Request] = set()
        self.backpressure = Backpressure(engine, self.peer)

    async def ask(self, command: _Question, then: Callable[[Any], _Value]) -> _Value:
        """Return the result of `then(answer)`. It is called after the commit of the command and before any
        later command is carried out, also if the caller was cancelled. Raises Refused."""
        if self.engine.ended is not None:
            raise Refused("not-active", f"the node stopped: {self.engine.ended}")
        request = _Request(then)
        command.receipt = request
        self._open.add(request)
        self.engine.submit(command, _size(command))
        del command  # what it holds may be large, and is no longer needed once it is carried out
        answer: _Value = await request.future
        return answer

    async def inspect(self, read: Callable[[], _Value]) -> _Value:
        """Return the result of `read`, called between two batches, when all state is in the journal.

        It is called again when records had to be fetched for it.
        """
        records = self.engine.records
        fetched: dict[int, bytes | Damaged] = {}
        try:
            while True:
                try:
                    return await self.ask(c.Answer(self.peer, None), partial(_read, records, fetched, read))
                except NotLoaded as missing:
                    fetched |= await records.load(missing)
        finally:
            fetched.clear()  # tracebacks refer to it until they are collected

    def engine_ended(self, error: BaseException) -> None:
        """Fail all open requests."""
        for request in self._open:
            if not request.future.done():
                request.future.set_exception(Refused("store-unavailable", f"the node stopped: {error}"))
        self._open.clear()
        self.backpressure.writable()

    # ------------------------------------------------------------------ called by the engine

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        """Do nothing: a request subscribes only to create what it names, and leaves at once."""

    def flush(self, peer: Peer) -> None:
        receipts, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        for request, answer in receipts:
            self._open.discard(request)
            try:
                value = request.then(answer)
            except Exception as error:  # it is the client's failure, not the engine's
                _settle(request, error=error)
            else:
                _settle(request, value)
        for request, refusal in refusals:
            self._open.discard(request)
            _settle(request, error=refusal)


def _settle(request: _Request, value: object = None, *, error: Exception | None = None) -> None:
    if request.future.done():
        return
    if error is None:
        request.future.set_result(value)
    else:
        request.future.set_exception(error)


def _size(command: _Question) -> int:
    """About the bytes that a command holds in memory."""
    if isinstance(command, c.Transfer):
        return sum(100 + len(chosen.record or b"") for chosen in command.chosen)
    if isinstance(command, c.Insert):
        return sum(200 + len(body) for _, _, body in command.entries)
    if isinstance(command, c.PublishBulk):
        return sum(200 + len(body) for _, body in command.entries)
    return 0
