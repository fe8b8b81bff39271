"""Requests of jobs to the engine, which are answered after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from broker_app.core import commands as c
from broker_app.core.errors import Refused
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Backpressure, Engine

_Value = TypeVar("_Value")


class _Errand:
    __slots__ = ("future", "then")

    def __init__(self, then: Callable[[Any], Any]) -> None:
        self.then = then
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class EngineRequests(InnerReceiver):
    """The receiver behind the peer of all jobs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.peer = Peer(self, user="jobs", detailed=True)
        self._open: set[_Errand] = set()
        self.backpressure = Backpressure(engine)

    async def ask(self, command: c.Transfer | c.Insert | c.Answer, then: Callable[[Any], _Value]) -> _Value:
        """Return what `then` makes of the answer. It is called once the command is committed, before anything
        that follows from it can be decided, also if the caller was cancelled. Raises Refused."""
        if self.engine.ended is not None:
            raise Refused("not-active", f"the node stopped: {self.engine.ended}")
        errand = _Errand(then)
        command.receipt = errand
        self._open.add(errand)
        self.engine.submit(command, _size(command))
        answer: _Value = await errand.future
        return answer

    async def look(self, look: Callable[[], _Value]) -> _Value:
        """Return what `look` returns between two batches, when everything in the broker is in the journal."""
        return await self.ask(c.Answer(self.peer, None), lambda _: look())

    def engine_ended(self, error: BaseException) -> None:
        """Fail everything that waits for an answer that cannot come any more."""
        for errand in self._open:
            if not errand.future.done():
                errand.future.set_exception(Refused("store-unavailable", f"the node stopped: {error}"))
        self._open.clear()
        self.backpressure.writable()

    # ------------------------------------------------------------------ what the engine calls

    def flush(self, peer: Peer) -> None:
        receipts, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        for errand, answer in receipts:
            self._open.discard(errand)
            try:
                value = errand.then(answer)
            except Exception as error:  # it is the job's failure, not the engine's
                _settle(errand, error=error)
            else:
                _settle(errand, value)
        for errand, refusal in refusals:
            self._open.discard(errand)
            _settle(errand, error=refusal)


def _settle(errand: _Errand, value: object = None, *, error: Exception | None = None) -> None:
    if errand.future.done():
        return
    if error is None:
        errand.future.set_result(value)
    else:
        errand.future.set_exception(error)


def _size(command: c.Transfer | c.Insert | c.Answer) -> int:
    """About the bytes that a command holds in memory."""
    if isinstance(command, c.Transfer):
        return sum(100 + len(chosen.record or b"") for chosen in command.chosen)
    if isinstance(command, c.Insert):
        return sum(200 + len(body) for _, _, body in command.entries)
    return 0
