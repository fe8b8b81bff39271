"""Arrival streams: notifications of a queue's messages as server-sent events. Nothing is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec

from broker_app.core.position import BEGINNING, UNKNOWN, Position
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import ArrivalFeed, Notification
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request
from broker_app.net.http.streams import MEDIA_TYPE, PING_S, stream
from broker_app.net.live_subscribers import SSE, LiveSubscriber, LiveSubscribers
from broker_app.rules.event import RECEIVE


class ArrivalStream:
    """Endpoint `…/events?mode=notify`. The id of an event is its `seq` with the tag of the journal: a
    browser that reconnects sends it as Last-Event-ID, and continues behind it."""

    def __init__(
        self,
        engine_client: EngineClient,
        waiting: WaitingRequests,
        live: LiveSubscribers,
        *,
        ping_s: float = PING_S,
    ) -> None:
        self._live = live
        self._engine_client = engine_client
        self._waiting = waiting
        self._ping_s = ping_s

    async def stream(self, request: Request, query: dict[str, str]) -> Reply | None:
        """The stream of a queue; `query` has `after`, or the request the header Last-Event-ID."""
        for name in ("credit", "selector"):
            if name in query:
                raise invalid(f"query/{name}", "is for mode=deliver; a notification takes nothing")
        destination = request.permitted(RECEIVE, "/queue/" + request.name)
        after = self._after(request, query)
        if request.method == "HEAD":
            return Reply(200, MEDIA_TYPE)
        engine = self._engine_client.engine
        wait = self._waiting.enter(request.client, destination)
        feed = ArrivalFeed(
            engine.broker,
            engine.records,
            self._engine_client.inspect_heads,
            destination.address,
            after,
            wake=wait.woken.set,
        )
        address = request.client.connection_info.address or ""
        live = self._live.add(request.client.identity, address, SSE, "notify", destination)
        try:
            await stream(request, wait, partial(self._events, feed, request.name, live), self._ping_s)
        finally:
            self._live.remove(live)
            feed.close()
            self._waiting.leave(wait)
        return None

    @staticmethod
    def _after(request: Request, query: dict[str, str]) -> Position:
        if "after" in query:
            after = Position.read(query["after"])
            if after is None:
                raise invalid("query/after", "must be the seq or the id of an event", query["after"])
            return after
        last = (request.header(b"last-event-id") or b"").decode("latin-1").strip()
        return Position.read(last) or UNKNOWN if last else BEGINNING

    @staticmethod
    async def _events(feed: ArrivalFeed, queue: str, live: LiveSubscriber) -> AsyncIterator[bytes]:
        if not feed.is_due:
            return
        found = await feed.take()
        if not found.is_empty:
            live.count(1)
            position = str(feed.position(found.seq)).encode()
            yield b"id: %b\nevent: arrived\ndata: %b\n\n" % (position, arrived(queue, found))


def arrived(queue: str, found: Notification) -> bytes:
    """A notification as JSON, in one line."""
    return msgspec.json.encode({"queue": queue, **found.members()})
