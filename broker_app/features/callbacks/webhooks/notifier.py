"""The notifier of one callback: it pushes what arrived in a queue and takes nothing from it.

A notification is made when it can be sent, and is sent until it is accepted: arrivals that come meanwhile are
in the next one. After a start everything that waits is reported again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from broker_app.base.process.task_supervisor import supervised
from broker_app.base.refused import Refused
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import MOST, ArrivalFeed, Notification
from broker_app.features.callbacks.webhooks import cloud_event, verdict
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.cloud_event import ARRIVED_TYPE, Event
from broker_app.features.callbacks.webhooks.host import Host
from broker_app.features.callbacks.webhooks.sender import Sender
from broker_app.features.callbacks.webhooks.verdict import ACCEPTED, ENDED, PushVerdict

log = logging.getLogger(__name__)

#: seconds that a push without an answer is waited for when it stops
STOP_S: Final = 3.0
#: seconds after which a journal that could not be read is read again
_BUSY_S: Final = 1.0


class Notifier:
    """The notifier of one queue, started and stopped once. `on_end` is called with the reason when the
    receiver ends the callback."""

    def __init__(
        self,
        callback: Callback,
        engine: Engine,
        requests: EngineClient,
        host: Host,
        sender: Sender,
        source: str,
        on_end: Callable[[str], None],
    ) -> None:
        self._callback = callback
        self._host = host
        self._sender = sender
        self._source = source
        self._on_end = on_end
        self._engine = engine
        self._requests = requests
        self._feed: ArrivalFeed | None = None
        #: what is being pushed
        self._found: Notification | None = None
        self._task: asyncio.Task[None] | None = None
        #: set when the host may have room
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        #: set when a wait for the next attempt is to end
        self._hurry = asyncio.Event()
        self.in_flight = 0
        #: arrivals that were reported together with an earlier one
        self.coalesced = 0

    def start(self) -> None:
        """Report what waits and what comes."""
        self._host.join(self)
        self._feed = ArrivalFeed(
            self._engine.broker, self._engine.records, self._requests.inspect_heads, self._callback.address
        )
        name = f"notifications of the callback {self._callback.name}"
        self._task = asyncio.create_task(supervised(name, partial(self._run, self._feed)), name=name)

    async def stop(self) -> None:
        """Report no more; wait a while for an answer."""
        self._stopping.set()
        self._hurry.set()
        self._room.set()
        if self._task is not None:
            if self.in_flight:
                await asyncio.wait([self._task], timeout=STOP_S)
            self._task.cancel()
            await asyncio.wait([self._task])
        self._host.leave(self)
        if self._feed is not None:
            self._feed.close()

    def retry(self) -> None:
        """Push now what waits for its next attempt."""
        self._hurry.set()

    def host_changed(self) -> None:
        """Look again whether a push may begin."""
        self._room.set()

    room_available = host_changed

    # ------------------------------------------------------------------ pushing

    async def _run(self, feed: ArrivalFeed) -> None:
        try:
            while not self._stopping.is_set():
                if self._found is None:
                    self._found = await self._take(feed.next)
                    self.coalesced += max(0, len(self._found.seqs) - 1)
                await self._push_until_accepted(feed, self._found)
        except Exception:
            if self._engine.ended is None:
                raise

    async def _take(self, take: Callable[[], Awaitable[Notification]]) -> Notification:
        """Take what arrived, as soon as the journal can be read."""
        while True:
            try:
                return await take()
            except Refused as refused:
                if refused.code != "busy":
                    raise
                log.warning("callback %s waits to read what arrived: %s", self._callback.name, refused.detail)
                await self._pause(_BUSY_S)

    async def _push_until_accepted(self, feed: ArrivalFeed, found: Notification) -> None:
        """Push a notification; what arrives until it is accepted is added to it."""
        event_id = f"ntf_{secrets.token_hex(12)}"
        attempt = 0
        while not self._stopping.is_set():
            await self._begin()
            if self._stopping.is_set():
                return
            attempt += 1
            done = await self._push(event_id, found, attempt)
            if done.outcome == ACCEPTED:
                self._found = None
                return
            if done.outcome == ENDED:
                self._on_end(done.detail)
                await self._stopping.wait()
                return
            await self._pause(done.retry_s(self._sender.callback, attempt))
            more = await self._take(feed.take)
            if more.seqs or more.more or more.pending != found.pending:
                # Another content is another notification.
                event_id = f"ntf_{secrets.token_hex(12)}"
                self._found = found = merged(found, more)

    async def _begin(self) -> None:
        """Wait until the host has room, and begin a push."""
        while not self._stopping.is_set():
            self._room.clear()
            if self._host.begin(self):
                self.in_flight = 1
                return
            await self._room.wait()

    async def _push(self, event_id: str, found: Notification, attempt: int) -> PushVerdict:
        done = PushVerdict(verdict.FAILED)
        try:
            done = await self._sender.push(self._event(event_id, found), attempt)
        finally:
            self.in_flight = 0
            self._host.end(done.effect, done.detail, done.pause_s)
        return done

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return

    def _event(self, event_id: str, found: Notification) -> Event:
        data: dict[str, object] = {"queue": self._callback.queue, **found.members()}
        subject = self._callback.address.lstrip("/")
        return cloud_event.of_json(event_id, ARRIVED_TYPE, self._source, subject, time.time(), data)


def merged(earlier: Notification, later: Notification) -> Notification:
    """Both notifications as one; messages that are in both are listed once."""
    known = dict(zip(earlier.seqs, earlier.ids, strict=True)) | dict(zip(later.seqs, later.ids, strict=True))
    seqs, ids = list(known)[:MOST], list(known.values())[:MOST]
    more = earlier.more or later.more or len(known) > MOST
    return Notification(max(earlier.seq, later.seq), seqs, ids, later.pending, more, later.journal)
