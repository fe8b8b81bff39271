"""The service `RE_deleteCopy`: deletes copies that another broker does not need any more.

    S RE_deleteCopy mom * delete_copies

A request has the header `mom-copy-queue` and the ids of copies, one a line. The copies are consumed by a
selector. A copy that has not arrived yet is looked for again later: the request is returned to its queue.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.message import Message
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.reflex.chain import ChainStep
from broker_app.reflex.local_services import QueueConsumer
from broker_app.reflex.shipped.copies import COPY_ID, COPY_QUEUE, MAX_IDS

#: seconds for which copies are looked for before the request is returned
SEARCH_S: Final = 2.0


class CopyDeletionService(QueueConsumer):
    """Consumes requests, and carries them out one by one."""

    def __init__(self, engine: Engine, address: str, step: ChainStep) -> None:
        super().__init__(engine, address)
        self._step = step
        self._waiting: list[tuple[int, Message]] = []
        self._search: _Search | None = None
        self._numbers = count(1)

    def take(self, tag: int, message: Message) -> None:
        self._waiting.append((tag, message))
        self._next()

    def _next(self) -> None:
        while self._search is None and self._waiting:
            tag, message = self._waiting.pop(0)
            queue = header_block.headers(message.envelope.block).get(COPY_QUEUE, "")
            wanted = set(message.body.decode(errors="replace").split())
            if not queue or not wanted or len(wanted) > MAX_IDS:
                reason = f"a request has the header {COPY_QUEUE} and 1 to {MAX_IDS} ids"
                self.reject(tag, "REJECTED", reason)
                continue
            done = partial(self._searched, tag, message)
            self._search = _Search(self._engine, f"/queue/{queue}", wanted, next(self._numbers), done)

    def _searched(self, tag: int, message: Message, missing: int) -> None:
        self._search = None
        if missing:
            self.retry(tag, message)
        else:
            self._step.statistics.decided(0, accepted=True)
            self.settle(tag)
        self._next()

    def stop(self) -> None:
        if self._search is not None:
            self._search.end()
        super().stop()


class _Search(InnerReceiver):
    """Consumes copies by their ids. `done` gets the number of those that were not found."""

    def __init__(
        self, engine: Engine, address: str, wanted: set[str], number: int, done: partial[None]
    ) -> None:
        self._engine = engine
        self._wanted = wanted
        self._done = done
        self._peer = Peer(self, user="reflexes", own=True)
        self._ended = False
        if address in engine.broker.destinations.queues:
            ids = ", ".join("'" + one.replace("'", "''") + "'" for one in sorted(wanted))
            subscribe = c.Subscribe(self._peer, str(number), address, c.INDIVIDUAL, len(wanted))
            subscribe.selector = f'"{COPY_ID}" IN ({ids})'
            engine.submit(subscribe)
        self._timer = asyncio.get_running_loop().call_later(SEARCH_S, self.end)

    def flush(self, peer: Peer) -> None:
        deliveries, peer.deliveries = peer.deliveries, []
        refused, peer.refusals = bool(peer.refusals), []
        if deliveries:
            self._engine.submit(c.Settle(peer, [tag for _, tag, _ in deliveries], lenient=True))
        for _, _, message in deliveries:
            self._wanted.discard(header_block.headers(message.envelope.block).get(COPY_ID, ""))
        if refused or not self._wanted:
            self.end()

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        """Look no longer: the broker has ended the subscription."""
        self.end()

    def end(self) -> None:
        """Look no longer."""
        if not self._ended:
            self._ended = True
            self._timer.cancel()
            self._engine.submit(c.Disconnect(self._peer))
            self._done(len(self._wanted))
